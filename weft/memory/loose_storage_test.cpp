#include "weft/memory/loose_storage.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <functional>

#include "weft/base/text.h"

namespace weft::memory {
namespace {

const std::string kWhy = "weft: 'weight' is elsewhere";

std::string what_torch_says(const std::function<void()>& what) {
  try {
    what();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing";
}

void expect_away(const at::Tensor& tensor, const std::string& why = kWhy) {
  const std::function<void()> looks[] = {
      [&] { tensor.const_data_ptr<float>(); },
      [&] { tensor.mutable_data_ptr<float>(); },
      [&] { tensor.const_data_ptr(); },
      [&] { tensor.mutable_data_ptr(); },
      [&] { tensor.storage().data(); },
      [&] { tensor.storage().mutable_data(); },
      [&] { tensor.add(1); },
      [&] { tensor.view({2, 4}).narrow(0, 1, 1).fill_(3); },
      [&] { at::full({8}, 2.0F).copy_(tensor); },
  };
  for (const auto& look : looks) {
    const std::string text = what_torch_says(look);
    EXPECT_NE(text.find(why), std::string::npos) << "look " << &look - looks << ": " << text;
  }
}

TEST(LooseStorage, SaysWhyItHasNoMemory) {
  const at::Tensor flat = without_memory(8, at::kFloat, at::kCPU);
  take_memory(storage_of(flat), kWhy);
  EXPECT_EQ(flat.numel(), 8);
  EXPECT_EQ(flat.view({2, 4}).size(1), 4) << "sizes and views need none";
  expect_away(flat);
  expect_away(flat.view({4, 2}).detach().view({8}));
}

TEST(LooseStorage, HasWhatItIsGivenAndLosesItAgain) {
  const at::Tensor flat = without_memory(8, at::kFloat, at::kCPU);
  const at::Tensor view = flat.narrow(0, 2, 4);
  for (int round = 0; round < 3; ++round) {
    take_memory(storage_of(flat), cat(kWhy, ", round ", round));
    expect_away(flat, cat(kWhy, ", round ", round));
    const at::Tensor memory = at::arange(round, round + 8, at::kFloat);
    give_memory(storage_of(flat), memory);
    EXPECT_TRUE(flat.equal(memory));
    EXPECT_EQ(flat.const_data_ptr<float>(), memory.const_data_ptr<float>());
    EXPECT_EQ(view.mutable_data_ptr(), memory.mutable_data_ptr<float>() + 2);
    view.mul_(2);
    EXPECT_EQ(memory[2].item<float>(), 2.0F * static_cast<float>(2 + round));
  }
}

TEST(LooseStorage, TheLastTextCounts) {
  const at::Tensor flat = without_memory(8, at::kFloat, at::kCPU);
  take_memory(storage_of(flat), kWhy);
  take_memory(storage_of(flat), "weft: and now it is gone");
  expect_away(flat, "and now it is gone");
  give_memory(storage_of(flat), at::full({8}, 1.0F));
  EXPECT_EQ(flat.sum().item<float>(), 8);
}

TEST(LooseStorage, KeepsWhatItWasGiven) {
  const at::Tensor flat = without_memory(8, at::kFloat, at::kCPU);
  give_memory(storage_of(flat), at::full({16}, 3.0F));  // longer: the rest is not looked at
  EXPECT_EQ(flat.sum().item<float>(), 24);
  EXPECT_EQ(bytes_of(storage_of(flat), 4, 4).view(at::kFloat).item<float>(), 3);
}

}  // namespace
}  // namespace weft::memory
