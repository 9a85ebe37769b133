// What the doctor looks at: a config that has been read, and what is known of the machine it is meant for. Plain values.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "weft/config/reading.h"

namespace weft::doctor {

// How the GPUs of a job reach one another: the slowest link counts.
enum class Link { kNvlink, kPcie4, kPcie3, kEthernet100, kEthernet25, kEthernet10, kEthernet1 };

std::string_view link_name(Link link);  // "nvlink", "pcie4", "10gbit"
// Throws Error(kInput) with the names there are.
Link parse_link(std::string_view name);
// Seed figures: everything but NVLink counts as low bandwidth.
bool is_low_bandwidth(Link link);

struct Machine {
  std::optional<int64_t> gpu_bytes = {};  // of one GPU
  std::optional<double> params = {};      // of the model
  std::optional<Link> link = {};
  std::map<std::string, std::string, std::less<>> environment = {};
};

struct Subject {
  const config::Reading& reading;
  const Machine& machine;

  const config::Resolved& resolved() const { return reading.resolved; }
  const config::ZeroOptimization& zero() const { return reading.resolved.zero_optimization; }
};

}  // namespace weft::doctor
