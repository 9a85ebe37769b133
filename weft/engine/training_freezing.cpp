// Parameters that are frozen or unfrozen between steps: agreed on by all ranks, then laid out anew.
#include <algorithm>

#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/comm/peer_lost.h"
#include "weft/engine/agree.h"
#include "weft/engine/training.h"

namespace weft::engine {

// The first that was frozen or unfrozen.
std::string Training::changed_name(const plan::ParameterTable& table) const {
  int number = 0;
  while (table[number].frozen == plan_->table[number].frozen) ++number;
  return cat("parameter '", table[number].name, "' was ", table[number].frozen ? "frozen" : "unfrozen");
}

// Before anything changes. A rank that has changed nothing does not come: it is named when the deadline is over.
void Training::agree_on_frozen(const plan::ParameterTable& table) {
  std::string mine;
  for (const plan::Parameter& parameter : table.all()) mine += parameter.frozen ? '0' : '1';
  std::vector<std::string> all;
  try {
    // In a lane of its own: who comes when others do not finds nobody there, and disturbs nobody.
    if (world_.size > 1 && !agree_lane_) agree_lane_ = world_.group->split(all_ranks(*world_.group), "agreement");
    all = exchange_texts(agree_lane_ ? *agree_lane_ : *world_.group, mine, device_);
  } catch (const comm::PeerLost& lost) {
    comm::Loss loss = lost.loss();
    loss.detail =
        cat(changed_name(table), " on rank ", world_.rank, ": set_requires_grad() alike on all ranks. ", loss.detail);
    dead_ = loss.detail;
    throw comm::PeerLost(std::move(loss));
  } catch (const Error& error) {  // nobody else came to make the lane
    ErrorText text = error.text();
    text.what = cat(changed_name(table), " on rank ", world_.rank, "; ", text.what);
    text.fix = "set_requires_grad() alike on all ranks";
    dead_ = text.what;
    throw Error(error.kind(), std::move(text));
  }
  for (size_t rank = 1; rank < all.size(); ++rank) {
    const auto [here, there] = std::ranges::mismatch(all[0], all[rank]);
    if (here == all[0].end()) continue;
    const plan::Parameter& parameter = table[static_cast<int>(here - all[0].begin())];
    const auto is = [](char flag) { return flag == '0' ? "frozen" : "trained"; };
    dead_ = cat("parameter '", parameter.name, "' is ", is(*here), " on rank 0 and ", is(*there), " on rank ", rank,
                "; set_requires_grad() alike on all ranks");
    refuse_dead(dead_, world_.rank);
  }
}

void Training::follow_requires_grad(plan::ParameterTable table) {
  updater_.check_can_move();
  if (in_step_ > 0 || num_unstepped_ > 0) {
    dead_ = "requires_grad of a parameter was changed in the middle of a step; change it between step() and backward()";
    refuse_dead(dead_, world_.rank);
  }
  if (!guarded_.empty())
    misuse("requires_grad was changed inside a GatheredParameters", "let the guard end before backward()");
  agree_on_frozen(table);
  if (table.trainable().empty())
    misuse("no parameter of the model requires a gradient any more", "leave one of them trainable");
  try {
    lay_out_anew(std::move(table));
  } catch (const std::exception& error) {  // some of it lies where it lay, some does not
    dead_ = error.what();
    throw;
  }
}

void Training::lay_out_anew(plan::ParameterTable table) {
  plan::LayoutOptions layout = plan_->options.layout;
  layout.ready_order.clear();
  layout.boundaries.reset();
  learnt_ = false;
  gathering_->wait();
  for (const int parameter : table.frozen()) {
    if (plan_->table[parameter].frozen) continue;
    const at::Tensor& tensor = model_.parameters[static_cast<size_t>(parameter)].second;
    tensor.set_data(tensor.detach().clone());
  }
  lay_out(std::move(table), std::move(layout));
  check_agreement(*world_.group, describe(*plan_, what_must_agree()), device_);
  watch_gradients();
}

}  // namespace weft::engine
