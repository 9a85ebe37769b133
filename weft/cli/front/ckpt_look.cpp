// weft ckpt ls, show: what is there.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "weft/base/env.h"
#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/base/units.h"
#include "weft/checkpoint/state_names.h"
#include "weft/cli/front/ckpt.h"
#include "weft/cli/front/flags.h"
#include "weft/cli/front/print_json.h"
#include "weft/monitor/table.h"

namespace weft::cli {
namespace {

using Json = nlohmann::ordered_json;
using checkpoint::Manifest;
using checkpoint::StepPlace;

uint64_t bytes_in(const Manifest& manifest) {
  uint64_t out = 0;
  for (const auto& file : manifest.files) out += file.bytes;
  return out;
}

std::string metrics_text(const Manifest& manifest) {
  std::vector<std::string> out;
  for (const auto& [name, value] : manifest.metrics) out.push_back(cat(name, " ", value));
  return join(out, ", ");
}

// Parameters alone; the rest is state.
uint64_t num_params(const Manifest& manifest) {
  uint64_t out = 0;
  for (const auto& [name, tensor] : manifest.tensors) {
    if (name.starts_with(checkpoint::kParamPrefix)) out += numel_of(tensor);
  }
  return out;
}

Json to_json(const StepPlace& place, const Manifest& manifest) {
  return {{"step", place.step},
          {"folder", place.folder},
          {"world", manifest.world},
          {"bytes", bytes_in(manifest)},
          {"tensors", manifest.tensors.size()},
          {"params", num_params(manifest)},
          {"metrics", manifest.metrics}};
}

// Sections are any bytes, and for people: one line, not too long, nothing that steers a terminal.
std::string shown(const std::string& text) {
  constexpr size_t kMaxShown = 60;
  std::string out;
  for (const char c : text.substr(0, kMaxShown)) out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  return text.size() > kMaxShown ? cat(out, "... (", text.size(), " bytes)") : out;
}

std::string shape_text(const checkpoint::StoredTensor& tensor) {
  std::vector<std::string> sizes;
  for (const int64_t size : tensor.shape) sizes.push_back(cat(size));
  return cat(tensor.dtype, " [", join(sizes, ", "), "]");
}

void show_text(const StepPlace& place, const Manifest& manifest, bool with_tensors) {
  Table table{.title = place.folder};
  table.rows = {
      {.label = "step", .value = cat(place.step)},
      {.label = "ranks", .value = cat(manifest.world)},
      {.label = "size", .value = format_bytes(bytes_in(manifest)), .note = cat("in ", manifest.files.size(), " files")},
      {.label = "parameters", .value = format_count(static_cast<int64_t>(num_params(manifest)))},
      {.label = "tensors", .value = cat(manifest.tensors.size())}};
  for (const auto& [name, value] : manifest.metrics) table.rows.push_back({.label = name, .value = cat(value)});
  for (const auto& [name, text] : manifest.sections) table.rows.push_back({.label = name, .value = shown(text)});
  if (with_tensors) {
    for (const auto& [name, tensor] : manifest.tensors)
      table.rows.push_back({.label = name, .value = shape_text(tensor)});
  }
  std::fputs(render_table(table, detect_terminal(STDOUT_FILENO)).c_str(), stdout);
}

}  // namespace

int ckpt_ls(const Arguments& arguments) {
  std::string store;
  bool json = false;
  auto app = make_app("ckpt ls", "List the steps of a store, the one that would be loaded first in front.",
                      "weft ckpt ls state/");
  app->add_option("DIR", store, "the store")->required()->type_name("");
  app->add_flag("--json", json, "print JSON");
  if (!parse_flags(*app, arguments)) return 0;
  Json list = Json::array();
  Table table{.title = store};
  bool damaged = false;
  for (const StepPlace& place : steps_of(store)) {
    try {
      const Manifest manifest = open_step(Env::posix(), place);
      list.push_back(to_json(place, manifest));
      table.rows.push_back({.label = cat("step ", place.step),
                            .value = cat(format_bytes(bytes_in(manifest)), ", ", manifest.world,
                                         manifest.world == 1 ? " rank" : " ranks"),
                            .note = metrics_text(manifest)});
    } catch (const Error& error) {
      damaged = true;
      list.push_back({{"step", place.step}, {"folder", place.folder}, {"damage", error.what()}});
      table.rows.push_back(
          {.label = cat("step ", place.step), .value = "damaged", .note = error.text().what, .mark = Mark::kBad});
    }
  }
  if (json) {
    print_json({{"schema", 1}, {"store", store}, {"steps", list}});
  } else if (table.rows.empty()) {
    std::printf("%s: no steps\n", store.c_str());
  } else {
    std::fputs(render_table(table, detect_terminal(STDOUT_FILENO)).c_str(), stdout);
  }
  return damaged ? 1 : 0;
}

int ckpt_show(const Arguments& arguments) {
  std::string path;
  std::optional<int64_t> step;
  bool json = false, with_tensors = false;
  auto app = make_app("ckpt show",
                      "Show what a step holds: the newest of a store, the one of --step, or that of a step's folder.",
                      "weft ckpt show state/ --step 1200 --tensors");
  app->add_option("DIR", path, "the store, or the folder of a step")->required()->type_name("");
  add_int(*app, "--step", step, 0, INT64_MAX, "which step");
  app->add_flag("--tensors", with_tensors, "and every tensor, with type and shape");
  app->add_flag("--json", json, "print JSON, tensors and sections included");
  if (!parse_flags(*app, arguments)) return 0;
  const StepPlace place = step_at(path, step);
  const Manifest manifest = open_step(Env::posix(), place);
  if (!json) {
    show_text(place, manifest, with_tensors);
    return 0;
  }
  Json out = {{"schema", 1}};
  out.update(to_json(place, manifest));
  Json tensors = Json::object();
  for (const auto& [name, tensor] : manifest.tensors)
    tensors[name] = {{"dtype", tensor.dtype}, {"shape", tensor.shape}};
  out["tensors"] = tensors;
  out["sections"] = manifest.sections;
  print_json(out);
  return 0;
}

}  // namespace weft::cli
