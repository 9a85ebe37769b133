#include "weft/comm/hierarchical_group.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <numeric>
#include <thread>

#include "weft/base/check.h"
#include "weft/base/text.h"
#include "weft/comm/host_group.h"
#include "weft/comm/host_layout.h"
#include "weft/comm/peer_lost.h"

namespace weft::comm {
namespace {

// Long enough that the exchange between the leaders hides a host's sum, short enough that the first does not keep the wire
// waiting.
constexpr int64_t kExchangeBytes = 8 << 20;
// Chunks on the wire at a time: while the end of one waits for its slowest sum, the next one fills the wire.
constexpr int64_t kNumLanes = 2;

// A tensor in chunks of nearly one size; an empty one is one empty chunk, so that all ranks take part.
struct Chunks {
  explicit Chunks(const at::Tensor& all) : data(all.view({-1})) {
    const auto bytes = static_cast<int64_t>(data.nbytes());
    count = std::max<int64_t>(1, (bytes + kExchangeBytes - 1) / kExchangeBytes);
  }
  at::Tensor operator[](int64_t index) const {
    return data.slice(0, index * data.numel() / count, (index + 1) * data.numel() / count);
  }

  at::Tensor data;
  int64_t count = 1;
};

void divide(const at::Tensor& sum, int by) {
  if (sum.is_floating_point()) {
    sum.div_(by);
  } else {
    sum.div_(by, "trunc");
  }
}

class HierarchicalGroup final : public HostGroup {
 public:
  // `watched[r]` is rank r's number in the roll call.
  HierarchicalGroup(std::shared_ptr<Group> flat, std::shared_ptr<Group> local, HostLayout layout,
                    std::shared_ptr<RollCall> watch, std::vector<int> watched)
      : HostGroup(flat->name(), flat->rank(), flat->world(), flat->deadline_s()),
        layout_(std::move(layout)),
        watch_(std::move(watch)),
        watched_(std::move(watched)),
        host_(layout_.host_of(flat->rank())),
        flat_(std::move(flat)),
        local_(std::move(local)) {
    if (leads()) make_lanes();
  }
  ~HierarchicalGroup() override { stop(); }
  HierarchicalGroup(const HierarchicalGroup&) = delete;
  HierarchicalGroup& operator=(const HierarchicalGroup&) = delete;

  std::string_view transport() const override { return "shm+gloo"; }
  at::Tensor allocate(int64_t count, at::ScalarType type) override;
  at::Tensor allocate_common(int64_t count, at::ScalarType type) override;
  int num_sharing() const override { return layout_.is_contiguous() ? std::max(1, layout_.ranks_per_host()) : 1; }
  std::shared_ptr<Group> split(const std::vector<int>& ranks, const std::string& name) override;

 private:
  bool leads() const { return local_->rank() == 0; }
  Group& leaders() const { return *lanes_.front(); }

  void make_lanes();
  void execute(const Collective& call, uint64_t sequence, Deadline deadline) override;
  void dispatch(const Collective& call);
  void all_reduce(const Collective& call);
  void reduce(const Collective& call);
  void broadcast(const Collective& call);
  void reduce_scatter(const Collective& call);
  void all_gather(const Collective& call);
  void gather_common(const Collective& call);
  void barrier();

  // The host's sum of a chunk in its leader; for max and min the same with that.
  void sum_in_host(const at::Tensor& chunk, ReduceOp op) { local_->reduce(chunk, 0, within(op)); }
  at::Tensor summed_in_host(const Collective& call);
  Work exchange(const at::Tensor& chunk, int64_t index, ReduceOp op) {
    if (!leads()) return {};
    return lanes_[static_cast<size_t>(index % kNumLanes)]->start(comm::all_reduce(chunk, within(op)));
  }
  static ReduceOp within(ReduceOp op) { return op == ReduceOp::kMean ? ReduceOp::kSum : op; }
  void finish_mean(const at::Tensor& sum, ReduceOp op) const {
    if (op == ReduceOp::kMean) divide(sum, world());
  }
  Loss in_our_numbers(Loss found) const;
  [[noreturn]] void throw_cause(const PeerLost& found);

  const HostLayout layout_;
  const std::shared_ptr<RollCall> watch_;
  const std::vector<int> watched_;
  const int host_;
  const std::shared_ptr<Group> flat_;
  std::shared_ptr<Group> local_;
  std::vector<std::shared_ptr<Group>> lanes_;  // between the leaders, and theirs only
};

// A leader that is lost meanwhile has another number among the leaders.
void HierarchicalGroup::make_lanes() {
  try {
    for (int64_t lane = 0; lane < kNumLanes; ++lane) {
      lanes_.push_back(flat_->split(layout_.leaders(), cat("leaders ", lane)));
    }
  } catch (const PeerLost& lost) {
    Loss loss = renumbered(lost.loss(), layout_.leaders());
    loss.group = name();
    throw PeerLost(std::move(loss));
  }
}

void HierarchicalGroup::execute(const Collective& call, uint64_t /*sequence*/, Deadline /*deadline*/) {
  try {
    dispatch(call);
  } catch (const PeerLost& lost) {
    throw_cause(lost);
  }
}

Loss HierarchicalGroup::in_our_numbers(Loss found) const {
  const auto in_lane = [&](const auto& lane) { return found.group == lane->name(); };
  if (local_ && found.group == local_->name()) {
    found = renumbered(std::move(found), layout_.ranks_of(host_));
  } else if (std::any_of(lanes_.begin(), lanes_.end(), in_lane)) {
    found = renumbered(std::move(found), layout_.leaders());
  }
  found.group = name();
  return found;
}

// Whoever gave up inside may itself be a consequence. The roll call sees all ranks: whose beats stop went first; where all
// beat on, it makes the one we miss the one that all name.
void HierarchicalGroup::throw_cause(const PeerLost& found) {
  const Loss loss = in_our_numbers(found.loss());
  // Our neighbours need not wait for us until their deadline.
  local_.reset();
  lanes_.clear();
  const double patience_s = (kMissedBeats + 2) * beat_interval_s(deadline_s());
  for (const Deadline end = Deadline::after(patience_s); !end.expired() && !watch_->has_ended();) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  try {
    if (watch_->has_ended()) watch_->throw_cause();
    watch_->throw_cause(Failure{.timed_out = true, .suspect = watched_[static_cast<size_t>(loss.rank)], .text = ""});
  } catch (const PeerLost& named) {
    Loss known = named.loss();
    const auto place = std::find(watched_.begin(), watched_.end(), known.rank);
    if (place == watched_.end()) throw;
    known.rank = static_cast<int>(place - watched_.begin());
    known.group = name();
    known.waiting_in = loss.waiting_in;
    throw PeerLost(std::move(known));
  }
}

void HierarchicalGroup::dispatch(const Collective& call) {
  const bool by_blocks = layout_.is_contiguous();
  switch (call.operation) {
    case Operation::kBarrier: return barrier();
    case Operation::kAllReduce: return all_reduce(call);
    case Operation::kReduce: return reduce(call);
    case Operation::kBroadcast: return broadcast(call);
    case Operation::kReduceScatter: return by_blocks ? reduce_scatter(call) : flat_->run(call);
    case Operation::kAllGather:
      if (call.in_common) return gather_common(call);
      return by_blocks ? all_gather(call) : flat_->run(call);
    default: return flat_->run(call);
  }
}

void HierarchicalGroup::barrier() {
  local_->barrier();
  if (leads()) leaders().barrier();
  local_->barrier();
}

// The leaders exchange chunks while the host sums the next ones. All ranks of a host take the same steps in the same order:
// sum 0, sum 1, sum 2, share 0, sum 3, share 1, ...
void HierarchicalGroup::all_reduce(const Collective& call) {
  const Chunks chunks(call.input);
  std::deque<Work> under_way;
  for (int64_t i = 0; i < chunks.count + kNumLanes; ++i) {
    if (i < chunks.count) {
      sum_in_host(chunks[i], call.reduce_op);
      under_way.push_back(exchange(chunks[i], i, call.reduce_op));
    }
    if (i < kNumLanes || i - kNumLanes >= chunks.count) continue;
    under_way.front().wait();
    under_way.pop_front();
    if (leads()) finish_mean(chunks[i - kNumLanes], call.reduce_op);
    local_->broadcast(chunks[i - kNumLanes], 0);
  }
}

// The same beside the input, which is to stay as it is: a scatter that gives everything to the leader; for the others empty. The input
// itself is what all ranks give, as it may lie in memory that they read from each other.
at::Tensor HierarchicalGroup::summed_in_host(const Collective& call) {
  std::vector<int64_t> counts(static_cast<size_t>(local_->world()), 0);
  counts.front() = call.input.numel();
  const at::Tensor sum = at::empty({leads() ? call.input.numel() : 0}, call.input.options());
  local_->run(comm::reduce_scatter(call.input, sum, within(call.reduce_op), std::move(counts)));
  return sum;
}

void HierarchicalGroup::reduce(const Collective& call) {
  const int root_host = layout_.host_of(call.peer), root = layout_.local_rank_of(call.peer);
  const at::Tensor sum = summed_in_host(call);
  if (leads()) leaders().reduce(sum, root_host, within(call.reduce_op));
  if (host_ != root_host) return;
  if (leads()) finish_mean(sum, call.reduce_op);
  if (leads() && root != 0) local_->send(sum, root);
  if (leads() && root == 0) call.output.copy_(sum);
  if (rank() == call.peer && root != 0) local_->recv(call.output, 0);
}

void HierarchicalGroup::broadcast(const Collective& call) {
  const int root_host = layout_.host_of(call.peer);
  if (host_ == root_host) local_->broadcast(call.input, layout_.local_rank_of(call.peer));
  if (leads()) leaders().broadcast(call.input, root_host);
  if (host_ != root_host) local_->broadcast(call.input, 0);
}

void HierarchicalGroup::reduce_scatter(const Collective& call) {
  const at::Tensor sum = summed_in_host(call);
  const auto per_host = layout_.per_host(call.input_counts);
  const auto own = layout_.of_host(call.input_counts, host_);
  at::Tensor block;
  if (leads()) {
    block = at::empty({per_host[static_cast<size_t>(host_)]}, sum.options());
    leaders().run(comm::reduce_scatter(sum, block, within(call.reduce_op), per_host));
    finish_mean(block, call.reduce_op);
  }
  local_->run(comm::scatter(block, call.output, 0, own));
}

void HierarchicalGroup::all_gather(const Collective& call) {
  const auto per_host = layout_.per_host(call.output_counts);
  at::Tensor block;
  if (leads()) block = at::empty({per_host[static_cast<size_t>(host_)]}, call.output.options());
  local_->run(comm::gather(call.input, block, 0, layout_.of_host(call.output_counts, host_)));
  if (leads()) leaders().run(comm::all_gather(block, call.output, per_host));
  local_->broadcast(call.output, 0);
}

// In turn: the host's ranks also meet in what is under way.
at::Tensor HierarchicalGroup::allocate(int64_t count, at::ScalarType type) {
  at::Tensor out;
  in_turn([&] { out = local_->allocate(count, type); });
  return out;
}

at::Tensor HierarchicalGroup::allocate_common(int64_t count, at::ScalarType type) {
  if (num_sharing() == 1) return Group::allocate_common(count, type);
  at::Tensor out;
  in_turn([&] { out = local_->allocate_common(count, type); });
  return out;
}

// The leaders exchange their hosts' blocks where they lie: nothing is copied inside a host.
void HierarchicalGroup::gather_common(const Collective& call) {
  WEFT_CHECK_GT(num_sharing(), 1);
  local_->barrier();  // all parts are in their places
  if (leads()) {
    const auto per_host = layout_.per_host(call.output_counts);
    const int64_t first = std::accumulate(per_host.begin(), per_host.begin() + host_, int64_t{0});
    const at::Tensor block = call.output.view({-1}).slice(0, first, first + per_host[static_cast<size_t>(host_)]);
    leaders().run(comm::all_gather(block, call.output, per_host));
  }
  local_->barrier();
}

std::shared_ptr<Group> HierarchicalGroup::split(const std::vector<int>& ranks, const std::string& name) {
  rank_among(ranks, *this);
  std::vector<int> hosts, neighbours, watched;
  for (const int rank : ranks) {
    watched.push_back(watched_[static_cast<size_t>(rank)]);
    hosts.push_back(layout_.host_of(rank));
    if (hosts.back() == host_) neighbours.push_back(layout_.local_rank_of(rank));
  }
  const HostLayout part(numbered_by_appearance(hosts));
  if (part.num_hosts() == 1) return local_->split(neighbours, name);
  auto flat = flat_->split(ranks, name);
  if (part.num_hosts() == flat->world()) return flat;
  auto local = local_->split(neighbours, cat(name, "/", host_));
  return std::make_shared<HierarchicalGroup>(std::move(flat), std::move(local), part, watch_, std::move(watched));
}

}  // namespace

std::shared_ptr<Group> make_hierarchical_group(std::shared_ptr<Group> flat, std::shared_ptr<Group> local,
                                               const std::vector<int>& host_of, std::shared_ptr<RollCall> watch) {
  HostLayout layout(host_of);
  WEFT_CHECK_GT(layout.num_hosts(), 1);
  std::vector<int> all(static_cast<size_t>(flat->world()));
  std::iota(all.begin(), all.end(), 0);
  return std::make_shared<HierarchicalGroup>(std::move(flat), std::move(local), std::move(layout), std::move(watch),
                                             std::move(all));
}

}  // namespace weft::comm
