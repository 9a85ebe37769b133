// weft ckpt prune, export: what makes something new, or takes something away.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "weft/base/env.h"
#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/base/units.h"
#include "weft/checkpoint/export_step.h"
#include "weft/checkpoint/prune.h"
#include "weft/checkpoint/store_lock.h"
#include "weft/cli/front/ckpt.h"
#include "weft/cli/front/flags.h"
#include "weft/cli/front/print_json.h"

namespace weft::cli {
namespace {

// What prune_store() would remove.
std::vector<int64_t> would_go(const std::string& store, const checkpoint::PrunePolicy& policy) {
  std::vector<checkpoint::Manifest> committed;
  for (const auto& place : steps_of(store)) {
    try {
      committed.push_back(open_step(Env::posix(), place));
    } catch (const Error&) {
      continue;  // damaged steps are neither counted nor removed
    }
  }
  return steps_to_prune(committed, policy);
}

std::string dtype_word(const std::string& word) {
  if (word == "fp32") return "F32";
  if (word == "bf16") return "BF16";
  return word == "fp16" ? "F16" : "";
}

}  // namespace

int ckpt_prune(const Arguments& arguments) {
  std::string store;
  int64_t keep_last = 0, keep_best = 0;
  checkpoint::PrunePolicy policy{.metric = "loss"};
  bool dry_run = false, json = false;
  auto app = make_app("ckpt prune", "Remove all steps of a store but those to keep; the newest always stays.",
                      "weft ckpt prune state/ --keep-last 3 --keep-every 1000 --dry-run");
  app->add_option("DIR", store, "the store")->required()->type_name("");
  add_int(*app, "--keep-last", keep_last, 1, 1 << 30, "keep the newest K")->required();
  add_int(*app, "--keep-every", policy.keep_every, 0, int64_t{1} << 40, "and those of every Nth step");
  add_int(*app, "--keep-best", keep_best, 0, 1 << 30, "and the K best by --metric");
  app->add_option("--metric", policy.metric, "which metric")->capture_default_str()->type_name("NAME");
  bool higher = false;
  app->add_flag("--higher-is-better", higher, "of the metric");
  app->add_flag("--dry-run", dry_run, "only say what would go");
  app->add_flag("--json", json, "print JSON");
  if (!parse_flags(*app, arguments)) return 0;
  policy.keep_last = static_cast<int>(keep_last);
  policy.keep_best = static_cast<int>(keep_best);
  policy.lower_is_better = !higher;
  std::vector<int64_t> gone = would_go(store, policy);
  if (!dry_run) {
    const checkpoint::StoreLock lock(Env::posix(), store);
    gone = prune_store(Env::posix(), store, policy);
  }
  if (json) {
    print_json({{"schema", 1}, {"store", store}, {"removed", gone}, {"dry_run", dry_run}});
    return 0;
  }
  for (const int64_t step : gone)
    std::printf("step %lld %s\n", static_cast<long long>(step), dry_run ? "would go" : "removed");
  if (gone.empty()) std::printf("nothing to remove\n");
  return 0;
}

int ckpt_export(const Arguments& arguments) {
  std::string path, out_folder, dtype = "saved", max_file = "5GB";
  std::optional<int64_t> step;
  bool json = false;
  auto app =
      make_app("ckpt export", "Write the parameters of a step as safetensors, named and laid out as Hugging Face does.",
               "weft ckpt export state/ model/ --dtype bf16");
  app->add_option("DIR", path, "the store, or the folder of a step")->required()->type_name("");
  app->add_option("OUT", out_folder, "folder for the files")->required()->type_name("");
  add_int(*app, "--step", step, 0, INT64_MAX, "which step (default: the newest)");
  add_choice(*app, "--dtype", dtype, {"saved", "fp32", "bf16", "fp16"}, "type of the parameters in the files");
  app->add_option("--max-file", max_file, "largest file before another is begun")
      ->capture_default_str()
      ->type_name("BYTES");
  app->add_flag("--json", json, "print JSON");
  if (!parse_flags(*app, arguments)) return 0;
  const auto place = step_at(path, step);
  checkpoint::Exported exported;
  {
    ByteBar bar("export");
    exported = export_step(
        Env::posix(), place, out_folder,
        {.dtype = dtype_word(dtype), .max_file_bytes = parse_bytes(max_file).value(), .progress = bar.progress()});
  }
  if (json) {
    print_json({{"schema", 1},
                {"step", place.step},
                {"files", exported.files},
                {"tensors", exported.num_tensors},
                {"bytes", exported.bytes}});
    return 0;
  }
  std::printf("step %lld: %llu tensors, %s\n", static_cast<long long>(place.step),
              static_cast<unsigned long long>(exported.num_tensors), format_bytes(exported.bytes).c_str());
  for (const std::string& file : exported.files) std::printf("%s\n", file.c_str());
  return 0;
}

}  // namespace weft::cli
