// Optimizer updates on a CUDA device: one pass over memory, as optim/core/kernels.h has it on the CPU, with the same operations in
// the same order, so that the same gradients give the same bits there and here. Compiled at run time (device_program.h), without
// any header, without contraction: where two operations are fused the source says so.
//
// One optimizer and one set of types at a time, which takes a fraction of a second: WEFT_UPDATE is Adam, Sgd, Lion or Adagrad;
// WEFT_PARAM, WEFT_STATE, WEFT_GRAD and WEFT_COPY are numbers of Element.
//
// Before this text the compiler is given core/factors.h and device_arguments_impl.h: what the host passes.

using namespace weft::optim;
using namespace weft::optim::on_device;

enum Element { kFloat32, kBFloat16, kFloat16 };
constexpr Element kParam = Element(WEFT_PARAM), kState = Element(WEFT_STATE), kGrad = Element(WEFT_GRAD),
                  kCopy = Element(WEFT_COPY);

// --- Elements of any type, one or four at a time ------------------------------------------------------------------------------

template <Element Type>
__device__ float widened(unsigned short bits) {
  if (Type == kBFloat16) return __uint_as_float(static_cast<unsigned>(bits) << 16);
  float out;
  asm("cvt.f32.f16 %0, %1;" : "=f"(out) : "h"(bits));
  return out;
}

// To the nearest, ties to even; NaN stays NaN.
template <Element Type>
__device__ unsigned short narrowed(float value) {
  if (Type == kFloat16) {
    unsigned short out;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(out) : "f"(value));
    return out;
  }
  const unsigned bits = __float_as_uint(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<unsigned short>((bits >> 16) | 0x40u);
  return static_cast<unsigned short>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

template <Element Type, int N>
__device__ void load(float (&out)[N], const void* data, long long at) {
  const float* const floats = static_cast<const float*>(data) + at;
  const unsigned short* const halves = static_cast<const unsigned short*>(data) + at;
  if constexpr (Type == kFloat32 && N == 1) {
    out[0] = *floats;
  } else if constexpr (Type == kFloat32) {
    const float4 v = *reinterpret_cast<const float4*>(floats);
    out[0] = v.x, out[1] = v.y, out[2] = v.z, out[3] = v.w;
  } else if constexpr (N == 1) {
    out[0] = widened<Type>(*halves);
  } else {
    const ushort4 v = *reinterpret_cast<const ushort4*>(halves);
    out[0] = widened<Type>(v.x), out[1] = widened<Type>(v.y), out[2] = widened<Type>(v.z), out[3] = widened<Type>(v.w);
  }
}

template <Element Type, int N>
__device__ void store(void* data, long long at, const float (&from)[N]) {
  float* const floats = static_cast<float*>(data) + at;
  unsigned short* const halves = static_cast<unsigned short*>(data) + at;
  if constexpr (Type == kFloat32 && N == 1) {
    *floats = from[0];
  } else if constexpr (Type == kFloat32) {
    *reinterpret_cast<float4*>(floats) = make_float4(from[0], from[1], from[2], from[3]);
  } else if constexpr (N == 1) {
    *halves = narrowed<Type>(from[0]);
  } else {
    *reinterpret_cast<ushort4*>(halves) = make_ushort4(narrowed<Type>(from[0]), narrowed<Type>(from[1]),
                                                       narrowed<Type>(from[2]), narrowed<Type>(from[3]));
  }
}

// --- Which part of which slice a block of threads has -------------------------------------------------------------------------

__device__ const Slice& slice_of_block(const Batch& batch) {
  int i = batch.num_slices - 1;
  while (batch.slices[i].first_chunk > blockIdx.x) --i;
  return batch.slices[i];
}

// Calls body.go<N>(at) for the elements of this thread.
template <typename Body>
__device__ void for_my_elements(const Slice& slice, Body body) {
  const long long chunk = static_cast<long long>(blockIdx.x - slice.first_chunk) * kChunk;
  if (slice.aligned && chunk + kChunk <= slice.count) {
#pragma unroll 1
    for (int round = 0; round < kRounds; ++round) {
      body.template go<kWidth>(chunk + (round * kThreads + static_cast<int>(threadIdx.x)) * kWidth);
    }
    return;
  }
  const long long end = min(chunk + kChunk, slice.count);
  for (long long at = chunk + threadIdx.x; at < end; at += kThreads) body.template go<1>(at);
}

// --- The optimizers -----------------------------------------------------------------------------------------------------------

__device__ float lerp(float from, float to, float weight) {
  const bool near_from = weight < 0.5f;
  return fmaf(near_from ? weight : weight - 1, to - from, near_from ? from : to);
}

__device__ float decayed(float grad, float weight_decay, float param) {
  return weight_decay == 0 ? grad : fmaf(weight_decay, param, grad);
}

struct Adam {
  AdamFactors f;
  __device__ void correct(const float* by_step) { f.correction = by_step[0], f.step_size = by_step[1]; }
  __device__ void operator()(float& param, float grad, float& momentum, float& variance) const {
    const float p = f.decoupled ? param * f.shrink : param;
    const float g = f.decoupled ? grad : fmaf(f.weight_decay, p, grad);
    momentum = lerp(momentum, g, f.from_grad);
    variance = fmaf(f.from_square * g, g, variance * f.keep_variance);
    param = p + f.step_size * momentum / (sqrtf(variance) / f.correction + f.eps);
  }
};

struct Sgd {
  SgdFactors f;
  __device__ void correct(const float* by_step) { f.first = by_step[0] != 0; }
  __device__ void operator()(float& param, float grad, float& momentum, float&) const {
    const float g = decayed(grad, f.weight_decay, param);
    float direction = g;
    if (f.momentum != 0) {
      momentum = f.first ? g : fmaf(f.from_grad, g, momentum * f.momentum);
      direction = f.nesterov ? fmaf(f.momentum, momentum, g) : momentum;
    }
    param = fmaf(-f.lr, direction, param);
  }
};

struct Lion {
  LionFactors f;
  __device__ void correct(const float*) {}
  __device__ void operator()(float& param, float grad, float& momentum, float&) const {
    const float update = lerp(momentum, grad, f.update_from_grad);
    const float sign = (update > 0 ? 1.0f : 0.0f) - (update < 0 ? 1.0f : 0.0f);
    momentum = lerp(momentum, grad, f.keep_from_grad);
    param = fmaf(-f.lr, sign, param * f.shrink);
  }
};

struct Adagrad {
  AdagradFactors f;
  __device__ void correct(const float* by_step) { f.step_size = by_step[1]; }
  __device__ void operator()(float& param, float grad, float&, float& sum) const {
    const float g = decayed(grad, f.weight_decay, param);
    sum = fmaf(g, g, sum);
    param = param + f.step_size * g / (sqrtf(sum) + f.eps);
  }
};

struct Elements {
  const Slice& slice;
  const WEFT_UPDATE& update;
  float grad_scale;

  template <int N>
  __device__ void go(long long at) const {
    float param[N], grad[N], momentum[N] = {}, variance[N] = {};
    load<kParam>(param, slice.param, at);
    load<kGrad>(grad, slice.grad, at);
    if (slice.momentum) load<kState>(momentum, slice.momentum, at);
    if (slice.variance) load<kState>(variance, slice.variance, at);
#pragma unroll
    for (int i = 0; i < N; ++i) update(param[i], grad[i] * grad_scale, momentum[i], variance[i]);
    store<kParam>(slice.param, at, param);
    if (slice.momentum) store<kState>(slice.momentum, at, momentum);
    if (slice.variance) store<kState>(slice.variance, at, variance);
    if (slice.copy) store<kCopy>(slice.copy, at, param);
  }
};

extern "C" __global__ void __launch_bounds__(kThreads)
    update(const __grid_constant__ Batch batch, WEFT_UPDATE by, float grad_scale, OnDevice there) {
  if (there.left_out && *there.left_out != 0) return;
  if (there.grad_scale) grad_scale = *there.grad_scale;
  if (there.by_step) by.correct(there.by_step);
  const Slice& slice = slice_of_block(batch);
  for_my_elements(slice, Elements{slice, by, grad_scale});
}

// --- What depends on how many updates were really made, which the device alone knows -------------------------------------------

extern "C" __global__ void prepare(ByStep s, const float* num_left_out, float* by_step) {
  const double count = static_cast<double>(s.step) - *num_left_out;
  if (s.kind == Kind::kSgd) by_step[0] = count == 1;
  if (s.kind == Kind::kAdagrad) by_step[1] = static_cast<float>(-(s.lr / (1 + (count - 1) * s.lr_decay)));
  if (s.kind == Kind::kAdam) {
    const double first = s.bias_correction ? 1 - pow(s.beta1, count) : 1,
                 second = s.bias_correction ? 1 - pow(s.beta2, count) : 1;
    by_step[0] = static_cast<float>(sqrt(second));
    by_step[1] = static_cast<float>(-(s.lr / first));
  }
}

// --- Norms --------------------------------------------------------------------------------------------------------------------

// Over the threads of a block, in an order that is always the same. The result is thread 0's.
__device__ double sum_of_block(double mine) {
  __shared__ double sums[kSumThreads];
  sums[threadIdx.x] = mine;
  for (unsigned width = blockDim.x / 2; width > 0; width /= 2) {
    __syncthreads();
    if (threadIdx.x < width) sums[threadIdx.x] += sums[threadIdx.x + width];
  }
  return sums[0];
}

struct Squares {
  const Slice& slice;
  double& sum;
  template <int N>
  __device__ void go(long long at) const {
    float grad[N];
    load<kGrad>(grad, slice.grad, at);
#pragma unroll
    for (int i = 0; i < N; ++i) sum += static_cast<double>(grad[i]) * grad[i];
  }
};

// One sum a block.
extern "C" __global__ void __launch_bounds__(kThreads) squares(const __grid_constant__ Batch batch, double* sums) {
  double mine = 0;
  const Slice& slice = slice_of_block(batch);
  for_my_elements(slice, Squares{slice, mine});
  const double all = sum_of_block(mine);
  if (threadIdx.x == 0) sums[blockIdx.x] = all;
}

// One block: adds `count` sums to *total.
extern "C" __global__ void add_up(const double* sums, long long count, double* total) {
  double mine = 0;
  for (long long i = threadIdx.x; i < count; i += blockDim.x) mine += sums[i];
  const double all = sum_of_block(mine);
  if (threadIdx.x == 0) *total += all;
}
