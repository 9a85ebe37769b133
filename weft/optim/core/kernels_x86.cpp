// The instruction set belongs to each function, not to the file: a helper of the standard library that is not inlined
// must stay one that any machine can run.
#include "weft/optim/core/kernels_impl.h"
#include "weft/optim/core/kernels_x86_impl.h"
#include "weft/optim/core/lamb_impl.h"

#define WEFT_AVX2 [[gnu::target("avx2,fma")]]
#define WEFT_AVX512 [[gnu::target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")]]

namespace weft::optim::detail {
namespace {

WEFT_AVX2 void adam_avx2(const AdamFactors& factors, const Slice& slice) { update_all(Adam{factors}, slice); }
WEFT_AVX2 void sgd_avx2(const SgdFactors& factors, const Slice& slice) { update_all(Sgd{factors}, slice); }
WEFT_AVX2 void lion_avx2(const LionFactors& factors, const Slice& slice) { update_all(Lion{factors}, slice); }
WEFT_AVX2 void adagrad_avx2(const AdagradFactors& factors, const Slice& slice) { update_all(Adagrad{factors}, slice); }
WEFT_AVX2 void lamb_directions_avx2(const LambFactors& factors, const Slice& slice, float* directions) {
  lamb_directions_all(factors, slice, directions);
}
WEFT_AVX2 void lamb_apply_avx2(const LambFactors& factors, float rate, const Slice& slice) {
  lamb_apply_all(factors, rate, slice);
}
WEFT_AVX2 void sums_avx2(const void* grad, Element type, size_t count, double* block_sums) {
  sum_all(grad, type, count, block_sums);
}

WEFT_AVX512 void adam_avx512(const AdamFactors& factors, const Slice& slice) { update_all(Adam{factors}, slice); }
WEFT_AVX512 void sgd_avx512(const SgdFactors& factors, const Slice& slice) { update_all(Sgd{factors}, slice); }
WEFT_AVX512 void lion_avx512(const LionFactors& factors, const Slice& slice) { update_all(Lion{factors}, slice); }
WEFT_AVX512 void adagrad_avx512(const AdagradFactors& factors, const Slice& slice) {
  update_all(Adagrad{factors}, slice);
}
WEFT_AVX512 void lamb_directions_avx512(const LambFactors& factors, const Slice& slice, float* directions) {
  lamb_directions_all(factors, slice, directions);
}
WEFT_AVX512 void lamb_apply_avx512(const LambFactors& factors, float rate, const Slice& slice) {
  lamb_apply_all(factors, rate, slice);
}
WEFT_AVX512 void sums_avx512(const void* grad, Element type, size_t count, double* block_sums) {
  sum_all(grad, type, count, block_sums);
}

constexpr Kernels kAvx2 = {"avx2",          adam_avx2, sgd_avx2, lion_avx2, adagrad_avx2, lamb_directions_avx2,
                           lamb_apply_avx2, sums_avx2};
constexpr Kernels kAvx512 = {"avx512",          adam_avx512,    sgd_avx512,
                             lion_avx512,       adagrad_avx512, lamb_directions_avx512,
                             lamb_apply_avx512, sums_avx512};

bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

}  // namespace

std::vector<const Kernels*> x86_kernels() {
  std::vector<const Kernels*> found;
  if (has_avx2()) found.push_back(&kAvx2);
  if (has_avx512()) found.push_back(&kAvx512);
  return found;
}

}  // namespace weft::optim::detail
