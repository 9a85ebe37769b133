// GatheredParameters of a model in training. All ranks call these, with the same parameters.
#include <c10/core/GradMode.h>

#include <algorithm>
#include <span>

#include "weft/base/error.h"
#include "weft/base/hash.h"
#include "weft/base/text.h"
#include "weft/engine/agree.h"
#include "weft/engine/tensor_bytes_impl.h"
#include "weft/engine/training.h"

namespace weft::engine {
namespace {

// What ranks must agree on, a line to each part.
std::vector<std::string> terms_of(const Training::Guard& guard, const plan::ParameterTable& table) {
  std::vector<std::string> out = {guard.modifier_rank ? cat("modifier_rank ", *guard.modifier_rank)
                                                      : "no modifier_rank"};
  for (const int number : guard.numbers) out.push_back(cat("'", table[number].name, "'"));
  return out;
}

std::string line(const std::vector<std::string>& lines, size_t number) {
  return number < lines.size() ? lines[number] : "nothing more";
}

// Only a vector of texts keeps who said what: ranks that have no failure say nothing.
std::string first_failure(const std::vector<std::string>& of_ranks) {
  for (size_t rank = 0; rank < of_ranks.size(); ++rank) {
    if (!of_ranks[rank].empty()) return cat("rank ", rank, ": ", of_ranks[rank]);
  }
  return "";
}

}  // namespace

const at::Tensor* Training::guarded_away(int number) const {
  const auto found = guarded_.find(number);
  return found != guarded_.end() && found->second.own.defined() ? &found->second.own : nullptr;
}

void Training::check_guard(const Guard& guard) const {
  if (!guard.modifier_rank || (*guard.modifier_rank >= 0 && *guard.modifier_rank < world_.size)) return;
  misuse(cat("GatheredParameters with modifier_rank ", *guard.modifier_rank),
         cat("name one of the ranks 0 to ", world_.size - 1));
}

void Training::agree_on(const Guard& guard) {
  const auto mine = terms_of(guard, plan_->table);
  const std::string text = join(mine, "\n");
  const auto hashes = exchange_texts(*world_.group, to_hex(hash128(std::as_bytes(std::span(text)))), device_);
  if (std::ranges::all_of(hashes, [&](const auto& hash) { return hash == hashes[0]; })) return;
  const auto texts = exchange_texts(*world_.group, text, device_);
  const auto first = split(texts[0], '\n');
  for (size_t rank = 1; rank < texts.size(); ++rank) {
    const auto other = split(texts[rank], '\n');
    size_t at = 0;
    while (at < std::max(first.size(), other.size()) && line(first, at) == line(other, at)) ++at;
    if (at == std::max(first.size(), other.size())) continue;
    throw Error(ErrorKind::kBug, {.title = "ranks give different parameters to GatheredParameters",
                                  .what = cat("rank 0 names ", line(first, at), ", rank ", rank, " ", line(other, at)),
                                  .where = cat("rank ", world_.rank),
                                  .fix = "make the same guard on every rank: the same parameters in the same order"});
  }
}

void Training::begin_guard(const Guard& guard) {
  check_alive();
  agree_on(guard);
  check_guard(guard);
  gathering_->wait();
  const at::NoGradGuard no_grad;
  try {
    for (const int number : guard.numbers) guard.modifier_rank ? modify_guarded(number) : read_guarded(number);
  } catch (const std::exception& error) {
    dead_ = error.what();
    throw;
  }
  if (guard.modifier_rank) ++num_modifying_;
}

void Training::read_guarded(int number) {
  Guarded& it = guarded_[number];
  if (it.num_readers++ == 0)
    it.version = static_cast<uint32_t>(model_.parameters[static_cast<size_t>(number)].second._version());
  if (residents_) residents_->hold(plan_->layout.home(number).bucket);
}

void Training::modify_guarded(int number) {
  Guarded& it = guarded_[number];
  if (it.num_modifiers++ > 0) return;  // it is a copy already
  const at::Tensor& parameter = model_.parameters[static_cast<size_t>(number)].second;
  at::Tensor copy = copy_to_modify(number);
  it.own = parameter.detach();
  parameter.set_data(copy);
}

at::Tensor Training::copy_to_modify(int number) {
  const at::Tensor& parameter = model_.parameters[static_cast<size_t>(number)].second;
  if (!residents_) return parameter.detach().clone(at::MemoryFormat::Contiguous);
  const int bucket = plan_->layout.home(number).bucket;
  const auto& place = plan_->layout.place(number);
  residents_->hold(bucket);
  at::Tensor out =
      residents_->whole(bucket).narrow(0, place.begin, place.num_elements).clone().view(plan_->table[number].shape);
  residents_->let_go(bucket);
  return out;
}

void Training::end_guard(const Guard& guard, std::string failure) {
  if (guard.modifier_rank) {
    --num_modifying_;
    end_modifying(guard, std::move(failure));
  } else {
    end_reading(guard, !failure.empty());
  }
}

void Training::end_reading(const Guard& guard, bool has_failed) {
  std::string written;
  for (const int number : guard.numbers) {
    Guarded& it = guarded_.at(number);
    const auto now = static_cast<uint32_t>(model_.parameters[static_cast<size_t>(number)].second._version());
    // Where another guard lets it be written to, that one decides.
    const bool is_written = now != it.version && it.num_modifiers == 0 && plan_->options.stage >= 3;
    if (is_written && written.empty()) written = plan_->table[number].name;
    it.version = now;
    if (residents_) {
      residents_->let_go(plan_->layout.home(number).bucket,
                         is_written ? Residents::Writes::kDrop : Residents::Writes::kKeep);
    }
    if (--it.num_readers == 0 && it.num_modifiers == 0) guarded_.erase(number);
  }
  if (written.empty()) return;
  const std::string what =
      cat("parameter '", written, "' was written to inside a GatheredParameters without modifier_rank");
  if (!residents_) dead_ = cat(what, ", where ranks share it");
  if (!has_failed) misuse(what, "name the rank whose values count: GatheredParameters guard({...}, 0)");
}

// What a user put there instead of the copy is taken for it, if it fits; "": it does.
std::string Training::misfit_in(const Guard& guard) {
  for (const int number : guard.numbers) {
    const auto& [name, parameter] = model_.parameters[static_cast<size_t>(number)];
    const at::Tensor& own = guarded_.at(number).own;
    if (parameter.sizes() == own.sizes() && parameter.scalar_type() == own.scalar_type() &&
        parameter.device() == own.device())
      continue;
    return cat("parameter '", name, "' was given memory of another shape, type or device");
  }
  return "";
}

void Training::put_back(int number) {
  Guarded& it = guarded_.at(number);
  if (--it.num_modifiers > 0) return;
  model_.parameters[static_cast<size_t>(number)].second.set_data(std::exchange(it.own, at::Tensor()));
  writes_.accept(model_, number);
  it.version = static_cast<uint32_t>(model_.parameters[static_cast<size_t>(number)].second._version());
  if (it.num_readers == 0) guarded_.erase(number);
}

void Training::end_modifying(const Guard& guard, std::string failure) {
  const at::NoGradGuard no_grad;
  if (failure.empty()) failure = misfit_in(guard);
  std::string why;
  try {
    why = first_failure(exchange_texts(*world_.group, failure, device_));
    if (why.empty()) meet_around_writes();
    for (const int number : guard.numbers) {
      if (!why.empty()) break;
      const at::Tensor& parameter = model_.parameters[static_cast<size_t>(number)].second;
      const at::Tensor value = parameter.detach().contiguous();
      world_.group->broadcast(as_bytes(value), *guard.modifier_rank);
      // A guard around this one goes on with these values, and writes them when it ends.
      if (guarded_.at(number).num_modifiers == 1) {
        write_parameter(number, value);
      } else if (value.const_data_ptr() != parameter.const_data_ptr()) {
        parameter.detach().copy_(value);
      }
    }
    if (why.empty()) meet_around_writes();
  } catch (const std::exception& error) {
    dead_ = error.what();
    for (const int number : guard.numbers) put_back(number);
    throw;
  }
  for (const int number : guard.numbers) put_back(number);
  if (!why.empty()) {
    throw Error(ErrorKind::kBug, {.title = "nothing that was written inside a GatheredParameters is kept",
                                  .what = why,
                                  .where = cat("rank ", world_.rank),
                                  .fix = "see what that rank says"});
  }
}

}  // namespace weft::engine
