// The memory traffic of an AdamW update with next to no arithmetic. Built with -fopenmp, as weft/optim/for_blocks.cpp
// is.
#include <cstdint>

void traffic(float* __restrict p, float* __restrict m, float* __restrict v, const float* __restrict g, int64_t count) {
#pragma omp parallel for simd schedule(static)
  for (int64_t i = 0; i < count; ++i) {
    const float x = g[i] * 1e-30F;
    p[i] += x;
    m[i] += x;
    v[i] += x;
  }
}
