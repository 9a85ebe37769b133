// The words that CUDA's declarations are marked with, as a host compiler reads them. No wheel of torch's brings NVIDIA's file, so
// this one stands in for it; where a toolkit's folder is used, its own is found first.
#pragma once

#define CUDARTAPI
#define CUDARTAPI_CDECL
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __builtin_align__(bytes) __align__(bytes)
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __no_return__ __attribute__((noreturn))
#define __annotate__(word)
#define __location__(word)
#define __specialization_static

#define __host__
#define __device__
#define __global__
#define __shared__
#define __constant__
#define __managed__
#define __grid_constant__
#define __nv_pure__
#define __device_builtin__
#define __device_builtin_texture_type__
#define __device_builtin_surface_type__
#define __cudart_builtin__
#define __CUDA_ARCH_HAS_FEATURE__(feature) 0
