#include "weft/data/loader.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "weft/data/test_refusal_impl.h"

namespace weft::data {
namespace {

// Sample i is (i, i), (2 i). Some cannot be read.
struct Numbers {
  int64_t num_samples = 10;
  int64_t broken = -1;

  int64_t size() const { return num_samples; }
  Tensors get(int64_t i) const {
    for (int64_t j = 0; j < i % 3; ++j) std::this_thread::yield();
    if (i == broken) throw std::runtime_error("the disk said no");
    return {at::full({2}, i, at::kLong), at::full({1}, 2 * i, at::kLong)};
  }
};

struct BatchNumbers {
  int64_t size() const { return 10; }
  Tensors get_batch(std::span<const int64_t> indices) const {
    if (indices.front() == 4) throw std::runtime_error("a bad block");
    return {at::full({static_cast<int64_t>(indices.size())}, indices.front(), at::kLong)};
  }
  Tensors get(int64_t) const { throw std::logic_error("get_batch goes first"); }
};

DistributedSampler plain(int64_t n, int64_t rank = 0, int64_t world = 1) {
  return DistributedSampler({.num_samples = n, .rank = rank, .world = world, .shuffle = false});
}

template <typename D>
std::shared_ptr<D> shared(D dataset) {
  return std::make_shared<D>(std::move(dataset));
}

std::vector<int64_t> column(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.dim() > 1 ? tensor.select(1, 0).contiguous() : tensor;
  const auto* const first = flat.const_data_ptr<int64_t>();
  return {first, first + flat.numel()};
}

using Batches = std::vector<std::vector<int64_t>>;

Batches rest_of(Loader& loader) {
  Batches out;
  for (const Batch& batch : loader) out.push_back(column(batch.data));
  return out;
}

const LoaderOptions kOptions[] = {
    {.micro_batch = 3, .num_threads = 0},
    {.micro_batch = 3, .num_threads = 1, .depth = 1},
    {.micro_batch = 3, .num_threads = 4, .depth = 2},
    {.micro_batch = 3, .num_threads = 2, .depth = 100},
};

TEST(Loader, BatchesComeInTheSamplersOrder) {
  for (const auto& options : kOptions) {
    Loader loader(shared(Numbers{}), plain(10), options);
    EXPECT_EQ(loader.size(), 4);
    EXPECT_EQ(rest_of(loader), (Batches{{0, 1, 2}, {3, 4, 5}, {6, 7, 8}, {9}}));
    EXPECT_FALSE(loader.next().has_value());
  }
}

TEST(Loader, ShuffledEpochsAreTheSamplers) {
  for (const auto& options : kOptions) {
    DistributedSampler sampler({.num_samples = 50, .rank = 1, .world = 2, .seed = 4});
    Loader loader(shared(Numbers{.num_samples = 50}), sampler, options);
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      loader.set_epoch(epoch);
      sampler.set_epoch(epoch);
      std::vector<int64_t> expected, found;
      for (int64_t i = 0; i < sampler.size(); ++i) expected.push_back(sampler.at(i));
      for (const auto& batch : rest_of(loader)) found.insert(found.end(), batch.begin(), batch.end());
      EXPECT_EQ(found, expected);
    }
  }
}

TEST(Loader, TensorsAreStackedAndNamed) {
  Loader loader(shared(Numbers{}), plain(10), {.micro_batch = 4});
  const Batch batch = *loader.next();
  EXPECT_EQ(batch.data.sizes(), (std::vector<int64_t>{4, 2}));
  EXPECT_EQ(batch.target.sizes(), (std::vector<int64_t>{4, 1}));
  EXPECT_EQ(column(batch.target), (std::vector<int64_t>{0, 2, 4, 6}));
  EXPECT_EQ(batch.tensors.size(), 2U);
  EXPECT_FALSE(batch.data.requires_grad());
}

TEST(Loader, ADatasetMayMakeWholeBatches) {
  Loader loader(shared(BatchNumbers{}), plain(10), {.micro_batch = 2});
  const Batch batch = *loader.next();
  EXPECT_EQ(column(batch.data), (std::vector<int64_t>{0, 0}));
  EXPECT_FALSE(batch.target.defined());
  loader.next();
  EXPECT_EQ(refusal_of([&] { loader.next(); }, 1).title, "cannot read one of samples 4 5 of the dataset");
}

TEST(Loader, DropPartialLeavesTheLastBatchOut) {
  Loader loader(shared(Numbers{}), plain(10), {.micro_batch = 3, .drop_partial = true});
  EXPECT_EQ(loader.size(), 3);
  EXPECT_EQ(rest_of(loader), (Batches{{0, 1, 2}, {3, 4, 5}, {6, 7, 8}}));
  Loader resumed(shared(Numbers{}), plain(10), {.micro_batch = 1, .drop_partial = true});
  resumed.resume(loader.state());
  EXPECT_EQ(resumed.size(), 0);
}

TEST(Loader, AnErrorComesAtItsBatchWithTheSample) {
  for (const auto& options : kOptions) {
    Loader loader(shared(Numbers{.broken = 7}), plain(10), options);
    loader.next();
    loader.next();
    const ErrorText text = refusal_of([&] { loader.next(); }, 1);
    EXPECT_EQ(text.title, "cannot read sample 7 of the dataset");
    EXPECT_EQ(text.what, "the disk said no");
    EXPECT_EQ(loader.state().consumed, 9);
    EXPECT_EQ(column(loader.next()->data), std::vector<int64_t>{9});
  }
}

struct Ragged {
  int64_t size() const { return 4; }
  Tensors get(int64_t i) const { return {at::zeros({i == 2 ? 5 : 3}), at::zeros({1}, at::kInt)}; }
};

TEST(Loader, SamplesThatDoNotFitTogetherAreNamed) {
  Loader loader(shared(Ragged{}), plain(4), {.micro_batch = 4});
  const ErrorText text = refusal_of([&] { loader.next(); });
  EXPECT_EQ(text.title, "cannot read sample 2 of the dataset");
  EXPECT_EQ(text.what,
            "its tensors do not go into one batch with the others: they are (Float 5, Int 1), those of sample 0 are "
            "(Float 3, Int 1)");
}

// libtorch's own errors lose their stack, which is pages long.
struct Wrong {
  int64_t size() const { return 1; }
  Tensors get(int64_t) const { return {at::zeros({2}).reshape({3})}; }
};

TEST(Loader, LibtorchsErrorsAreShort) {
  Loader loader(shared(Wrong{}), plain(1), {});
  const std::string what = refusal_of([&] { loader.next(); }, 1).what;
  EXPECT_EQ(what, "shape '[3]' is invalid for input of size 2");
}

TEST(Loader, TheStateCountsWhatWasHandedOutAndNotWhatWasReadAhead) {
  for (const auto& options : kOptions) {
    for (int64_t taken = 0; taken <= 4; ++taken) {
      Loader loader(shared(Numbers{}), plain(10), options);
      for (int64_t i = 0; i < taken; ++i) loader.next();
      Loader resumed(shared(Numbers{}), plain(10), options);
      resumed.resume(loader.state());
      EXPECT_EQ(resumed.size(), 4 - taken);
      EXPECT_EQ(rest_of(resumed), rest_of(loader)) << "after " << taken;
      EXPECT_EQ(resumed.state(), loader.state());
    }
  }
}

TEST(Loader, AnEpochCanBeLeftAndStartedAnew) {
  for (const auto& options : kOptions) {
    Loader loader(shared(Numbers{}), plain(10), options);
    loader.next();
    const SamplerState after_one = loader.state();
    EXPECT_EQ(refusal_of([&] { loader.resume({.num_samples = 3}); }).title, "the saved position is another run's");
    EXPECT_EQ(column(loader.next()->data), (std::vector<int64_t>{3, 4, 5}));  // the refusal changed nothing
    loader.resume(after_one);
    EXPECT_EQ(column(loader.next()->data), (std::vector<int64_t>{3, 4, 5}));
    loader.set_epoch(0);
    EXPECT_EQ(column(loader.next()->data), (std::vector<int64_t>{0, 1, 2}));
  }
}

TEST(Loader, EndsAtAnyMomentAndLetsTheDatasetGo) {
  for (const auto& options : kOptions) {
    for (int64_t taken = 0; taken <= 6; ++taken) {
      const auto dataset = shared(Numbers{.num_samples = 1000});
      {
        Loader loader(dataset, plain(1000), options);
        for (int64_t i = 0; i < taken; ++i) loader.next();
      }
      EXPECT_EQ(dataset.use_count(), 1);
    }
  }
}

TEST(Loader, RefusesWhatCannotBe) {
  const auto what_of = [](const LoaderOptions& options, int64_t n = 10) {
    return refusal_of([&] { Loader(shared(Numbers{}), plain(n), options); }).what;
  };
  EXPECT_EQ(what_of({.micro_batch = 0}), "the micro-batch is 0, 1 is the least");
  EXPECT_EQ(what_of({.num_threads = -1}), "the number of threads is -1, it is 0 to 1024");
  EXPECT_EQ(what_of({.depth = 0}), "the depth is 0, it is 1 to 1048576");
  EXPECT_EQ(what_of({}, 11), "the dataset has 10 samples, the sampler deals out 11");
  EXPECT_EQ(what_of({.micro_batch = 11, .drop_partial = true}),
            "a rank takes 10 samples an epoch, the micro-batch is 11, and partial batches are left out");
}

}  // namespace
}  // namespace weft::data
