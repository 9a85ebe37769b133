#include "weft/data/dataset.h"

#include <ATen/ops/stack.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <string>

#include "weft/base/check.h"
#include "weft/base/text.h"

namespace weft::data {
namespace {

std::string one_line(const ErrorText& text) {
  return text.what.empty() ? text.title : cat(text.title, ": ", text.what);
}

// libtorch's errors carry a C++ stack, pages long.
std::string message_of(const std::exception& cause) {
  if (const auto* error = dynamic_cast<const Error*>(&cause)) return one_line(error->text());
  if (const auto* error = dynamic_cast<const c10::Error*>(&cause)) return error->what_without_backtrace();
  return cause.what();
}

ErrorKind kind_of(const std::exception& cause) {
  const auto* error = dynamic_cast<const Error*>(&cause);
  return error == nullptr ? ErrorKind::kEnvironment : error->kind();
}

ErrorText text_of(const std::string& which, const std::exception& cause) {
  const auto* error = dynamic_cast<const Error*>(&cause);
  return {.title = cat("cannot read ", which, " of the dataset"),
          .what = message_of(cause),
          .where = error == nullptr ? "" : error->text().where,
          .fix = error == nullptr ? "" : error->text().fix};
}

std::string list_of(std::span<const int64_t> indices) {
  constexpr size_t kMostNamed = 16;
  if (indices.size() == 1) return cat("sample ", indices.front());
  std::string out = "one of samples";
  for (const int64_t index : indices.first(std::min(indices.size(), kMostNamed))) out += cat(" ", index);
  return indices.size() > kMostNamed ? cat(out, " and ", indices.size() - kMostNamed, " more") : out;
}

std::string shape_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return "undefined";
  std::string out = c10::toString(tensor.scalar_type());
  for (int64_t d = 0; d < tensor.dim(); ++d) out += cat(d == 0 ? " " : "x", tensor.size(d));
  return out;
}

std::string shapes_of(const Tensors& sample) {
  std::string out;
  for (const auto& tensor : sample) out += cat(out.empty() ? "" : ", ", shape_of(tensor));
  return cat("(", out, ")");
}

}  // namespace

SampleError::SampleError(const std::string& which, const std::exception& cause)
    : Error(kind_of(cause), text_of(which, cause)) {}
SampleError::SampleError(int64_t index, const std::exception& cause) : SampleError(cat("sample ", index), cause) {}
SampleError::SampleError(std::span<const int64_t> indices, const std::exception& cause)
    : SampleError(list_of(indices), cause) {}

Tensors stack(std::span<const Tensors> samples, std::span<const int64_t> indices) {
  WEFT_CHECK(!samples.empty() && samples.size() == indices.size());
  const std::string expected = shapes_of(samples.front());
  for (size_t i = 1; i < samples.size(); ++i) {
    const std::string found = shapes_of(samples[i]);
    if (found == expected) continue;
    throw SampleError(indices[i],
                      Error(ErrorKind::kInput,
                            {.title = "its tensors do not go into one batch with the others",
                             .what = cat("they are ", found, ", those of sample ", indices.front(), " are ", expected),
                             .fix = "pad or cut the samples to one size"}));
  }
  Tensors out;
  std::vector<at::Tensor> column(samples.size());
  for (size_t t = 0; t < samples.front().size(); ++t) {
    for (size_t i = 0; i < samples.size(); ++i) column[i] = samples[i][t];
    out.push_back(at::stack(column));
  }
  return out;
}

}  // namespace weft::data
