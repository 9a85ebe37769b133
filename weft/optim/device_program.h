// A program for a CUDA device, compiled on the machine it runs on from source text that is part of weft: no CUDA compiler and no
// CUDA headers when weft is built, and machine code for the very device. NVRTC and the driver are found at run time, NVRTC
// where torch has its own.
//
//   const DeviceProgram* program = device_program(device, source, {"-DWEFT_UPDATE=Adam"});
//   if (program != nullptr) program->launch("update", blocks, threads, {&batch, &factors});   // nullptr: not here; the log has why
//
// Programs live as long as the process. Threads: any. Failure: device_program() gives nullptr and never throws for want of a
// library or a device; launch() throws Error(kEnvironment) with the driver's word for it.
#pragma once

#include <c10/core/Device.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace weft::optim {

class DeviceProgram {
 public:
  // Asks for a kernel on torch's current stream of the device, and does not wait for it. `arguments` point to the kernel's
  // parameters, in order; they are copied before this returns.
  void launch(const char* kernel, unsigned num_blocks, unsigned num_threads,
              std::initializer_list<const void*> arguments) const;

 private:
  friend struct DeviceProgramMaker;
  c10::Device device_ = c10::kCPU;
  void* module_ = nullptr;
};

// Compiled at the first call with these options for a device, in about a second. WEFT_DEVICE_KERNELS=0: nullptr.
const DeviceProgram* device_program(c10::Device device, std::string_view source,
                                    const std::vector<std::string>& options);

}  // namespace weft::optim
