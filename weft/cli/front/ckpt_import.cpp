// weft ckpt import: a step out of what others saved.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "weft/base/env.h"
#include "weft/base/text.h"
#include "weft/base/units.h"
#include "weft/checkpoint/import_step.h"
#include "weft/cli/front/ckpt.h"
#include "weft/cli/front/flags.h"
#include "weft/cli/front/print_json.h"

namespace weft::cli {
namespace {

using Json = nlohmann::ordered_json;

void show(const checkpoint::ImportPlan& plan, const checkpoint::Imported& done, const std::string& store) {
  std::printf("%s: step %lld of %s\n", plan.from.c_str(), static_cast<long long>(done.step), store.c_str());
  std::printf("%llu tensors, %s\n", static_cast<unsigned long long>(done.num_tensors),
              format_bytes(done.bytes).c_str());
  if (!plan.left_out.empty()) std::printf("not carried over:\n");
  for (const std::string& line : plan.left_out) std::printf("  %s\n", line.c_str());
}

Json to_json(const checkpoint::ImportPlan& plan, const checkpoint::Imported& done, const std::string& store) {
  return {{"schema", 1},
          {"store", store},
          {"step", done.step},
          {"from", plan.from},
          {"tensors", done.num_tensors},
          {"bytes", done.bytes},
          {"left_out", plan.left_out}};
}

}  // namespace

int ckpt_import(const Arguments& arguments) {
  std::string source, store;
  checkpoint::ImportOptions options;
  bool json = false;
  auto app = make_app(
      "ckpt import",
      "Make a step of a store out of what others saved: safetensors, pytorch_model.bin (a file, an index or a folder), "
      "or a folder of DeepSpeed's checkpoints, with fp32 weights and optimizer state. Nothing in these files is run.",
      "weft ckpt import deepspeed_run/ state/ --tag global_step1200");
  app->add_option("SRC", source, "what to import")->required()->type_name("");
  app->add_option("STORE", store, "the store that gets the step; made where it is not there")
      ->required()
      ->type_name("");
  app->add_option("--tag", options.tag, "which of DeepSpeed's checkpoints (default: the one that `latest` names)")
      ->type_name("NAME");
  add_int(*app, "--step", options.step, 0, INT64_MAX,
          "number of the step (default: the source's own, 0 for weights alone)");
  app->add_flag("--json", json, "print JSON");
  if (!parse_flags(*app, arguments)) return 0;
  const checkpoint::ImportPlan plan = plan_import(Env::posix(), source, options);
  checkpoint::Imported done;
  {
    ByteBar bar("import");
    done = import_step(Env::posix(), store, plan, bar.progress());
  }
  if (json) {
    print_json(to_json(plan, done, store));
  } else {
    show(plan, done, store);
  }
  return 0;
}

}  // namespace weft::cli
