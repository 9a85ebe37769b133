#include "weft/monitor/sinks.h"

#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/log.h"
#include "weft/base/text.h"

namespace weft {
namespace {

// As Python's os.path.join, which DeepSpeed uses.
std::string joined(const std::string& folder, const std::string& name) {
  if (folder.empty() || name.starts_with('/')) return name.empty() ? "." : name;
  return cat(folder, folder.ends_with('/') ? "" : "/", name);
}

// The run is worth more than what is told about it.
template <typename Open>
void open_or_warn(std::string_view section, Open open) {
  try {
    open();
  } catch (const Error& error) {
    const ErrorText& text = error.text();
    log_warn(section, ": ", text.title, " (", text.what, text.where.empty() ? "" : ", ", text.where,
             "). The run goes on without it", text.fix.empty() ? "." : ". To have it: ", text.fix);
  }
}

nlohmann::json text_or_null(const std::optional<std::string>& text) {
  return text ? nlohmann::json(*text) : nlohmann::json(nullptr);
}

void keep_for_wandb(Env& env, const config::Wandb& wandb, const std::string& folder) {
  const nlohmann::json facts = {{"schema", 1},
                                {"project", wandb.project},
                                {"group", text_or_null(wandb.group)},
                                {"team", text_or_null(wandb.team)}};
  write_file(env, folder + "/wandb.json",
             bytes_of(facts.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"));
  log_info("wandb: nothing is sent while the run goes on. Afterwards: python3 tools/wandb_offline.py ", folder);
}

}  // namespace

MonitorSinks::MonitorSinks(Env& env, const config::Resolved& config, const SinkOptions& options) {
  if (const auto& c = config.tensorboard; c.enabled)
    open_or_warn("tensorboard", [&] { events_.emplace(env, joined(c.output_path, c.job_name), options.resumed); });
  if (const auto& c = config.csv_monitor; c.enabled)
    open_or_warn("csv_monitor", [&] { csv_.emplace(env, joined(c.output_path, c.job_name), options.resumed); });
  if (config.wandb.enabled) open_or_warn("wandb", [&] { keep_for_wandb(env, config.wandb, options.run_folder); });
}

void MonitorSinks::add(const StepMetrics& metrics) {
  if (!events_ && !csv_) return;
  const StepScalars scalars = scalars_of(metrics);
  if (events_) events_->add(scalars);
  if (csv_) csv_->add(scalars);
}

}  // namespace weft
