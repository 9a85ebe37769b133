#include "weft/comm/collective.h"

#include <numeric>

#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/comm/call_traits.h"

namespace weft::comm {
namespace {

using Counts = std::vector<int64_t>;

bool has_peer(Operation operation) { return uses_root(operation) || is_point_to_point(operation); }

[[noreturn]] void refuse_call(const Collective& call, const std::string& why) {
  throw Error(ErrorKind::kBug, {.title = cat("this ", name_of(call.operation), " cannot be"),
                                .what = why,
                                .where = describe(call),
                                .fix = "see weft/comm/collective.h for what each operation takes"});
}

void check_tensor(const Collective& call, const at::Tensor& tensor, const char* name) {
  if (!tensor.defined()) refuse_call(call, cat("the ", name, " tensor is undefined"));
  if (!tensor.is_contiguous()) refuse_call(call, cat("the ", name, " tensor is not contiguous"));
  element_type(tensor.scalar_type());
}

void check_counts(const Collective& call, const Counts& counts, int64_t whole, int world, const char* name) {
  if (static_cast<int>(counts.size()) != world)
    refuse_call(call, cat(counts.size(), " counts were given for ", world, " ranks"));
  int64_t sum = 0;
  for (const int64_t count : counts) {
    if (count < 0) refuse_call(call, "a count is negative");
    sum += count;
  }
  if (sum != whole)
    refuse_call(call, cat("the ", name, " tensor has ", whole, " elements, its counts add up to ", sum));
}

void check_count(const Collective& call, int64_t has, int64_t needs, const char* name) {
  if (has != needs)
    refuse_call(call, cat("the ", name, " tensor has ", has, " elements, this rank's count is ", needs));
}

int64_t count_of(const at::Tensor& tensor) { return tensor.defined() ? tensor.numel() : 0; }

// The tensor with one part per rank, and the one with a single part.
void complete_parts(Collective& call, const at::Tensor& whole, const at::Tensor& part, Counts& counts, int rank,
                    int world, bool whole_is_input) {
  if (counts.empty()) counts = split_evenly(whole.numel(), world);
  check_counts(call, counts, whole.numel(), world, whole_is_input ? "input" : "output");
  check_count(call, part.numel(), counts[static_cast<size_t>(rank)], whole_is_input ? "output" : "input");
}

// gather and scatter: away from the root the whole is unknown, so equal parts are what "no counts" means there.
void complete_rooted(Collective& call, const at::Tensor& whole, const at::Tensor& part, Counts& counts, int rank,
                     int world, bool whole_is_input) {
  if (counts.empty()) counts.assign(static_cast<size_t>(world), part.numel());
  if (rank == call.peer) {
    check_tensor(call, whole, whole_is_input ? "input" : "output");
    check_counts(call, counts, whole.numel(), world, whole_is_input ? "input" : "output");
  } else if (static_cast<int>(counts.size()) != world) {
    refuse_call(call, cat(counts.size(), " counts were given for ", world, " ranks"));
  }
  check_count(call, part.numel(), counts[static_cast<size_t>(rank)], whole_is_input ? "output" : "input");
}

void complete_all_to_all(Collective& call, int rank, int world) {
  if (call.input_counts.empty()) call.input_counts = split_evenly(call.input.numel(), world);
  if (call.output_counts.empty()) call.output_counts = split_evenly(call.output.numel(), world);
  check_counts(call, call.input_counts, call.input.numel(), world, "input");
  check_counts(call, call.output_counts, call.output.numel(), world, "output");
  const auto self = static_cast<size_t>(rank);
  check_count(call, call.output_counts[self], call.input_counts[self], "output");
}

void complete_counts(Collective& call, int rank, int world) {
  switch (call.operation) {
    case Operation::kReduceScatter:
      return complete_parts(call, call.input, call.output, call.input_counts, rank, world, true);
    case Operation::kAllGather:
      return complete_parts(call, call.output, call.input, call.output_counts, rank, world, false);
    case Operation::kGather:
      return complete_rooted(call, call.output, call.input, call.output_counts, rank, world, false);
    case Operation::kScatter:
      return complete_rooted(call, call.input, call.output, call.input_counts, rank, world, true);
    case Operation::kAllToAll: return complete_all_to_all(call, rank, world);
    default: return;
  }
}

}  // namespace

int64_t Collective::bytes() const {
  const int64_t count = std::max(count_of(input), count_of(output));
  return count == 0 ? 0 : count * static_cast<int64_t>(c10::elementSize(dtype()));
}

at::ScalarType Collective::dtype() const {
  if (input.defined()) return input.scalar_type();
  return output.defined() ? output.scalar_type() : at::kByte;
}

Collective all_reduce(const at::Tensor& data, ReduceOp op) {
  return {.operation = Operation::kAllReduce, .input = data, .output = data, .reduce_op = op};
}
Collective reduce(const at::Tensor& data, int root, ReduceOp op) {
  return {.operation = Operation::kReduce, .input = data, .output = data, .reduce_op = op, .peer = root};
}
Collective broadcast(const at::Tensor& data, int root) {
  return {.operation = Operation::kBroadcast, .input = data, .output = data, .peer = root};
}
Collective reduce_scatter(const at::Tensor& input, const at::Tensor& output, ReduceOp op, Counts counts) {
  return {.operation = Operation::kReduceScatter,
          .input = input,
          .output = output,
          .input_counts = std::move(counts),
          .reduce_op = op};
}
Collective all_gather(const at::Tensor& input, const at::Tensor& output, Counts counts) {
  return {.operation = Operation::kAllGather, .input = input, .output = output, .output_counts = std::move(counts)};
}
Collective gather_common(const at::Tensor& whole, int rank, int world) {
  Collective call{.operation = Operation::kAllGather,
                  .output = whole,
                  .output_counts = split_evenly(whole.numel(), world),
                  .in_common = true};
  const auto own = call.output_counts.begin() + rank;
  const int64_t first = std::accumulate(call.output_counts.begin(), own, int64_t{0});
  call.input = whole.view({-1}).slice(0, first, first + *own);
  return call;
}
Collective all_to_all(const at::Tensor& input, const at::Tensor& output, Counts input_counts, Counts output_counts) {
  return {.operation = Operation::kAllToAll,
          .input = input,
          .output = output,
          .input_counts = std::move(input_counts),
          .output_counts = std::move(output_counts)};
}
Collective gather(const at::Tensor& input, const at::Tensor& output, int root, Counts counts) {
  return {.operation = Operation::kGather,
          .input = input,
          .output = output,
          .output_counts = std::move(counts),
          .peer = root};
}
Collective scatter(const at::Tensor& input, const at::Tensor& output, int root, Counts counts) {
  return {.operation = Operation::kScatter,
          .input = input,
          .output = output,
          .input_counts = std::move(counts),
          .peer = root};
}
Collective barrier() { return {}; }
Collective send(const at::Tensor& data, int to, int tag) {
  return {.operation = Operation::kSend, .input = data, .output = data, .peer = to, .tag = tag};
}
Collective recv(const at::Tensor& data, int from, int tag) {
  return {.operation = Operation::kRecv, .input = data, .output = data, .peer = from, .tag = tag};
}

Counts split_evenly(int64_t count, int world) {
  Counts counts(static_cast<size_t>(world), count / world);
  for (int64_t rank = 0; rank < count % world; ++rank) ++counts[static_cast<size_t>(rank)];
  return counts;
}

void complete(Collective& call, int rank, int world) {
  if (call.operation == Operation::kBarrier) return;
  if (has_peer(call.operation) && (call.peer < 0 || call.peer >= world))
    refuse_call(call, cat("rank ", call.peer, " is not one of ", world));
  if (is_point_to_point(call.operation) && call.peer == rank) refuse_call(call, "a rank has nothing to say to itself");
  if (call.operation != Operation::kScatter) check_tensor(call, call.input, "input");
  if (call.operation != Operation::kGather) check_tensor(call, call.output, "output");
  const bool both = call.input.defined() && call.output.defined();
  if (both && call.input.scalar_type() != call.output.scalar_type())
    refuse_call(call, "input and output differ in type");
  if (both && call.input.device() != call.output.device())
    refuse_call(call, "input and output are on different devices");
  complete_counts(call, rank, world);
}

std::string describe(const Collective& call) {
  std::string text = cat(name_of(call.operation), " of ", call.bytes(), " bytes");
  if (call.operation == Operation::kBarrier) return "barrier";
  text += cat(" (", c10::toString(call.dtype()));
  if (uses_reduce_op(call.operation)) text += cat(", ", reduce_op_name(call.reduce_op));
  if (has_peer(call.operation)) text += cat(", rank ", call.peer);
  return cat(text, ")", call.purpose.empty() ? "" : " for ", call.purpose);
}

fabric::ElementType element_type(at::ScalarType type) {
  using fabric::ElementType;
  switch (type) {
    case at::kFloat: return ElementType::kFloat32;
    case at::kDouble: return ElementType::kFloat64;
    case at::kHalf: return ElementType::kFloat16;
    case at::kBFloat16: return ElementType::kBFloat16;
    case at::kChar: return ElementType::kInt8;
    case at::kShort: return ElementType::kInt16;
    case at::kInt: return ElementType::kInt32;
    case at::kLong: return ElementType::kInt64;
    case at::kByte:
    case at::kBool: return ElementType::kUInt8;
    default: break;
  }
  throw Error(ErrorKind::kBug, {.title = cat("no transport moves elements of type ", c10::toString(type)),
                                .what = "",
                                .where = "",
                                .fix = "convert the tensor to float, double, half, bfloat16 or a whole-number type"});
}

}  // namespace weft::comm
