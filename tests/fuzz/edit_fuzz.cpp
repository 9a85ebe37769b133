// Any text, any edit: what apply_edit gives back must read again, as the tree with that edit and nothing else.
//
// Input: a byte for the form and the kind of edit, one that picks the path, one for what is written or where it goes;
// then the text. Aborts on a violation.
#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/text.h"
#include "weft/config/edit.h"

using namespace weft::config;  // NOLINT(google-build-using-namespace): a program

namespace {

constexpr std::array<std::string_view, 8> kLiterals = {"3",    "true",       "null",        "\"auto\"",
                                                       "1e-5", "[1, \"x\"]", "{\"a\": {}}", "5e8"};
constexpr std::array<std::string_view, 4> kNewKeys = {"zero_optimization", "a b", "b", "yes"};

void collect_paths(const Value& object, const std::string& prefix, std::vector<std::string>& paths) {
  for (const auto& member : object.members) {
    paths.push_back(prefix + member.key);
    if (member.value.is_object()) collect_paths(member.value, weft::cat(paths.back(), "."), paths);
  }
}

Edit chosen_edit(const Document& document, uint8_t form, uint8_t path, uint8_t detail) {
  std::vector<std::string> paths;
  collect_paths(document.root, "", paths);
  const std::string existing = paths.empty() ? "a" : paths[path % paths.size()];
  const std::string beside(kNewKeys[detail % kNewKeys.size()]), below = weft::cat(existing, ".", beside);
  Edit edit{static_cast<Edit::Kind>((form >> 1) % 4), existing};
  const bool at_a_new_path = edit.kind == Edit::Kind::kSet && (form & 8) != 0;
  if (at_a_new_path) edit.path = (form & 16) != 0 ? below : beside;
  edit.literal = kLiterals[detail % kLiterals.size()];
  edit.to = beside;
  if (edit.kind == Edit::Kind::kMove && !paths.empty()) edit.to = weft::cat(paths[detail % paths.size()], ".", beside);
  return edit;
}

void require(bool holds) {
  if (!holds) std::abort();
}

void check(const Document& document, const Edit& edit) {
  const auto text = apply_edit(document, edit);
  if (!text) return;
  Value expected = document.root;
  require(apply_edit_to_tree(expected, edit));
  const Document result = parse_document(checked_source(document.source->name(), *text));
  require(result.form == document.form);
  require(same_tree(result.root, expected));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 3) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 3, size - 3);
  const char* name = (data[0] & 1) != 0 ? "fuzz.yaml" : "fuzz.json";
  std::unique_ptr<Document> document;
  try {
    document = std::make_unique<Document>(parse_document(checked_source(name, text)));
  } catch (const ReadError&) {
    return 0;
  }
  check(*document, chosen_edit(*document, data[0], data[1], data[2]));
  return 0;
}
