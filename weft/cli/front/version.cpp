#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string_view>

#include "weft/base/build_info.h"
#include "weft/cli/front/command.h"
#include "weft/cli/front/flags.h"

namespace weft::cli {

int run_version(const Arguments& arguments) {
  bool as_json = false;
  auto app = make_app("version", "Print version, commit, torch version and what was built in.", "weft version --json");
  app->add_flag("--json", as_json, "print one JSON object");
  if (!parse_flags(*app, arguments)) return 0;
  const std::string_view why = kNcclWhy;
  if (as_json) {
    nlohmann::ordered_json out = {
        {"schema", 1},      {"version", kVersion}, {"commit", kBuildCommit}, {"torch", kTorchVersion},
        {"gloo", kHasGloo}, {"nccl", kHasNccl},    {"cuda", kHasCuda},       {"io_uring", kHasIoUring}};
    if (!why.empty()) out["nccl_why"] = why;
    std::printf("%s\n", out.dump(2).c_str());
    return 0;
  }
  const auto yes_no = [](bool value) { return value ? "yes" : "no"; };
  std::printf("weft %s\ncommit    %s\ntorch     %s\ngloo      %s\nnccl      %s\ncuda      %s\nio_uring  %s\n", kVersion,
              kBuildCommit, kTorchVersion, yes_no(kHasGloo), yes_no(kHasNccl), yes_no(kHasCuda), yes_no(kHasIoUring));
  if (!why.empty()) std::printf("\nbuilt without nccl: %s\n", kNcclWhy);
  return 0;
}

}  // namespace weft::cli
