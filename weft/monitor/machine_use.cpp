#include "weft/monitor/machine_use.h"

#include <dlfcn.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <string_view>

#include "weft/base/clock.h"

namespace weft {
namespace {

int64_t ns_of(const timeval& time) { return (static_cast<int64_t>(time.tv_sec) * 1'000'000 + time.tv_usec) * 1000; }

int64_t cpu_ns() {
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  return ns_of(usage.ru_utime) + ns_of(usage.ru_stime);
}

}  // namespace

// Not getrusage() first: its peak is that of whoever started the process where that was larger.
ProcessMemory process_memory() {
  std::ifstream file("/proc/self/status");
  ProcessMemory out;
  std::string line;
  while (std::getline(file, line)) {
    const auto take = [&](std::string_view name, int64_t& bytes) {
      if (line.starts_with(name)) bytes = std::strtoll(line.c_str() + name.size(), nullptr, 10) * 1024;
    };
    take("VmHWM:", out.peak_bytes);
    take("VmRSS:", out.resident_bytes);
    take("RssFile:", out.file_bytes);
    take("RssShmem:", out.shared_bytes);
  }
  if (out.peak_bytes == 0) {  // not every kernel says it
    rusage usage = {};
    ::getrusage(RUSAGE_SELF, &usage);
    out.peak_bytes = std::max(out.resident_bytes, static_cast<int64_t>(usage.ru_maxrss) * 1024);
  }
  // The kernel counts in batches, and may say less than a moment before.
  static std::atomic<int64_t> most_bytes = 0;
  int64_t before = most_bytes.load();
  while (before < out.peak_bytes && !most_bytes.compare_exchange_weak(before, out.peak_bytes)) {
  }
  out.peak_bytes = std::max(before, out.peak_bytes);
  return out;
}

std::optional<int64_t> host_memory_bytes() {
  const int64_t pages = ::sysconf(_SC_PHYS_PAGES);
  return pages > 0 ? std::optional(pages * ::sysconf(_SC_PAGESIZE)) : std::nullopt;
}

std::optional<int64_t> device_memory_bytes() {
  const auto ask = reinterpret_cast<int (*)(size_t*, size_t*)>(::dlsym(RTLD_DEFAULT, "cudaMemGetInfo"));
  size_t free_bytes = 0, all_bytes = 0;
  if (ask == nullptr || ask(&free_bytes, &all_bytes) != 0) return std::nullopt;
  return static_cast<int64_t>(all_bytes);
}

// The three calls of NVML's stable interface that are needed.
class Nvml {
 public:
  explicit Nvml(const std::string& pci_bus_id) : library_(::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) return;
    const auto begin = find<int (*)()>("nvmlInit_v2");
    const auto by_bus = find<int (*)(const char*, void**)>("nvmlDeviceGetHandleByPciBusId_v2");
    rates_ = find<int (*)(void*, Rates*)>("nvmlDeviceGetUtilizationRates");
    if (begin == nullptr || by_bus == nullptr || rates_ == nullptr || begin() != 0) return;
    is_begun_ = true;
    if (by_bus(pci_bus_id.c_str(), &device_) != 0) device_ = nullptr;
  }
  ~Nvml() {
    if (is_begun_) {
      if (const auto end = find<int (*)()>("nvmlShutdown")) end();
    }
    if (library_ != nullptr) ::dlclose(library_);
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  std::optional<double> percent() const {
    Rates rates = {};
    if (device_ == nullptr || rates_(device_, &rates) != 0) return std::nullopt;
    return rates.gpu;
  }

 private:
  struct Rates {
    unsigned int gpu = 0, memory = 0;
  };

  template <typename Function>
  Function find(const char* name) const {
    return reinterpret_cast<Function>(::dlsym(library_, name));
  }

  void* library_;
  bool is_begun_ = false;
  void* device_ = nullptr;
  int (*rates_)(void*, Rates*) = nullptr;
};

MachineUse::MachineUse(const std::string& pci_bus_id) {
  if (!pci_bus_id.empty()) nvml_ = std::make_unique<Nvml>(pci_bus_id);
}

MachineUse::~MachineUse() = default;

std::optional<double> MachineUse::cpu_percent() {
  const int64_t at_ns = now_ns(), used_ns = cpu_ns();
  std::optional<double> out;
  if (looked_ns_ && at_ns > *looked_ns_)
    out = 100.0 * static_cast<double>(used_ns - used_ns_) / static_cast<double>(at_ns - *looked_ns_);
  looked_ns_ = at_ns;
  used_ns_ = used_ns;
  return out;
}

std::optional<double> MachineUse::gpu_percent() const { return nvml_ ? nvml_->percent() : std::nullopt; }

}  // namespace weft
