#include "weft/comm/init_settings.h"

#include <charconv>
#include <cstdlib>

#include "weft/base/error.h"
#include "weft/base/text.h"

namespace weft {
namespace {

using config::Transport;

[[noreturn]] void refuse_variable(const char* name, const std::string& value, const std::string& expected) {
  throw Error(ErrorKind::kInput, {.title = cat(name, " is not ", expected),
                                  .what = cat(name, "=", value),
                                  .where = "environment",
                                  .fix = cat("set it to ", expected, ", or unset it")});
}

double seconds_in(const comm::Lookup& lookup, const char* name, double otherwise) {
  const auto value = lookup(name);
  if (!value) return otherwise;
  double number = 0;
  const char* const end = value->data() + value->size();
  const auto read = std::from_chars(value->data(), end, number);
  // A year: beyond it nobody waits, and clocks overflow.
  if (read.ec != std::errc{} || read.ptr != end || !(number > 0 && number <= 31'536'000)) {
    refuse_variable(name, *value, "a number of seconds above 0");
  }
  return number;
}

Transport transport(const comm::Lookup& lookup, Transport otherwise) {
  const auto value = lookup("WEFT_TRANSPORT");
  if (!value) return otherwise;
  for (const Transport one : {Transport::kAuto, Transport::kShm, Transport::kGloo, Transport::kNccl}) {
    if (*value == config::to_text(one)) return one;
  }
  refuse_variable("WEFT_TRANSPORT", *value, "one of auto, shm, gloo, nccl");
}

bool flag(const comm::Lookup& lookup, const char* name, bool otherwise) {
  const auto value = lookup(name);
  if (!value) return otherwise;
  if (*value != "0" && *value != "1") refuse_variable(name, *value, "0 or 1");
  return *value == "1";
}

}  // namespace

comm::Lookup read_environment() {
  return [](const char* name) {
    const char* const value = std::getenv(name);
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

InitSettings read_init_settings(const InitOptions& options, const comm::Lookup& lookup,
                                const comm::RankIdentity& self) {
  InitSettings settings;
  settings.transport = transport(lookup, options.transport);
  settings.deadline_s = seconds_in(lookup, "WEFT_DEADLINE_S", options.deadline_s);
  settings.join_deadline_s = seconds_in(lookup, "WEFT_JOIN_DEADLINE_S", options.join_deadline_s);
  settings.device = options.device;
  settings.check_calls = flag(lookup, "WEFT_CHECK_CALLS", options.check_calls);
  settings.faults = lookup("WEFT_FAULTS").value_or("");
  settings.attempt = lookup("TORCHELASTIC_RESTART_COUNT").value_or("0");
  settings.agent_has_store = lookup("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True";
  const std::string run = self.run_id.empty() ? "run" : self.run_id;
  const std::string folder = options.flight_dir.empty() ? cat("weft_flight/", run) : options.flight_dir;
  settings.flight_dir = lookup("WEFT_FLIGHT_DIR").value_or(folder);
  return settings;
}

}  // namespace weft
