// Which of a call's fields its operation uses, and their names. Free functions, any thread.
#pragma once

#include <string_view>

#include "weft/comm/collective.h"

namespace weft::comm {

inline bool is_point_to_point(Operation operation) {
  return operation == Operation::kSend || operation == Operation::kRecv;
}

inline bool uses_reduce_op(Operation operation) {
  return operation == Operation::kAllReduce || operation == Operation::kReduce ||
         operation == Operation::kReduceScatter;
}

inline bool uses_root(Operation operation) {
  return operation == Operation::kReduce || operation == Operation::kBroadcast || operation == Operation::kGather ||
         operation == Operation::kScatter;
}

inline std::string_view reduce_op_name(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum: return "sum";
    case ReduceOp::kMean: return "mean";
    case ReduceOp::kMax: return "max";
    case ReduceOp::kMin: return "min";
  }
  return "?";
}

}  // namespace weft::comm
