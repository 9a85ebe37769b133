#include "weft/engine/gathered_parameters.h"

#include <algorithm>
#include <exception>

#include "weft/engine/live_engines.h"
#include "weft/engine/training.h"

namespace weft {

struct GatheredParameters::Part {
  engine::Training& training;
  engine::Training::Guard guard;
  std::weak_ptr<const void> life = training.life();
  bool has_begun = false;
};

GatheredParameters::GatheredParameters(const std::vector<at::Tensor>& parameters, std::optional<int> modifier_rank)
    : num_exceptions_(std::uncaught_exceptions()) {
  for (const at::Tensor& parameter : parameters) {
    engine::Training* const training = engine::find_trainer(parameter);
    if (training == nullptr) continue;
    auto part = std::ranges::find_if(parts_, [&](const auto& one) { return &one->training == training; });
    if (part == parts_.end()) {
      parts_.push_back(std::make_unique<Part>(Part{*training, {.numbers = {}, .modifier_rank = modifier_rank}}));
      part = parts_.end() - 1;
    }
    auto& numbers = (*part)->guard.numbers;
    const int number = training->owner_of(parameter);
    if (std::ranges::find(numbers, number) == numbers.end()) numbers.push_back(number);
  }
  try {
    for (const auto& part : parts_) {
      part->training.begin_guard(part->guard);
      part->has_begun = true;
    }
  } catch (...) {
    // All ranks come here: what differs between them is an error on each.
    try {
      end("another part of the same guard could not begin");
    } catch (...) {  // NOLINT(bugprone-empty-catch): the first failure is the one to tell
    }
    throw;
  }
}

// An engine that is gone has nothing to be told.
void GatheredParameters::end(const std::string& failure) {
  std::exception_ptr first;
  while (!parts_.empty()) {
    const auto part = std::move(parts_.back());
    parts_.pop_back();
    if (!part->has_begun || part->life.expired()) continue;
    try {
      part->training.end_guard(part->guard, failure);
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

// NOLINTNEXTLINE(bugprone-unsafe-to-allow-exceptions): whoever wrote without leave must hear of it; never while another is in flight
GatheredParameters::~GatheredParameters() noexcept(false) {
  const bool is_leaving_by_exception = std::uncaught_exceptions() > num_exceptions_;
  try {
    end(is_leaving_by_exception ? "an exception left the guard" : "");
  } catch (...) {
    if (!is_leaving_by_exception) throw;
  }
}

}  // namespace weft
