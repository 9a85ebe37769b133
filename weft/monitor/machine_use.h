// What this process uses of the machine: memory, cores, the GPU's own word on how busy it is.
//
// MachineUse is a value with one owner; its first look has no cpu_percent. The GPU's figure comes from NVML where that library is
// there, loaded at run time: nothing links to it. Failure: none; what cannot be read is absent.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace weft {

// What of this process is resident: now, and at the most since its program began; of it now, files that are mapped, and memory that it
// shares with others. 0 where the system does not say.
struct ProcessMemory {
  int64_t resident_bytes = 0, peak_bytes = 0;
  int64_t file_bytes = 0, shared_bytes = 0;
};
ProcessMemory process_memory();

// Of this host.
std::optional<int64_t> host_memory_bytes();
// Of the CUDA device that this thread uses, where the process has the CUDA runtime.
std::optional<int64_t> device_memory_bytes();

class Nvml;

class MachineUse {
 public:
  // `pci_bus_id` of the GPU, such as "00000000:65:00.0"; empty: none.
  explicit MachineUse(const std::string& pci_bus_id = "");
  ~MachineUse();

  // Since the last look: 100 is one core all the time. Of user and system, all threads.
  std::optional<double> cpu_percent();
  // Over the driver's own last sample, of all processes on the device.
  std::optional<double> gpu_percent() const;

 private:
  std::unique_ptr<Nvml> nvml_;
  std::optional<int64_t> looked_ns_;
  int64_t used_ns_ = 0;
};

}  // namespace weft
