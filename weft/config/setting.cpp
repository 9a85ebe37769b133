#include "weft/config/setting.h"

#include <algorithm>
#include <unordered_map>

#include "weft/base/text.h"
#include "weft/config/list_of_impl.h"
#include "weft/config/lower.h"

namespace weft::config {
namespace {

using Index = std::unordered_map<std::string, const Setting*>;

Index make_index() {
  Index index;
  for (const Setting& setting : settings()) {
    index.emplace(setting.path, &setting);
    const std::string_view folder = setting.path.substr(0, setting.path.size() - setting.key.size());
    for (const std::string_view alias : setting.aliases) index.emplace(cat(folder, alias), &setting);
  }
  return index;
}

std::string_view type_words(Type type) {
  switch (type) {
    case Type::kBool: return "true or false";
    case Type::kInt: return "an integer";
    case Type::kFloat: return "a number";
    case Type::kString: return "a string";
    case Type::kPath: return "a path";
    case Type::kEnum:
    case Type::kDtype: return "one of ";
    case Type::kStrings: return "a list of strings";
    case Type::kObject: return "an object";
    case Type::kList: return "a list";
    case Type::kAny: return "any value";
    case Type::kNull: return "null: nothing else is supported";
  }
  return "";
}

}  // namespace

bool Setting::has_auto() const {
  return default_json == "\"auto\"" || std::ranges::find(values, "auto") != values.end();
}

std::string_view Setting::default_in(Version version) const {
  for (const OldDefault& old : old_defaults) {
    if (version < old.before) return old.json;
  }
  return default_json;
}

const Section* find_section(std::string_view path) {
  for (const Section& section : sections()) {
    if (section.path == path) return &section;
    for (const std::string_view alias : section.aliases) {
      if (path == cat(parent_of(section.path), alias)) return &section;
    }
  }
  return nullptr;
}

const Setting* find_setting(std::string_view path) {
  static const Index kIndex = make_index();
  const auto found = kIndex.find(std::string(path));
  return found == kIndex.end() ? nullptr : found->second;
}

size_t index_of(const Setting& setting) { return static_cast<size_t>(&setting - settings().data()); }

const ArgumentSet* find_arguments(std::string_view of, std::string_view type) {
  const std::string wanted = of == "optimizer" ? lower(type) : std::string(type);
  for (const ArgumentSet& set : argument_sets()) {
    if (set.of == of && std::find(set.types.begin(), set.types.end(), wanted) != set.types.end()) return &set;
  }
  return nullptr;
}

std::string describe_type(const Setting& setting) {
  std::string words(type_words(setting.type));
  if (!setting.values.empty()) words += list_of(setting.values);
  if (!setting.range.text.empty()) words += cat(" ", setting.range.text);
  if (setting.nullable) words += " or null";
  return words;
}

}  // namespace weft::config
