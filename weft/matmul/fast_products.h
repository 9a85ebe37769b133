// Products of fp32 matrices on CPUs in less time and with the same bits: while one of these lives, torch's operators mm and addmm go
// through Choices, forward, backward and wherever else they are called in the process.
//
//   const matmul::FastProducts fast;      // the engine holds one unless "weft": {"matmul": "torch"}
//
// Why: the BLAS inside torch's packages takes vectors of 256 bits on processors of AMD, however wide theirs are. Where it takes all there
// is, Choices finds nothing to win and torch's own way stays.
//
// Any number of them, from any threads. The operators are registered when the program is loaded: the table in which torch looks them up
// must not change while another thread looks. Without a FastProducts they pass everything on.
#pragma once

namespace weft::matmul {

class FastProducts {
 public:
  FastProducts();
  ~FastProducts();
  FastProducts(const FastProducts&) = delete;
  FastProducts& operator=(const FastProducts&) = delete;
};

}  // namespace weft::matmul
