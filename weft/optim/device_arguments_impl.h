// What kernels on a device take, by value. Their compiler is given this text as it stands (device_kernels.cu): nothing may be
// included here, and types have names that both know. Internal to the room.
#pragma once

namespace weft::optim::on_device {

struct Slice {
  void* param = nullptr;
  const void* grad = nullptr;
  void* momentum = nullptr;  // null: the optimizer has none
  void* variance = nullptr;
  void* copy = nullptr;  // null: none
  long long count = 0;
  unsigned first_chunk = 0;  // of the launch; the next slice's ends it
  bool aligned = false;      // four elements at a time may be loaded everywhere
};

constexpr int kMaxSlices = 48;
struct Batch {
  Slice slices[kMaxSlices];
  int num_slices = 0;
};
// What every device takes as parameters of one launch.
static_assert(sizeof(Batch) + 256 <= 4096);

// What is known only on the device. Null: the number passed beside it counts.
struct OnDevice {
  const float* grad_scale = nullptr;
  const float* left_out = nullptr;  // not 0: do nothing
  const float* by_step = nullptr;   // what prepare() wrote
};

enum class Kind : unsigned char { kAdam, kSgd, kLion, kAdagrad };

// What prepare() makes numbers of.
struct ByStep {
  double lr = 0, beta1 = 0, beta2 = 0, lr_decay = 0;
  long long step = 0;  // updates, those left out too
  Kind kind = Kind::kAdam;
  bool bias_correction = true;
};

constexpr int kThreads = 256, kWidth = 4, kRounds = 4, kSumThreads = 1024;
constexpr int kChunk = kThreads * kWidth * kRounds;  // elements of a block of threads

}  // namespace weft::optim::on_device
