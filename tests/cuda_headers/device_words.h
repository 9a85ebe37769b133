// What the device's compiler knows without any header, as far as weft/optim/device_kernels.cu uses it.
#pragma once

#include <cmath>

#define __device__
#define __global__
#define __shared__ static
#define __grid_constant__
#define __launch_bounds__(threads)
#define asm(...) static_cast<void>(0)

struct dim3 {
  unsigned x, y, z;
};
extern const dim3 threadIdx, blockIdx, blockDim;
struct float4 {
  float x, y, z, w;
};
struct ushort4 {
  unsigned short x, y, z, w;
};
float4 make_float4(float x, float y, float z, float w);
ushort4 make_ushort4(unsigned short x, unsigned short y, unsigned short z, unsigned short w);
float __uint_as_float(unsigned bits);
unsigned __float_as_uint(float value);
long long min(long long a, long long b);
void __syncthreads();
