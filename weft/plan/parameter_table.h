// The parameters of a model as the plan sees them: name, shape, type and ties, in the order they were registered.
//
//   const ParameterTable table({{.name = "wte", .shape = {8192, 384}},
//                               {.name = "h.0.weight", .shape = {384, 384}},
//                               {.name = "head", .shape = {8192, 384}, .tied_to = 0}});
//   table.num_elements();   // 3,293,184: the head is the embedding under a second name
//
// A table that exists is sound: names are unique and printable, ties lead to an earlier parameter that has the same shape
// and type, and no sum over it can overflow. A number of a parameter is its place in the table.
//
// Immutable after construction: any thread. Failure: whatever is not sound is an Error(kInput) that names the parameter.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/error.h"

namespace weft::plan {

enum class Dtype { kFp16, kBf16, kFp32, kFp64 };
inline constexpr Dtype kAllDtypes[] = {Dtype::kFp16, Dtype::kBf16, Dtype::kFp32, Dtype::kFp64};

std::string_view name_of(Dtype dtype);  // "bf16"
std::optional<Dtype> dtype_named(std::string_view name);
int64_t bytes_of(Dtype dtype);

// What a table can hold. Far above any model, and low enough that no count of bytes in this room leaves int64.
inline constexpr int64_t kMaxElements = 8'796'093'022'208;  // 2^43
inline constexpr int kMaxParameters = 1'048'576;
inline constexpr int kMaxDimensions = 64;
inline constexpr size_t kMaxNameBytes = 4096;

struct Parameter {
  std::string name;
  std::vector<int64_t> shape = {};  // empty: a scalar, which has one element
  Dtype dtype = Dtype::kFp32;
  bool frozen = false;              // no gradient
  std::optional<int> tied_to = {};  // the first parameter with the same storage

  bool operator==(const Parameter&) const = default;
};

class ParameterTable {
 public:
  explicit ParameterTable(std::vector<Parameter> parameters);

  int size() const { return static_cast<int>(parameters_.size()); }
  const Parameter& operator[](int parameter) const { return parameters_[static_cast<size_t>(parameter)]; }
  const std::vector<Parameter>& all() const { return parameters_; }

  int64_t num_elements(int parameter) const { return num_elements_[static_cast<size_t>(parameter)]; }
  // Of all storages: tied parameters count once.
  int64_t num_elements() const;

  // The parameter whose storage this one uses: itself, unless it is tied.
  int owner(int parameter) const { return (*this)[parameter].tied_to.value_or(parameter); }
  // Those that own their storage and have a gradient, and those that own theirs and have none; in order of registration.
  std::vector<int> trainable() const;
  std::vector<int> frozen() const;

 private:
  std::vector<int> owners(bool frozen) const;

  std::vector<Parameter> parameters_;
  std::vector<int64_t> num_elements_;
};

std::string shape_text(const std::vector<int64_t>& shape);  // "[8192, 384]"
// "parameter 17 'h.3.weight'": how messages name one.
std::string parameter_text(int parameter, std::string_view name);
// The elements a shape stands for; none if a dimension is negative or there are more than kMaxElements.
std::optional<int64_t> elements_of(const std::vector<int64_t>& shape);
// Whether text is UTF-8 without control characters, so that it can stand in a line of text.
bool is_one_line(std::string_view text);

}  // namespace weft::plan
