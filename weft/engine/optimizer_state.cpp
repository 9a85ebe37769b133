#include "weft/engine/optimizer_state.h"

#include "weft/base/check.h"
#include "weft/base/text.h"
#include "weft/memory/flat_buckets.h"

namespace weft::engine {
namespace {

constexpr std::string_view kStep = "step";

at::Tensor step_of(optim::Optimizer& optimizer) {
  for (const auto& [name, tensor] : optimizer.state()) {
    if (name == kStep) return tensor;
  }
  WEFT_CHECK(!"an optimizer counts its steps");
}

}  // namespace

std::string slice_name(int bucket) { return cat("bucket_", bucket); }

FlatState flat_state(optim::Optimizer& optimizer, int num_buckets) {
  std::map<std::string, at::Tensor> by_name;
  for (const auto& [name, tensor] : optimizer.state()) by_name.emplace(name, tensor);
  FlatState out;
  for (int bucket = 0; bucket < num_buckets; ++bucket) {
    const std::string before = slice_name(bucket) + ".";
    for (auto at = by_name.lower_bound(before); at != by_name.end() && at->first.starts_with(before); ++at) {
      out[at->first.substr(before.size())].push_back(at->second);
    }
  }
  for (const auto& [kind, flats] : out) WEFT_CHECK_EQ(flats.size(), static_cast<size_t>(num_buckets));
  return out;
}

NamedTensors state_by_parameter(optim::Optimizer& optimizer, const plan::Plan& plan) {
  NamedTensors out;
  for (const auto& [kind, flats] : flat_state(optimizer, plan.layout.num_gradient_buckets)) {
    for (const int parameter : plan.table.trainable()) {
      const auto& place = plan.layout.place(parameter);
      const auto& flat = flats[static_cast<size_t>(plan.layout.home(parameter).bucket)];
      out.emplace_back(cat(kind, ".", plan.table[parameter].name),
                       flat.narrow(0, place.begin, place.num_elements).view(plan.table[parameter].shape));
    }
  }
  out.emplace_back(kStep, step_of(optimizer));
  return out;
}

void carry_over(optim::Optimizer& from, const plan::Layout& from_layout, optim::Optimizer& into,
                const plan::Layout& into_layout) {
  const auto sources = flat_state(from, from_layout.num_gradient_buckets);
  for (const auto& [kind, targets] : flat_state(into, into_layout.num_gradient_buckets)) {
    memory::move_between(from_layout, sources.at(kind), into_layout, targets);
  }
  step_of(into).copy_(step_of(from));
}

}  // namespace weft::engine
