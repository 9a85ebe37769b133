#include "weft/checkpoint/foreign/torch_globals.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "weft/base/text.h"

namespace weft::checkpoint::foreign {
namespace {

struct TorchType {
  std::string_view storage, dtype;
  ElementType element;  // bytes 0: not among safetensors' types
};

constexpr TorchType kTypes[] = {{"DoubleStorage", "float64", {"F64", 8}},
                                {"FloatStorage", "float32", {"F32", 4}},
                                {"HalfStorage", "float16", {"F16", 2}},
                                {"BFloat16Storage", "bfloat16", {"BF16", 2}},
                                {"LongStorage", "int64", {"I64", 8}},
                                {"IntStorage", "int32", {"I32", 4}},
                                {"ShortStorage", "int16", {"I16", 2}},
                                {"CharStorage", "int8", {"I8", 1}},
                                {"ByteStorage", "uint8", {"U8", 1}},
                                {"BoolStorage", "bool", {"BOOL", 1}},
                                {"ComplexFloatStorage", "complex64", {}},
                                {"ComplexDoubleStorage", "complex128", {}},
                                {"", "float8_e4m3fn", {}},
                                {"", "float8_e5m2", {}},
                                {"", "uint16", {}},
                                {"", "uint32", {}},
                                {"", "uint64", {}}};

using Name = std::pair<std::string_view, std::string_view>;

// Beside types and what DeepSpeed calls its own.
constexpr Name kNames[] = {
    {"torch._utils", "_rebuild_tensor"},
    {"torch._utils", "_rebuild_tensor_v2"},
    {"torch._utils", "_rebuild_tensor_v3"},
    {"torch._utils", "_rebuild_parameter"},
    {"torch._utils", "_rebuild_parameter_with_state"},
    {"torch._tensor", "_rebuild_from_type_v2"},
    {"torch", "Tensor"},
    {"torch", "Size"},
    {"torch", "device"},
    {"torch.nn.parameter", "Parameter"},
    {"torch.storage", "UntypedStorage"},
    {"collections", "OrderedDict"},
    {"collections", "defaultdict"},
    {"collections", "Counter"},
    {"argparse", "Namespace"},
    {"pathlib", "Path"},
    {"pathlib", "PosixPath"},
    {"_codecs", "encode"},
    {"numpy", "dtype"},
    {"numpy", "ndarray"},
    {"numpy.core.multiarray", "scalar"},
    {"numpy.core.multiarray", "_reconstruct"},
    {"numpy._core.multiarray", "scalar"},
    {"numpy._core.multiarray", "_reconstruct"},
};

// Of Python's own, the types; not getattr, eval and the rest.
constexpr std::string_view kBuiltins[] = {"bool", "bytearray", "complex", "dict",  "float", "frozenset", "int",
                                          "list", "object",    "set",     "slice", "str",   "tuple"};

}  // namespace

bool is_known_global(std::string_view module, std::string_view name) {
  if (module == "__builtin__" || module == "builtins") return std::ranges::find(kBuiltins, name) != std::end(kBuiltins);
  if (module == "deepspeed" || module.starts_with("deepspeed.")) return true;
  if (module == "torch") {
    const auto has = [&](const TorchType& type) {
      return name == type.dtype || (!type.storage.empty() && name == type.storage);
    };
    if (std::ranges::any_of(kTypes, has)) return true;
  }
  return std::ranges::find(kNames, Name(module, name)) != std::end(kNames);
}

std::optional<ElementType> element_type(std::string_view global) {
  constexpr std::string_view kPrefix = "torch.";
  if (global == "torch.storage.UntypedStorage") return ElementType{"U8", 1};
  if (!global.starts_with(kPrefix)) return std::nullopt;
  const std::string_view name = global.substr(kPrefix.size());
  for (const TorchType& type : kTypes) {
    if ((name == type.dtype || name == type.storage) && type.element.bytes != 0) return type.element;
  }
  return std::nullopt;
}

}  // namespace weft::checkpoint::foreign
