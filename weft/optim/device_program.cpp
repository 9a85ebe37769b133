#include "weft/optim/device_program.h"

#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/log.h"
#include "weft/base/text.h"

namespace weft::optim {
namespace {

// The few declarations of nvrtc.h and cuda.h that are used, under their names there. Both interfaces are C and stable.
// NOLINTBEGIN(readability-identifier-naming)
struct Nvrtc {
  int (*nvrtcCreateProgram)(void** program, const char* source, const char* name, int, const char* const*,
                            const char* const*);
  int (*nvrtcCompileProgram)(void* program, int num_options, const char* const* options);
  int (*nvrtcGetProgramLogSize)(void* program, size_t* bytes);
  int (*nvrtcGetProgramLog)(void* program, char* log);
  int (*nvrtcGetCUBINSize)(void* program, size_t* bytes);
  int (*nvrtcGetCUBIN)(void* program, char* code);
  int (*nvrtcDestroyProgram)(void** program);
};
struct Driver {
  int (*cuDeviceGet)(int* device, int ordinal);
  int (*cuDeviceGetAttribute)(int* value, int attribute, int device);
  int (*cuModuleLoadData)(void** module, const void* code);
  int (*cuModuleGetFunction)(void** function, void* module, const char* name);
  int (*cuLaunchKernel)(void* function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned shared,
                        void* stream, void** arguments, void** extra);
  int (*cuGetErrorString)(int code, const char** text);
};
// NOLINTEND(readability-identifier-naming)
constexpr int kComputeMajor = 75, kComputeMinor = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*

using CurrentStream = int (*)(int32_t device, void** stream);

struct Libraries {
  Nvrtc nvrtc = {};
  Driver driver = {};
  CurrentStream current_stream = nullptr;
  std::string missing;  // empty: nothing
};

// torch's own stub of the two comes first: its dependencies are the versions that torch was built for.
std::vector<void*> open_libraries() {
  std::vector<void*> out;
  for (const char* const name : {"libcaffe2_nvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12", "libcuda.so.1"}) {
    if (void* const handle = dlopen(name, RTLD_LAZY | RTLD_LOCAL)) out.push_back(handle);
  }
  return out;
}

template <typename Function>
void find(Function& into, const char* name, const std::vector<void*>& handles, std::string& missing) {
  for (void* const handle : handles) {
    into = reinterpret_cast<Function>(dlsym(handle, name));
    if (into != nullptr) return;
  }
  if (missing.empty()) missing = name;
}

Libraries load_libraries() {
  Libraries out;
  const std::vector<void*> handles = open_libraries();
#define WEFT_FIND(library, name) find(out.library.name, #name, handles, out.missing)
  WEFT_FIND(nvrtc, nvrtcCreateProgram);
  WEFT_FIND(nvrtc, nvrtcCompileProgram);
  WEFT_FIND(nvrtc, nvrtcGetProgramLogSize);
  WEFT_FIND(nvrtc, nvrtcGetProgramLog);
  WEFT_FIND(nvrtc, nvrtcGetCUBINSize);
  WEFT_FIND(nvrtc, nvrtcGetCUBIN);
  WEFT_FIND(nvrtc, nvrtcDestroyProgram);
  WEFT_FIND(driver, cuDeviceGet);
  WEFT_FIND(driver, cuDeviceGetAttribute);
  WEFT_FIND(driver, cuModuleLoadData);
  WEFT_FIND(driver, cuModuleGetFunction);
  WEFT_FIND(driver, cuLaunchKernel);
  WEFT_FIND(driver, cuGetErrorString);
#undef WEFT_FIND
  // Part of torch's C interface for compiled models, which is kept stable; c10::Stream tells its handle in new versions only.
  find(out.current_stream, "aoti_torch_get_current_cuda_stream", {RTLD_DEFAULT}, out.missing);
  return out;
}

const Libraries& libraries() {
  static const Libraries kAll = load_libraries();
  return kAll;
}

[[noreturn]] void fail(std::string_view doing, std::string what) {
  throw Error(ErrorKind::kEnvironment, {.title = cat("cannot ", doing, " a kernel for the device"),
                                        .what = std::move(what),
                                        .where = "",
                                        .fix = "WEFT_DEVICE_KERNELS=0 uses torch's kernels instead"});
}

void check_driver(int code, std::string_view doing) {
  if (code == 0) return;
  const char* text = nullptr;
  libraries().driver.cuGetErrorString(code, &text);
  fail(doing, cat("CUDA error ", code, ": ", text == nullptr ? "unknown" : text));
}

std::string architecture_of(c10::Device device) {
  const Driver& driver = libraries().driver;
  int handle = 0, major = 0, minor = 0;
  check_driver(driver.cuDeviceGet(&handle, device.index()), "compile");
  check_driver(driver.cuDeviceGetAttribute(&major, kComputeMajor, handle), "compile");
  check_driver(driver.cuDeviceGetAttribute(&minor, kComputeMinor, handle), "compile");
  return cat("--gpu-architecture=sm_", major, minor);
}

std::string log_of(void* program) {
  size_t bytes = 0;
  libraries().nvrtc.nvrtcGetProgramLogSize(program, &bytes);
  std::string out(bytes, '\0');
  libraries().nvrtc.nvrtcGetProgramLog(program, out.data());
  return out;
}

// Without contraction, so that an operation is rounded where the source says so, as on the CPU.
std::string compile(std::string_view source, const std::vector<std::string>& options) {
  const Nvrtc& nvrtc = libraries().nvrtc;
  void* program = nullptr;
  if (nvrtc.nvrtcCreateProgram(&program, std::string(source).c_str(), "weft.cu", 0, nullptr, nullptr) != 0) {
    fail("compile", "nvrtcCreateProgram failed");
  }
  const std::unique_ptr<void*, int (*)(void**)> owner(&program, nvrtc.nvrtcDestroyProgram);
  std::vector<const char*> all = {"--std=c++17", "--fmad=false"};
  for (const std::string& option : options) all.push_back(option.c_str());
  if (nvrtc.nvrtcCompileProgram(program, static_cast<int>(all.size()), all.data()) != 0) {
    fail("compile", log_of(program));
  }
  size_t bytes = 0;
  nvrtc.nvrtcGetCUBINSize(program, &bytes);
  std::string code(bytes, '\0');
  if (bytes == 0 || nvrtc.nvrtcGetCUBIN(program, code.data()) != 0) fail("compile", "no machine code came of it");
  return code;
}

bool wanted() {
  const char* const value = std::getenv("WEFT_DEVICE_KERNELS");
  return value == nullptr || std::string_view(value) != "0";
}

}  // namespace

struct DeviceProgramMaker {
  static std::unique_ptr<DeviceProgram> make(c10::Device device, std::string_view source,
                                             std::vector<std::string> options) {
    const c10::DeviceGuard guard(device);
    at::empty({1}, at::TensorOptions().device(
                       device));  // the first thing on a device makes its context, which modules live in
    auto out = std::make_unique<DeviceProgram>();
    out->device_ = device;
    options.push_back(architecture_of(device));
    const std::string code = compile(source, options);
    check_driver(libraries().driver.cuModuleLoadData(&out->module_, code.data()), "load");
    return out;
  }
  // Whoever cannot compile still trains, with torch's kernels.
  static std::unique_ptr<DeviceProgram> try_to_make(c10::Device device, std::string_view source,
                                                    const std::vector<std::string>& options) {
    if (!wanted()) return nullptr;
    try {
      if (!libraries().missing.empty()) fail("compile", cat(libraries().missing, " is in no library found here"));
      return make(device, source, options);
    } catch (const Error& error) {
      static std::atomic<bool> has_told = false;
      if (!has_told.exchange(true)) {
        log_warn("updates on ", device.str(), " go through torch's kernels, which take longer: ", error.text().title,
                 ": ", error.text().what);
      }
      return nullptr;
    }
  }
};

void DeviceProgram::launch(const char* kernel, unsigned num_blocks, unsigned num_threads,
                           std::initializer_list<const void*> arguments) const {
  const Libraries& all = libraries();
  const c10::DeviceGuard guard(device_);
  void *function = nullptr, *stream = nullptr;
  check_driver(all.driver.cuModuleGetFunction(&function, module_, kernel), "find");
  if (all.current_stream(device_.index(), &stream) != 0) fail("launch", "torch names no stream");
  std::vector<void*> pointers;
  for (const void* const argument : arguments) pointers.push_back(const_cast<void*>(argument));  // only read
  check_driver(
      all.driver.cuLaunchKernel(function, num_blocks, 1, 1, num_threads, 1, 1, 0, stream, pointers.data(), nullptr),
      "launch");
}

const DeviceProgram* device_program(c10::Device device, std::string_view source,
                                    const std::vector<std::string>& options) {
  static std::mutex mutex;
  static std::map<std::pair<c10::DeviceIndex, std::vector<std::string>>, std::unique_ptr<DeviceProgram>> programs;
  if (!device.is_cuda()) return nullptr;
  const std::scoped_lock lock(mutex);
  const auto [found, is_new] = programs.try_emplace({device.index(), options});
  if (is_new) found->second = DeviceProgramMaker::try_to_make(device, source, options);
  return found->second.get();
}

}  // namespace weft::optim
