// For the tests of this room: the tables and plans they share.
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "weft/base/text.h"
#include "weft/plan/plan.h"

namespace weft::plan {

// Five parameters of a toy model whose head is its embedding: the example of docs/plan.md.
inline ParameterTable toy_table() {
  return ParameterTable({{.name = "wte", .shape = {10, 8}},
                         {.name = "h.weight", .shape = {8, 8}},
                         {.name = "h.bias", .shape = {8}},
                         {.name = "ln", .shape = {8}},
                         {.name = "scale"},
                         {.name = "head", .shape = {10, 8}, .tied_to = 0}});
}

inline PlanOptions toy_options() {
  return {.layout = {.world = 2, .bucket_elements = 160, .first_bucket_bytes = 0}, .live_elements = 100};
}

// A GPT of 17.0M parameters: 6 layers of width 384, 8192 tokens, 64 positions.
inline ParameterTable gpt_table(Dtype dtype) {
  std::vector<Parameter> out = {{.name = "wte", .shape = {8192, 384}}, {.name = "wpe", .shape = {64, 384}}};
  const auto linear = [&](const std::string& name, int64_t outputs, int64_t inputs) {
    out.push_back({.name = name + ".weight", .shape = {outputs, inputs}});
    out.push_back({.name = name + ".bias", .shape = {outputs}});
  };
  const auto norm = [&](const std::string& name) {
    out.push_back({.name = name + ".weight", .shape = {384}});
    out.push_back({.name = name + ".bias", .shape = {384}});
  };
  for (int layer = 0; layer < 6; ++layer) {
    const std::string h = cat("h.", layer, ".");
    norm(h + "ln_1");
    linear(h + "attn.qkv", 1152, 384);
    linear(h + "attn.out", 384, 384);
    norm(h + "ln_2");
    linear(h + "mlp.in", 1536, 384);
    linear(h + "mlp.out", 384, 1536);
  }
  norm("ln_f");
  out.push_back({.name = "head.weight", .shape = {8192, 384}});
  for (Parameter& parameter : out) parameter.dtype = dtype;
  return ParameterTable(std::move(out));
}

using Rng = std::mt19937_64;

// From low to high, both included. The standard's own distributions differ between libraries.
inline int64_t draw(Rng& rng, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(rng() % static_cast<uint64_t>(high - low + 1));
}

inline Parameter random_parameter(Rng& rng, const std::vector<Parameter>& before) {
  Parameter out{.name = cat("p.", before.size())};
  for (int64_t dimensions = draw(rng, 0, 3); dimensions > 0; --dimensions)
    out.shape.push_back(draw(rng, 0, 11) == 0 ? 0 : draw(rng, 1, 40));
  out.dtype = kAllDtypes[draw(rng, 0, 3)];
  out.frozen = draw(rng, 0, 4) == 0;
  if (before.empty() || draw(rng, 0, 7) != 0) return out;
  const auto owner = static_cast<size_t>(draw(rng, 0, std::ssize(before) - 1));
  if (before[owner].tied_to) return out;
  out = before[owner];
  out.name = cat("p.", before.size());
  out.tied_to = static_cast<int>(owner);
  return out;
}

// Scalars, empty parameters, ties, frozen ones and all types; at least one to train.
inline ParameterTable random_table(Rng& rng) {
  std::vector<Parameter> out = {{.name = "first", .shape = {draw(rng, 1, 500)}, .dtype = kAllDtypes[draw(rng, 0, 3)]}};
  for (int64_t more = draw(rng, 0, 25); more > 0; --more) out.push_back(random_parameter(rng, out));
  return ParameterTable(std::move(out));
}

inline LayoutOptions random_layout_options(Rng& rng, const ParameterTable& table) {
  LayoutOptions out{.world = static_cast<int>(draw(rng, 1, 9)), .bucket_elements = draw(rng, 1, 20'000)};
  out.first_bucket_bytes = draw(rng, 0, 1) * draw(rng, 1, 4'000);
  out.slice_multiple = kAlignElements * draw(rng, 1, 3);
  if (draw(rng, 0, 1) == 0) {
    out.ready_order = table.trainable();
    std::ranges::shuffle(out.ready_order, rng);
  }
  if (draw(rng, 0, 3) != 0) return out;
  out.boundaries.emplace();
  for (int at = 1; at < std::ssize(table.trainable()); ++at) {
    if (draw(rng, 0, 2) == 0) out.boundaries->push_back(at);
  }
  return out;
}

inline PlanOptions random_options(Rng& rng, const ParameterTable& table) {
  PlanOptions out{.layout = random_layout_options(rng, table)};
  out.stage = static_cast<int>(draw(rng, 0, 3));
  out.accumulation_steps = static_cast<int>(draw(rng, 1, 4));
  out.overlap = draw(rng, 0, 1) == 0;
  if (draw(rng, 0, 1) == 0) out.gradient_dtype = kAllDtypes[draw(rng, 0, 3)];
  if (draw(rng, 0, 1) == 0) out.wire_dtype = kAllDtypes[draw(rng, 0, 3)];
  out.optimizer = {.state_bytes_per_element = draw(rng, 0, 16), .fp32_copy = draw(rng, 0, 1) == 0};
  out.live_elements = draw(rng, 0, 100'000);
  return out;
}

}  // namespace weft::plan
