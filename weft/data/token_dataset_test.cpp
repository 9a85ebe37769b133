#include "weft/data/token_dataset.h"

#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"
#include "weft/data/loader.h"

namespace weft::data {
namespace {

// Tokens 0, 1, 2, ...
std::vector<std::string> write_run(const std::string& path, size_t count) {
  std::vector<uint16_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), uint16_t{0});
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(tokens.data()), static_cast<std::streamsize>(count * 2));
  return {path};
}

std::vector<int64_t> values_of(const at::Tensor& tensor) {
  const auto* const first = tensor.const_data_ptr<int64_t>();
  return {first, first + tensor.numel()};
}

TEST(TokenDataset, TheTargetIsTheNextToken) {
  const test::TempDir dir;
  const TokenDataset dataset(Env::posix(), write_run(dir / "a.u16", 13), {.seq = 3});
  EXPECT_EQ(dataset.size(), 4);
  const std::vector<int64_t> indices = {2, 0};
  const Tensors batch = dataset.get_batch(indices);
  ASSERT_EQ(batch.size(), 2U);
  EXPECT_EQ(batch[0].sizes(), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(values_of(batch[0]), (std::vector<int64_t>{6, 7, 8, 0, 1, 2}));
  EXPECT_EQ(values_of(batch[1]), (std::vector<int64_t>{7, 8, 9, 1, 2, 3}));
}

TEST(TokenDataset, GoesThroughTheLoaderAndNamesTheSampleAtFault) {
  const test::TempDir dir;
  const auto dataset = std::make_shared<const TokenDataset>(Env::posix(), write_run(dir / "a.u16", 101),
                                                            TokenWindowOptions{.seq = 10, .vocab = 75});
  Loader loader(dataset, DistributedSampler({.num_samples = dataset->size(), .shuffle = false}),
                {.micro_batch = 4, .num_threads = 2});
  const Batch batch = *loader.next();
  EXPECT_EQ(batch.data.sizes(), (std::vector<int64_t>{4, 10}));
  EXPECT_EQ(values_of(batch.target).back(), 40);
  try {
    loader.next();
    FAIL();
  } catch (const SampleError& error) {
    EXPECT_EQ(error.text().title, "cannot read sample 7 of the dataset");
    EXPECT_EQ(error.text().what,
              "a token is outside the vocabulary: token 75 of the file is 75, the vocabulary has 75");
    EXPECT_EQ(error.text().where, dir / "a.u16");
    EXPECT_EQ(error.exit_code(), 2);
  }
}

}  // namespace
}  // namespace weft::data
