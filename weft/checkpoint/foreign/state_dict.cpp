#include "weft/checkpoint/foreign/state_dict.h"

#include <algorithm>
#include <set>

#include "weft/base/text.h"
#include "weft/base/utf8.h"
#include "weft/checkpoint/foreign/refuse_impl.h"

namespace weft::checkpoint::foreign {
namespace {

using Kind = Value::Kind;

constexpr std::string_view kUsualNames[] = {"state_dict", "model_state_dict", "model", "module"};

bool is_text(std::string_view name) {
  while (!name.empty()) {
    const CodePoint point = take_code_point(name);
    if (!point.valid || is_control(point.value)) return false;
  }
  return true;
}

// Of the top of a file without tensors: what there is instead.
std::string keys_of(const Value& dict) {
  constexpr size_t kMaxNamed = 8;
  std::vector<std::string> out;
  for (size_t i = 0; i + 1 < dict.items.size() && out.size() < kMaxNamed; i += 2) {
    if (dict.items[i]->is(Kind::kText) && is_text(dict.items[i]->text))
      out.push_back(cat("'", dict.items[i]->text, "'"));
  }
  return join(out, ", ");
}

}  // namespace

StateDict tensors_in(const TorchFile& file, const Value& dict) {
  StateDict out;
  std::set<std::string_view> names;
  for (size_t i = 0; i + 1 < dict.items.size(); i += 2) {
    const Value &key = *dict.items[i], &value = *dict.items[i + 1];
    if (!key.is(Kind::kText) || key.text.empty() || !is_text(key.text)) {
      if (file.tensor(value, "?")) refuse("a tensor has a name that is no text", file.path());
      out.others.push_back(cat("a key that is no text, ", described(value)));
      continue;
    }
    if (!names.insert(key.text).second) refuse(cat("'", key.text, "' is there twice"), file.path());
    auto tensor = file.tensor(value, key.text);
    if (!tensor) {
      out.others.push_back(cat("'", key.text, "', ", described(value)));
    } else if (tensor->dtype.empty()) {
      refuse(cat("tensor '", key.text, "' has elements of a type that weft cannot hold"), file.path(),
             "convert it in Python, and save again");
    } else {
      out.tensors.push_back({.name = key.text, .tensor = std::move(*tensor)});
    }
  }
  return out;
}

StateDict state_dict_in(const TorchFile& file) {
  const Value& root = file.root();
  if (!root.is(Kind::kDict))
    refuse(cat("it holds ", described(root), " where a dict of tensors should be"), file.path());
  StateDict out = tensors_in(file, root);
  if (!out.tensors.empty()) return out;
  for (const std::string_view name : kUsualNames) {
    const Value* const dict = root.find(name);
    if (dict == nullptr || !dict->is(Kind::kDict)) continue;
    StateDict inner = tensors_in(file, *dict);
    if (inner.tensors.empty()) continue;
    std::erase_if(out.others, [&](const std::string& other) { return other.starts_with(cat("'", name, "', ")); });
    inner.others.insert(inner.others.end(), out.others.begin(), out.others.end());
    return inner;
  }
  refuse(cat("it has no tensors by name; at its top are ", root.items.empty() ? "no keys" : keys_of(root)), file.path(),
         "save a dict of tensors: torch.save(model.state_dict(), ...)");
}

}  // namespace weft::checkpoint::foreign
