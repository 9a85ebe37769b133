#include "weft/engine/flops_profile.h"

#include <algorithm>

#include "weft/base/env.h"
#include "weft/base/error.h"
#include "weft/base/log.h"
#include "weft/engine/flops_table.h"

namespace weft::engine {
namespace {

bool was_written(const std::string& path, const std::string& text) {
  try {
    write_file(Env::posix(), path, bytes_of(text));
    return true;
  } catch (const Error& error) {
    log_warn(error.what());
    return false;
  }
}

}  // namespace

bool is_profiled(const config::Resolved& config, int64_t step) {
  return config.flops_profiler.enabled && step == std::max<int64_t>(1, config.flops_profiler.profile_step);
}

void show_flops(const FlopCount& count, const config::FlopsProfiler& profiler, const ProfiledStep& of) {
  const FlopsOf shown{.step = of.step,
                      .step_ms = of.step_ms,
                      .peak_flops_per_s = of.peak_flops_per_s,
                      .has_times = of.on_cpu,
                      .detailed = profiler.detailed,
                      .module_depth = profiler.module_depth,
                      .top_modules = profiler.top_modules,
                      .recompute_fwd_factor = profiler.recompute_fwd_factor};
  was_written(of.folder + "/flops.json", flops_json(count, shown));
  const std::string text = flops_table(count, shown);
  if (!profiler.output_file || !was_written(*profiler.output_file, text + "\n")) return log_info(text);
  log_info("the FLOPs of step ", of.step, " are in ", *profiler.output_file);
}

}  // namespace weft::engine
