// What ranks say to each other before they train: that they have the same plan, and the weights of rank 0.
//
// Collectives, made by all ranks in the same order. Failure: Error(kInput) on every rank for plans that differ, naming the
// first difference and the rank; PeerLost.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "weft/comm/group.h"
#include "weft/engine/model_tensors.h"
#include "weft/plan/agreement.h"

namespace weft::engine {

// 0, 1, ...: for a group of the same ranks.
std::vector<int> all_ranks(const comm::Group& group);

// The texts of all ranks, by rank. They may differ in length.
std::vector<std::string> exchange_texts(comm::Group& group, const std::string& mine, at::Device device);
// What join() put together. At least one part, which may be empty.
std::vector<std::string> split(std::string_view text, char separator);

void check_agreement(comm::Group& group, const plan::Description& mine, at::Device device);

// Parameters and buffers of rank 0, into the model where it is. Types that no transport moves travel as bytes.
void broadcast_model(comm::Group& group, const ModelTensors& model);

// Rank 0's numbers, on all ranks.
std::vector<int> broadcast_numbers(comm::Group& group, const std::vector<int>& mine, at::Device device);

}  // namespace weft::engine
