#include "weft/engine/agree.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/engine/sharded_init.h"
#include "weft/engine/tensor_bytes_impl.h"

namespace weft::engine {
namespace {

at::Tensor text_tensor(const std::string& text, at::Device device) {
  const at::Tensor bytes = at::empty({static_cast<int64_t>(text.size())}, at::kByte);
  std::memcpy(bytes.mutable_data_ptr(), text.data(), text.size());
  return bytes.to(device);
}

std::vector<int64_t> lengths_of_all(comm::Group& group, int64_t mine, at::Device device) {
  const at::Tensor all = at::empty({group.world()}, at::TensorOptions().dtype(at::kLong).device(device));
  group.all_gather(at::tensor({mine}, at::kLong).to(device), all);
  const at::Tensor on_host = all.cpu();
  const auto* values = on_host.const_data_ptr<int64_t>();
  return {values, values + on_host.numel()};
}

// Hashes as text: 32 hexadecimal digits a part.
std::string short_form(const plan::Description& description) { return to_hex(hashes_of(description).all); }

}  // namespace

std::vector<int> all_ranks(const comm::Group& group) {
  std::vector<int> all(static_cast<size_t>(group.world()));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::vector<std::string> exchange_texts(comm::Group& group, const std::string& mine, at::Device device) {
  const auto lengths = lengths_of_all(group, static_cast<int64_t>(mine.size()), device);
  int64_t total = 0;
  for (const int64_t length : lengths) total += length;
  const at::Tensor all = at::empty({total}, at::TensorOptions().dtype(at::kByte).device(device));
  group.run(comm::all_gather(text_tensor(mine, device), all, lengths));
  const at::Tensor on_host = all.cpu();
  const auto* next = static_cast<const char*>(on_host.const_data_ptr());
  std::vector<std::string> texts;
  for (const int64_t length : lengths) {
    texts.emplace_back(next, static_cast<size_t>(length));
    next += length;
  }
  return texts;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> out(1);
  for (const char c : text) {
    if (c == separator) {
      out.emplace_back();
    } else {
      out.back() += c;
    }
  }
  return out;
}

void check_agreement(comm::Group& group, const plan::Description& mine, at::Device device) {
  const auto hashes = exchange_texts(group, short_form(mine), device);
  const bool all_equal = std::all_of(hashes.begin(), hashes.end(), [&](const auto& hash) { return hash == hashes[0]; });
  if (all_equal) return;
  const auto texts = exchange_texts(group, to_text(mine), device);
  const auto of_rank_0 = plan::read_description(texts[0]).value();
  for (int rank = 1; rank < group.world(); ++rank) {
    const auto theirs = plan::read_description(texts[static_cast<size_t>(rank)]).value();
    const auto difference = first_difference(of_rank_0, theirs, 0, rank);
    if (!difference) continue;
    throw Error(ErrorKind::kInput, {.title = "the ranks do not train the same model with the same settings",
                                    .what = *difference,
                                    .where = cat("rank ", rank),
                                    .fix = "start all ranks with the same program, config and weft"});
  }
}

void broadcast_model(comm::Group& group, const ModelTensors& model) {
  const at::NoGradGuard no_grad;
  for (const auto* tensors : {&model.parameters, &model.buffers}) {
    for (const auto& [name, tensor] : *tensors) {
      // What was built in a ShardedInit is the same on all ranks, and should not be whole all at once.
      if (tensor.numel() == 0 || is_in_nursery(tensor)) continue;
      const at::Tensor whole = tensor.detach().contiguous();
      group.broadcast(as_bytes(whole), 0);
      if (whole.const_data_ptr() != tensor.const_data_ptr()) tensor.detach().copy_(whole);
    }
  }
}

std::vector<int> broadcast_numbers(comm::Group& group, const std::vector<int>& mine, at::Device device) {
  const at::Tensor numbers = at::empty({static_cast<int64_t>(mine.size())}, at::kInt);
  std::memcpy(numbers.mutable_data_ptr(), mine.data(), mine.size() * sizeof(int));
  const at::Tensor there = numbers.to(device);
  group.broadcast(there, 0);
  const at::Tensor back = there.cpu();
  const auto* values = back.const_data_ptr<int>();
  return {values, values + back.numel()};
}

}  // namespace weft::engine
