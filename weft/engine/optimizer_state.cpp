#include "weft/engine/optimizer_state.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/plan/shard_map.h"

namespace weft::engine {
namespace {

using ByName = std::map<std::string, at::Tensor>;

at::Tensor joined(const Pieces& pieces) { return pieces.size() == 1 ? pieces.front() : at::cat(pieces); }

void take_apart(const at::Tensor& flat, const Pieces& pieces) {
  if (pieces.size() == 1) return;
  int64_t begin = 0;
  for (const at::Tensor& piece : pieces) {
    piece.copy_(flat.narrow(0, begin, piece.numel()));
    begin += piece.numel();
  }
}

std::string state_name(const std::string& kind, const plan::Parameter& parameter) {
  return cat(kind, ".", parameter.name);
}

at::Tensor find(const ByName& state, const std::string& name, int64_t num_elements) {
  const auto found = state.find(name);
  if (found != state.end() && found->second.numel() == num_elements) return found->second;
  throw Error(ErrorKind::kInput, {.title = "the optimizer state is that of another model",
                                  .what = cat("no '", name, "' of ", num_elements, " elements"),
                                  .where = "",
                                  .fix = "load what was saved from this model and optimizer"});
}

void copy_whole(const at::Tensor& flat, const plan::Place& place, const at::Tensor& from) {
  const at::Tensor into = flat.narrow(0, place.begin, place.num_elements);
  if (into.const_data_ptr() != from.const_data_ptr()) into.copy_(from.reshape({-1}));
}

void set_bucket(const StateOwner& owner, const std::string& kind, int bucket, const ByName& given) {
  const auto& [flats, plan, shared_with] = owner;
  const Pieces& pieces = flats.at(kind)[static_cast<size_t>(bucket)];
  const at::Tensor flat = joined(pieces);
  if (shared_with == nullptr) {
    for (const auto& place : plan.layout.bucket(bucket).places) {
      copy_whole(flat, place, find(given, state_name(kind, plan.table[place.parameter]), place.num_elements));
    }
    return take_apart(flat, pieces);
  }
  for (const auto& range : plan::ranges_in_slice(plan.layout, bucket, shared_with->rank())) {
    const auto& parameter = plan.table[range.parameter];
    const at::Tensor from = find(given, state_name(kind, parameter), plan.table.num_elements(range.parameter));
    flat.narrow(0, range.slice_begin, range.num_elements)
        .copy_(from.reshape({-1}).narrow(0, range.parameter_begin, range.num_elements));
  }
  take_apart(flat, pieces);
}

}  // namespace

at::Tensor whole_bucket(const Pieces& pieces, comm::Group* shared_with) {
  at::Tensor flat = joined(pieces);
  if (shared_with == nullptr) return flat;
  at::Tensor out = at::empty({flat.numel() * shared_with->world()}, flat.options());
  // A copy: slices of one bucket lie at another place in each rank's share of a host's memory.
  shared_with->all_gather(flat.clone(), out);
  return out;
}

NamedTensors gather_state(const StateOwner& owner) {
  const at::NoGradGuard no_grad;
  const auto& [state, plan, shared_with] = owner;
  NamedTensors out;
  for (const auto& [kind, flats] : state) {
    std::vector<at::Tensor> wholes;
    for (const Pieces& pieces : flats) wholes.push_back(whole_bucket(pieces, shared_with));
    for (const int parameter : plan.table.trainable()) {
      const auto& place = plan.layout.place(parameter);
      const auto& flat = wholes[static_cast<size_t>(plan.layout.home(parameter).bucket)];
      out.emplace_back(state_name(kind, plan.table[parameter]),
                       flat.narrow(0, place.begin, place.num_elements).view(plan.table[parameter].shape));
    }
  }
  return out;
}

void set_state(const StateOwner& owner, const NamedTensors& state) {
  const at::NoGradGuard no_grad;
  const ByName given(state.begin(), state.end());
  for (const auto& [kind, flats] : owner.flats) {
    for (int bucket = 0; bucket < std::ssize(flats); ++bucket) set_bucket(owner, kind, bucket, given);
  }
}

void write_range(const Pieces& pieces, int64_t first, const at::Tensor& values) {
  int64_t begin = 0;
  for (const at::Tensor& piece : pieces) {
    const int64_t from = std::max(first, begin), to = std::min(first + values.numel(), begin + piece.numel());
    if (from < to) piece.narrow(0, from - begin, to - from).copy_(values.narrow(0, from - first, to - from));
    begin += piece.numel();
  }
}

void write_all(const Pieces& pieces, const Pieces& values) {
  const at::NoGradGuard no_grad;
  int64_t first = 0;
  for (const at::Tensor& some : values) {
    write_range(pieces, first, some);
    first += some.numel();
  }
}

at::Tensor find_state(const NamedTensors& state, const std::string& name, int64_t num_elements) {
  return find({state.begin(), state.end()}, name, num_elements);
}

}  // namespace weft::engine
