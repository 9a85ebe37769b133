// What the loader reads from. A dataset is any type with
//
//   int64_t size() const;                                                       how many samples
//   Tensors get(int64_t index) const;                                           one sample, or
//   Tensors get_batch(std::span<const int64_t> indices) const;                  several, as a batch
//
// get() gives one sample's tensors, which the loader stacks along a new first dimension; get_batch(), taken where there is
// one, gives the stacked tensors itself. By custom the first tensor is the data, the second the target.
//
// Threads: get and get_batch are called from several threads at once. Failure: whatever they throw reaches the consumer at
// the batch concerned, as an Error that names the sample.
#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "weft/base/error.h"

namespace weft::data {

using Tensors = std::vector<at::Tensor>;

template <typename D>
concept Sized = requires(const D& dataset) {
  { dataset.size() } -> std::convertible_to<int64_t>;
};
template <typename D>
concept SampleDataset = Sized<D> && requires(const D& dataset, int64_t index) {
  { dataset.get(index) } -> std::convertible_to<Tensors>;
};
template <typename D>
concept BatchDataset = Sized<D> && requires(const D& dataset, std::span<const int64_t> indices) {
  { dataset.get_batch(indices) } -> std::convertible_to<Tensors>;
};

// Reading a sample failed. Keeps the kind and the fix of an Error below it.
class SampleError : public Error {
 public:
  SampleError(int64_t index, const std::exception& cause);
  // A whole batch at once, where nobody can tell which.
  SampleError(std::span<const int64_t> indices, const std::exception& cause);

 private:
  SampleError(const std::string& which, const std::exception& cause);
};

// Samples as a batch. Throws SampleError when one differs from the first in number, type or sizes of its tensors.
// Requires: indices.size() == samples.size(), at least one.
Tensors stack(std::span<const Tensors> samples, std::span<const int64_t> indices);

// Calls read(), and adds the sample's index to what it throws.
template <typename Read>
auto at_sample(int64_t index, Read read) {
  try {
    return read();
  } catch (const std::exception& error) {
    throw SampleError(index, error);
  }
}

// Any dataset as the one function that the loader needs. It keeps the dataset alive.
using ReadBatch = std::function<Tensors(std::span<const int64_t>)>;

template <BatchDataset D>
ReadBatch batch_reader(std::shared_ptr<const D> dataset) {
  return [dataset](std::span<const int64_t> indices) -> Tensors {
    try {
      return dataset->get_batch(indices);
    } catch (const SampleError&) {
      throw;
    } catch (const std::exception& error) {
      throw SampleError(indices, error);
    }
  };
}

template <SampleDataset D>
  requires(!BatchDataset<D>)
ReadBatch batch_reader(std::shared_ptr<const D> dataset) {
  return [dataset](std::span<const int64_t> indices) {
    std::vector<Tensors> samples;
    for (const int64_t index : indices)
      samples.push_back(at_sample(index, [&]() -> Tensors { return dataset->get(index); }));
    return stack(samples, indices);
  };
}

}  // namespace weft::data
