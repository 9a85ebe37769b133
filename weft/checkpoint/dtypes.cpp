#include "weft/checkpoint/dtypes.h"

#include <algorithm>
#include <utility>

#include "weft/base/check.h"
#include "weft/base/error.h"
#include "weft/base/text.h"

namespace weft::checkpoint {
namespace {

// On-disk: the names are the format's own, never change them.
constexpr std::pair<const char*, at::ScalarType> kDtypes[] = {
    {"F64", at::kDouble}, {"F32", at::kFloat}, {"F16", at::kHalf}, {"BF16", at::kBFloat16}, {"I64", at::kLong},
    {"I32", at::kInt},    {"I16", at::kShort}, {"I8", at::kChar},  {"U8", at::kByte},       {"BOOL", at::kBool}};

}  // namespace

std::string dtype_name(at::ScalarType type, const std::string& tensor) {
  for (const auto& [name, dtype] : kDtypes) {
    if (dtype == type) return name;
  }
  throw Error(ErrorKind::kInput, {.title = "a tensor has a dtype that safetensors cannot hold",
                                  .what = cat("tensor '", tensor, "' is ", c10::toString(type)),
                                  .where = "",
                                  .fix = "convert it first"});
}

at::ScalarType dtype_of(std::string_view name) {
  const auto* found = std::ranges::find_if(kDtypes, [&](const auto& pair) { return name == pair.first; });
  WEFT_CHECK(found != std::end(kDtypes));
  return found->second;
}

}  // namespace weft::checkpoint
