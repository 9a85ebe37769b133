// weft ckpt verify, diff: whether bytes are what they should be.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "weft/base/env.h"
#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/checkpoint/step_reader.h"
#include "weft/checkpoint/verify.h"
#include "weft/cli/front/ckpt.h"
#include "weft/cli/front/flags.h"
#include "weft/cli/front/print_json.h"

namespace weft::cli {
namespace {

using Json = nlohmann::ordered_json;
using checkpoint::StepPlace;
using checkpoint::StepReader;

// One tensor that both steps have.
struct Compared {
  std::string name;
  std::string kind = "same";  // or: type, shape, values
  uint64_t num_different = 0, first_different = 0;
};

Compared compare(const std::string& name, StepReader& a, StepReader& b) {
  constexpr uint64_t kPieceElements = 1 << 20;
  const auto &one = a.manifest().tensors.at(name), &other = b.manifest().tensors.at(name);
  Compared out{.name = name};
  if (one.shape != other.shape) out.kind = "shape";
  if (one.dtype != other.dtype) out.kind = "type";
  if (out.kind != "same") return out;
  const uint64_t numel = numel_of(one), width = width_of(one);
  for (uint64_t begin = 0; begin < numel; begin += kPieceElements) {
    const uint64_t end = std::min(numel, begin + kPieceElements);
    std::vector<std::byte> left((end - begin) * width), right(left.size());
    a.read(name, begin, end, left);
    b.read(name, begin, end, right);
    for (uint64_t i = 0; i < end - begin && left != right; ++i) {
      if (std::memcmp(left.data() + i * width, right.data() + i * width, width) == 0) continue;
      if (out.num_different++ == 0) out.first_different = begin + i;
    }
  }
  if (out.num_different > 0) out.kind = "values";
  return out;
}

std::vector<std::string> only_in(const checkpoint::Manifest& manifest, const checkpoint::Manifest& other) {
  std::vector<std::string> out;
  for (const auto& [name, tensor] : manifest.tensors) {
    if (!other.tensors.contains(name)) out.push_back(name);
  }
  return out;
}

void print_differences(const std::vector<Compared>& compared, const std::vector<std::string>& only_a,
                       const std::vector<std::string>& only_b) {
  size_t same = 0;
  for (const Compared& one : compared) {
    if (one.kind == "same") {
      ++same;
    } else if (one.kind == "values") {
      std::printf("%s: %llu elements differ, the first is %llu\n", one.name.c_str(),
                  static_cast<unsigned long long>(one.num_different),
                  static_cast<unsigned long long>(one.first_different));
    } else {
      std::printf("%s: another %s\n", one.name.c_str(), one.kind.c_str());
    }
  }
  for (const std::string& name : only_a) std::printf("%s: only in the first\n", name.c_str());
  for (const std::string& name : only_b) std::printf("%s: only in the second\n", name.c_str());
  std::printf("%zu of %zu common tensors are the same, bit for bit\n", same, compared.size());
}

}  // namespace

int ckpt_verify(const Arguments& arguments) {
  std::string path;
  std::optional<int64_t> step;
  bool all = false, json = false;
  auto app =
      make_app("ckpt verify",
               "Read every byte of a step and compare it with its hash; damage is named by file, tensor and block.",
               "weft ckpt verify state/ --all\nExit codes: 0 intact, 1 damage was found, 2 wrong usage or bad input.");
  app->add_option("DIR", path, "the store, or the folder of a step")->required()->type_name("");
  auto* one = add_int(*app, "--step", step, 0, INT64_MAX, "which step (default: the newest)");
  app->add_flag("--all", all, "every step of the store")->excludes(one);
  app->add_flag("--json", json, "print JSON");
  if (!parse_flags(*app, arguments)) return 0;
  const auto places = all ? steps_of(path) : std::vector<StepPlace>{step_at(path, step)};
  Json list = Json::array();
  bool damaged = false;
  for (const StepPlace& place : places) {
    std::vector<Error> damage;
    {
      ByteBar bar("verify");
      damage = verify_step(Env::posix(), place, bar.progress());
    }
    damaged = damaged || !damage.empty();
    Json found = Json::array();
    for (const Error& error : damage) found.push_back(error.what());
    list.push_back({{"step", place.step}, {"folder", place.folder}, {"intact", damage.empty()}, {"damage", found}});
    if (json) continue;
    std::printf("%s: %s\n", place.folder.c_str(), damage.empty() ? "intact" : "damaged");
    for (const Error& error : damage) std::printf("%s\n", error.what());
  }
  if (json) print_json({{"schema", 1}, {"steps", list}});
  return damaged ? 1 : 0;
}

int ckpt_diff(const Arguments& arguments) {
  std::string first, second;
  bool json = false;
  auto app = make_app(
      "ckpt diff", "Compare two steps, whatever ranks saved them: which tensors differ, and in how many elements.",
      "weft ckpt diff a/step_00000100 b/step_00000100\nExit codes: 0 all the same, 1 something differs.");
  app->add_option("A", first, "a store (its newest step), or the folder of a step")->required()->type_name("");
  app->add_option("B", second, "another")->required()->type_name("");
  app->add_flag("--json", json, "print JSON");
  if (!parse_flags(*app, arguments)) return 0;
  const StepPlace place_a = step_at(first, std::nullopt), place_b = step_at(second, std::nullopt);
  StepReader a(Env::posix(), place_a.folder, open_step(Env::posix(), place_a));
  StepReader b(Env::posix(), place_b.folder, open_step(Env::posix(), place_b));
  const auto only_a = only_in(a.manifest(), b.manifest()), only_b = only_in(b.manifest(), a.manifest());
  std::vector<Compared> compared;
  for (const auto& [name, tensor] : a.manifest().tensors) {
    if (b.manifest().tensors.contains(name)) compared.push_back(compare(name, a, b));
  }
  const bool same = only_a.empty() && only_b.empty() &&
                    std::ranges::all_of(compared, [](const Compared& one) { return one.kind == "same"; });
  if (!json) {
    print_differences(compared, only_a, only_b);
    return same ? 0 : 1;
  }
  Json differing = Json::array();
  for (const Compared& one : compared) {
    if (one.kind != "same")
      differing.push_back(
          {{"tensor", one.name}, {"kind", one.kind}, {"elements", one.num_different}, {"first", one.first_different}});
  }
  print_json({{"schema", 1},
              {"same", same},
              {"compared", compared.size()},
              {"differ", differing},
              {"only_a", only_a},
              {"only_b", only_b}});
  return same ? 0 : 1;
}

}  // namespace weft::cli
