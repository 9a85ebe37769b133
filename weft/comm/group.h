// Ranks that talk: the collectives of distributed training, whatever carries the bytes.
//
//   std::shared_ptr<Group> world = init().group;
//   at::Tensor bucket = world->allocate(count, at::kFloat);       // memory the transport works on where it lies
//   world->all_reduce(bucket, ReduceOp::kMean);                   // blocks
//   Work work = world->start(all_gather(shard, whole));           // does not
//   ...
//   work.wait();
//
// All ranks make the same calls in the same order (send, recv and read apart). Transports and wrappers implement launch()
// and allocate(); everything else is here, once. On CUDA, calls are ordered behind what the current stream has been given
// and run on a stream of their own.
//
// Ownership: shared; a wrapper owns what it wraps. Threads: calls from one thread at a time. Failure: PeerLost (peer_lost.h)
// when a peer died, left or is not there by the deadline, after which every call throws the same; Error(kBug) for calls
// that do not fit together.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weft/comm/collective.h"
#include "weft/comm/work.h"

namespace weft::comm {

enum class Launch { kBlocking, kAsync };

class Group {
 public:
  virtual ~Group() = default;
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  int rank() const { return rank_; }
  int world() const { return world_; }
  const std::string& name() const { return name_; }
  double deadline_s() const { return deadline_s_; }
  // "shm", "gloo", "nccl", "shm+gloo", "fake".
  virtual std::string_view transport() const = 0;

  void run(Collective call);
  Work start(Collective call);

  void all_reduce(const at::Tensor& data, ReduceOp op = ReduceOp::kSum) { run(comm::all_reduce(data, op)); }
  void reduce(const at::Tensor& data, int root, ReduceOp op = ReduceOp::kSum) { run(comm::reduce(data, root, op)); }
  void broadcast(const at::Tensor& data, int root) { run(comm::broadcast(data, root)); }
  void reduce_scatter(const at::Tensor& input, const at::Tensor& output, ReduceOp op = ReduceOp::kSum) {
    run(comm::reduce_scatter(input, output, op));
  }
  void all_gather(const at::Tensor& input, const at::Tensor& output) { run(comm::all_gather(input, output)); }
  void all_to_all(const at::Tensor& input, const at::Tensor& output) { run(comm::all_to_all(input, output)); }
  void gather(const at::Tensor& input, const at::Tensor& output, int root) { run(comm::gather(input, output, root)); }
  void scatter(const at::Tensor& input, const at::Tensor& output, int root) { run(comm::scatter(input, output, root)); }
  void barrier() { run(comm::barrier()); }
  void send(const at::Tensor& data, int to, int tag = 0) { run(comm::send(data, to, tag)); }
  void recv(const at::Tensor& data, int from, int tag = 0) { run(comm::recv(data, from, tag)); }

  // A flat zeroed tensor in memory that this transport works on without staging. A collective: all ranks, equal sizes.
  // The tensor may outlive the group.
  virtual at::Tensor allocate(int64_t count, at::ScalarType type) = 0;
  // A flat zeroed tensor that is the same memory in all ranks of a host, where they share any. A collective. It is for no other
  // call of the group than gather_common(): whoever writes puts barriers around that.
  virtual at::Tensor allocate_common(int64_t count, at::ScalarType type);
  // How many ranks that memory is one for, in every host alike: ranks 0 to n-1, n to 2n-1, and so on. 1: none share any.
  virtual int num_sharing() const { return 1; }
  bool shares_memory() const { return num_sharing() == world_; }
  // One-sided: copies what `peer` has at the place that `mine` (of allocate(), or a view of it) has here. No peer takes
  // part; order it with barriers. Only where one_sided().
  virtual bool one_sided() const { return false; }
  virtual void read(int peer, const at::Tensor& mine, const at::Tensor& into);

  // A group of some of these ranks, in the order given; only they call it. Two with the same ranks need different names.
  virtual std::shared_ptr<Group> split(const std::vector<int>& ranks, const std::string& name) = 0;
  // The same for calls on host memory, where this group's are on a device.
  virtual std::shared_ptr<Group> split_on_host(const std::vector<int>& ranks, const std::string& name) {
    return split(ranks, name);
  }

 protected:
  Group(std::string name, int rank, int world, double deadline_s)
      : name_(std::move(name)), rank_(rank), world_(world), deadline_s_(deadline_s) {}

  // `call` is complete() and counted. Blocking: done when it returns, and the Work says so.
  virtual Work launch(const Collective& call, Launch how) = 0;
  // Number of the current call, from 1; send and recv have that of the collective before them.
  uint64_t sequence() const { return sequence_; }

  // For wrappers, which are no friends of what they wrap.
  static Work launch_on(Group& group, const Collective& call, Launch how);

 private:
  void count(const Collective& call);

  const std::string name_;
  const int rank_, world_;
  const double deadline_s_;
  uint64_t sequence_ = 0;
};

// A flat zeroed tensor on `device` for this group's calls: of allocate() where that is the host, else the device's own memory.
at::Tensor allocate_on(Group& group, c10::Device device, int64_t count, at::ScalarType type);

// "3" -> rank of ours among `ranks`; an Error when we are not among them, or one is named twice or out of range.
int rank_among(const std::vector<int>& ranks, const Group& group);

}  // namespace weft::comm
