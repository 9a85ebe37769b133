#include "weft/plan/parameter_table.h"

#include <algorithm>
#include <unordered_map>

#include "weft/base/text.h"
#include "weft/base/utf8.h"
#include "weft/plan/refuse_impl.h"

namespace weft::plan {
namespace {

void check_names(const std::vector<Parameter>& parameters) {
  std::unordered_map<std::string_view, int> seen;
  for (int i = 0; const Parameter& parameter : parameters) {
    if (parameter.name.size() > kMaxNameBytes || !is_one_line(parameter.name))
      refuse("a parameter's name cannot be printed",
             cat("parameter ", i, ", name of ", parameter.name.size(), " bytes"),
             cat("name it in UTF-8 without control characters, in at most ", kMaxNameBytes, " bytes"));
    const auto [first, is_new] = seen.emplace(parameter.name, i);
    if (!is_new)
      refuse("two parameters have the same name",
             cat("'", parameter.name, "' is parameter ", first->second, " and ", i),
             "give each module of the model a name of its own");
    ++i;
  }
}

int64_t checked_elements(int number, const Parameter& parameter) {
  const auto elements = elements_of(parameter.shape);
  if (!elements || parameter.shape.size() > kMaxDimensions)
    refuse("a parameter has an impossible shape",
           cat(parameter_text(number, parameter.name), " has shape ", shape_text(parameter.shape)),
           cat("dimensions are not negative, at most ", kMaxDimensions, ", and multiply to at most ", kMaxElements));
  return *elements;
}

void check_tie(const std::vector<Parameter>& parameters, int number) {
  const Parameter& parameter = parameters[static_cast<size_t>(number)];
  if (!parameter.tied_to) return;
  const int owner = *parameter.tied_to;
  const std::string who = parameter_text(number, parameter.name);
  if (owner < 0 || owner >= number)
    refuse("a parameter is tied to none before it", cat(who, " is tied to parameter ", owner),
           "tie it to the first parameter with the same storage");
  const Parameter& first = parameters[static_cast<size_t>(owner)];
  const std::string whom = parameter_text(owner, first.name);
  if (first.tied_to)
    refuse("a parameter is tied to one that is tied itself", cat(who, " is tied to ", whom),
           cat("tie it to parameter ", *first.tied_to));
  if (first.shape != parameter.shape || first.dtype != parameter.dtype || first.frozen != parameter.frozen)
    refuse("tied parameters differ",
           cat(who, " is ", name_of(parameter.dtype), shape_text(parameter.shape), parameter.frozen ? " frozen" : "",
               ", ", whom, " is ", name_of(first.dtype), shape_text(first.shape), first.frozen ? " frozen" : ""),
           "parameters that share a storage have one shape and one type, and are frozen together");
}

}  // namespace

std::string_view name_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFp16: return "fp16";
    case Dtype::kBf16: return "bf16";
    case Dtype::kFp32: return "fp32";
    case Dtype::kFp64: return "fp64";
  }
  return "";
}

std::optional<Dtype> dtype_named(std::string_view name) {
  for (const Dtype dtype : kAllDtypes) {
    if (name_of(dtype) == name) return dtype;
  }
  return std::nullopt;
}

int64_t bytes_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFp16:
    case Dtype::kBf16: return 2;
    case Dtype::kFp32: return 4;
    case Dtype::kFp64: return 8;
  }
  return 0;
}

ParameterTable::ParameterTable(std::vector<Parameter> parameters) : parameters_(std::move(parameters)) {
  if (parameters_.empty())
    refuse("the model has no parameters", "the table is empty", "register the model's tensors as parameters");
  if (parameters_.size() > kMaxParameters)
    refuse("the model has too many parameters", cat(parameters_.size(), ", at most ", kMaxParameters, " are possible"),
           "join small parameters into larger ones");
  check_names(parameters_);
  int64_t total = 0;
  for (int i = 0; i < size(); ++i) {
    num_elements_.push_back(checked_elements(i, (*this)[i]));
    check_tie(parameters_, i);
    total += owner(i) == i ? num_elements(i) : 0;
    if (total > kMaxElements)
      refuse("the model is too large",
             cat("more than ", kMaxElements, " elements up to ", parameter_text(i, (*this)[i].name)),
             "check the shapes: no machine holds this model");
  }
}

int64_t ParameterTable::num_elements() const {
  int64_t total = 0;
  for (int i = 0; i < size(); ++i) total += owner(i) == i ? num_elements(i) : 0;
  return total;
}

std::vector<int> ParameterTable::trainable() const { return owners(false); }
std::vector<int> ParameterTable::frozen() const { return owners(true); }

std::vector<int> ParameterTable::owners(bool frozen) const {
  std::vector<int> out;
  for (int i = 0; i < size(); ++i) {
    if (owner(i) == i && (*this)[i].frozen == frozen) out.push_back(i);
  }
  return out;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string out = "[";
  for (const int64_t dimension : shape) out += cat(out.size() > 1 ? ", " : "", dimension);
  return out + "]";
}

std::string parameter_text(int parameter, std::string_view name) {
  return cat("parameter ", parameter, " '", name, "'");
}

std::optional<int64_t> elements_of(const std::vector<int64_t>& shape) {
  if (std::ranges::any_of(shape, [](int64_t dimension) { return dimension < 0; })) return std::nullopt;
  // A zero anywhere makes the product zero, however large the others are.
  if (std::ranges::find(shape, 0) != shape.end()) return 0;
  int64_t elements = 1;
  for (const int64_t dimension : shape) {
    if (dimension > kMaxElements / elements) return std::nullopt;
    elements *= dimension;
  }
  return elements;
}

bool is_one_line(std::string_view text) {
  while (!text.empty()) {
    const CodePoint next = take_code_point(text);
    if (!next.valid || is_control(next.value)) return false;
  }
  return true;
}

}  // namespace weft::plan
