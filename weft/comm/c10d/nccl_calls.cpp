#include <ATen/ops/zeros.h>

#include <algorithm>
#include <functional>

#include "weft/comm/c10d/nccl_calls_impl.h"

namespace weft::comm {
namespace {

using Tensors = std::vector<at::Tensor>;

c10d::ReduceOp op_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum: return c10d::ReduceOp::SUM;
    case ReduceOp::kMean: return c10d::ReduceOp::AVG;
    case ReduceOp::kMax: return c10d::ReduceOp::MAX;
    case ReduceOp::kMin: return c10d::ReduceOp::MIN;
  }
  return c10d::ReduceOp::SUM;
}

// Moves do not care for the type, and NCCL does not know all of ours.
at::Tensor as_bytes(const at::Tensor& tensor) { return tensor.reshape({-1}).view(at::kByte); }

Tensors parts_of(const at::Tensor& whole, const std::vector<int64_t>& counts) {
  return whole.reshape({-1}).split_with_sizes(counts);
}

bool all_equal(const std::vector<int64_t>& counts) {
  return std::adjacent_find(counts.begin(), counts.end(), std::not_equal_to<>()) == counts.end();
}

bool has_bytes(const at::Tensor& tensor) { return tensor.defined() && tensor.numel() > 0; }

std::vector<int64_t> scaled(std::vector<int64_t> counts, int64_t by) {
  for (int64_t& count : counts) count *= by;
  return counts;
}

}  // namespace

NcclCalls::NcclCalls(NcclPtr nccl, c10::Device device)
    : nccl_(std::move(nccl)), token_(at::zeros({1}, at::TensorOptions().device(device))) {}

WorkPtr NcclCalls::start(const Collective& call) {
  switch (call.operation) {
    case Operation::kAllReduce: return all_reduce(call.input, call.reduce_op);
    case Operation::kReduce: return reduce(call);
    case Operation::kReduceScatter: return reduce_scatter(call);
    case Operation::kBroadcast: return broadcast(call);
    case Operation::kAllGather: return all_gather(call);
    case Operation::kAllToAll: return all_to_all(call);
    case Operation::kGather: return gather(call);
    case Operation::kScatter: return scatter(call);
    case Operation::kSend: return message(call.input, true, call.peer);
    case Operation::kRecv: return message(call.input, false, call.peer);
    default: return all_reduce(token_, ReduceOp::kSum);
  }
}

WorkPtr NcclCalls::all_reduce(const at::Tensor& data, ReduceOp op) {
  if (data.numel() == 0) return {};
  Tensors tensors = {data};
  c10d::AllreduceOptions options;
  options.reduceOp = op_of(op);
  return nccl_->allreduce(tensors, options);
}

WorkPtr NcclCalls::reduce(const Collective& call) {
  if (call.input.numel() == 0) return {};
  // In place NCCL may use the others' memory for partial sums; only the root's may change.
  Tensors tensors = {rank() == call.peer ? call.input : call.input.clone()};
  c10d::ReduceOptions options;
  options.reduceOp = op_of(call.reduce_op);
  options.rootRank = call.peer;
  return nccl_->reduce(tensors, options);
}

WorkPtr NcclCalls::broadcast(const Collective& call) {
  if (call.input.numel() == 0) return {};
  Tensors tensors = {as_bytes(call.input)};
  c10d::BroadcastOptions options;
  options.rootRank = call.peer;
  return nccl_->broadcast(tensors, options);
}

WorkPtr NcclCalls::reduce_scatter(const Collective& call) {
  if (call.input.numel() == 0) return {};
  c10d::ReduceScatterOptions options;
  options.reduceOp = op_of(call.reduce_op);
  at::Tensor input = call.input.reshape({-1}), output = call.output.reshape({-1});
  if (all_equal(call.input_counts)) return nccl_->_reduce_scatter_base(output, input, options);
  Tensors outputs = {output};
  std::vector<Tensors> inputs = {parts_of(input, call.input_counts)};
  return nccl_->reduce_scatter(outputs, inputs, options);
}

WorkPtr NcclCalls::all_gather(const Collective& call) {
  if (call.output.numel() == 0) return {};
  const int64_t size = call.output.element_size();
  at::Tensor input = as_bytes(call.input), output = as_bytes(call.output);
  if (all_equal(call.output_counts)) return nccl_->_allgather_base(output, input);
  return exchange(Tensors(static_cast<size_t>(world()), input), parts_of(output, scaled(call.output_counts, size)));
}

WorkPtr NcclCalls::all_to_all(const Collective& call) {
  const int64_t size = call.output.element_size();
  return exchange(parts_of(as_bytes(call.input), scaled(call.input_counts, size)),
                  parts_of(as_bytes(call.output), scaled(call.output_counts, size)));
}

WorkPtr NcclCalls::gather(const Collective& call) {
  const int64_t size = call.input.element_size();
  Tensors out(static_cast<size_t>(world())), in = out;
  out[static_cast<size_t>(call.peer)] = as_bytes(call.input);
  if (rank() == call.peer) in = parts_of(as_bytes(call.output), scaled(call.output_counts, size));
  return exchange(out, in);
}

WorkPtr NcclCalls::scatter(const Collective& call) {
  const int64_t size = call.output.element_size();
  Tensors out(static_cast<size_t>(world())), in = out;
  in[static_cast<size_t>(call.peer)] = as_bytes(call.output);
  if (rank() == call.peer) out = parts_of(as_bytes(call.input), scaled(call.input_counts, size));
  return exchange(out, in);
}

WorkPtr NcclCalls::message(const at::Tensor& data, bool is_send, int peer) {
  if (data.numel() == 0) return {};
  Tensors tensors = {as_bytes(data)};
  return is_send ? nccl_->send(tensors, peer, 0) : nccl_->recv(tensors, peer, 0);
}

WorkPtr NcclCalls::exchange(const Tensors& out, const Tensors& in) {
  const auto self = static_cast<size_t>(rank());
  if (has_bytes(in[self])) in[self].copy_(out[self]);
  if (!has_bytes_for_others(out) && !has_bytes_for_others(in)) return {};
  nccl_->startCoalescing();
  for (int peer = 0; peer < world(); ++peer) {
    const auto index = static_cast<size_t>(peer);
    if (peer == rank()) continue;
    Tensors sent = {out[index]}, received = {in[index]};
    if (has_bytes(out[index])) nccl_->send(sent, peer, 0);
    if (has_bytes(in[index])) nccl_->recv(received, peer, 0);
  }
  return nccl_->endCoalescing();
}

bool NcclCalls::has_bytes_for_others(const Tensors& parts) const {
  for (size_t peer = 0; peer < parts.size(); ++peer)
    if (static_cast<int>(peer) != rank() && has_bytes(parts[peer])) return true;
  return false;
}

}  // namespace weft::comm
