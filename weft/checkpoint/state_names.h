// What tensors of a training are called in a checkpoint. The first word says of which kind they are, so that no parameter's name can
// be taken for anything else.
//
// On-disk: never rename.
#pragma once

#include <string>
#include <string_view>

#include "weft/base/text.h"

namespace weft::checkpoint {

inline constexpr std::string_view kParamPrefix = "param/";      // param/NAME, in fp32 where there is such a copy
inline constexpr std::string_view kOptimPrefix = "optim/";      // optim/exp_avg/NAME
inline constexpr std::string_view kBufferPrefix = "buffer/";    // buffer/NAME, that of rank 0
inline constexpr std::string_view kCounterPrefix = "counter/";  // counter/step, counter/joined, counter/loss_scale
// Of a step under way: grad/NAME, what all ranks have added up of it.
inline constexpr std::string_view kGradPrefix = "grad/";

// Of ranks whose buffers are not rank 0's.
inline std::string own_buffer_name(int rank, const std::string& name) { return cat("own_buffer/", rank, "/", name); }
// Of a step under way: what one rank has added up and not yet reduced.
inline constexpr std::string_view kOwnGradPrefix = "own_grad/";
inline std::string own_grad_name(int rank, const std::string& name) { return cat(kOwnGradPrefix, rank, "/", name); }
inline std::string random_name(const std::string& where, int rank) { return cat("random/", where, "/", rank); }
inline std::string user_state_name(int rank, int world) { return cat("user_optimizer.rank_", rank, "_of_", world); }

// Sections of the manifest.
inline constexpr std::string_view kNumbersSection = "weft.numbers", kPlanSection = "weft.plan",
                                  kTagSection = "weft.tag", kDataSection = "weft.data", kClientPrefix = "client.";

}  // namespace weft::checkpoint
