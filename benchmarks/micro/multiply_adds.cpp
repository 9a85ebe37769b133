// What bench_matmul's limit is measured with: chains of fused multiply-adds, enough of them to hide each other's latency.
#include <immintrin.h>

#include <cstdint>

[[gnu::target("avx512f")]] float multiply_adds(int64_t count) {
  constexpr int kChains = 24;
  __m512 sums[kChains];
  const __m512 factor = _mm512_set1_ps(0.999F), term = _mm512_set1_ps(0.001F);
#pragma GCC unroll 24
  for (int i = 0; i < kChains; ++i) sums[i] = _mm512_set1_ps(static_cast<float>(i));
  for (int64_t done = 0; done < count; done += kChains) {
#pragma GCC unroll 24
    for (int i = 0; i < kChains; ++i) {
      sums[i] = _mm512_fmadd_ps(sums[i], factor, term);
      asm("" : "+v"(sums[i]));  // so that no two of them are made one
    }
  }
  __m512 all = sums[0];
#pragma GCC unroll 24
  for (int i = 1; i < kChains; ++i) all = _mm512_add_ps(all, sums[i]);
  return _mm512_cvtss_f32(all);
}
