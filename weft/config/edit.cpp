#include "weft/config/edit.h"

#include <utility>

#include "weft/base/text.h"
#include "weft/config/edit_impl.h"
#include "weft/config/setting.h"
#include "weft/config/yaml.h"

namespace weft::config {
namespace {

using detail::find_target;
using detail::NewValue;
using detail::Page;
using detail::Splices;

// The document over another text. A YAML that was referred to is the config whatever is in it.
std::optional<Document> reread(const Document& document, std::string text) {
  try {
    SourcePtr source = checked_source(document.source->name(), std::move(text));
    Document result;
    if (document.form == Form::kYaml && document.outer != document.source) {
      YamlTree tree = parse_yaml(source);
      result = document;
      result.source = source;
      result.root = std::move(tree.root);
      result.exponent_strings = std::move(tree.exponent_strings);
    } else {
      result = parse_document(source);
    }
    if (result.form != document.form || !result.root.is_object()) return std::nullopt;
    return result;
  } catch (const ReadError&) {
    return std::nullopt;
  }
}

std::optional<std::string> set_text(const Document& document, const std::string& path, const NewValue& value) {
  const Page page(document);
  Value root = document.root;
  const auto target = find_target(root, path);
  if (!target) return std::nullopt;
  const auto index = target->index();
  const Value& object = *target->object;
  if (!index && page.block_collection(object)) return page.splice(add_to_block(page, object, target->keys, value));
  if (!index) return page.splice(add_to_braces(page, object, target->keys, value));
  const Member& member = object.members[*index];
  const bool block = page.block_collection(member.value);
  return page.splice(block ? replace_block(page, member, value) : replace_inline(page, member, value));
}

std::optional<std::string> remove_text(const Document& document, const std::string& path) {
  const Page page(document);
  Value root = document.root;
  const auto target = find_target(root, path);
  if (!target || !target->index()) return std::nullopt;
  const bool block = page.block_collection(*target->object);
  if (block) return page.splice(remove_from_block(page, *target->object, *target->index()));
  return page.splice(remove_from_braces(page, *target->object, *target->index()));
}

std::optional<std::string> rename_text(const Document& document, const std::string& path, const std::string& key) {
  const Page page(document);
  const Span span = find_member_path(document.root, path)->key_span;
  const char quote = page.at(span.begin);
  const bool single = quote == '\'' && key.find_first_of("'\\") == std::string_view::npos;
  return page.splice(Splices{{span, single ? cat("'", key, "'") : page.key_text(key, quote == '"' || quote == '\'')}});
}

// Added before it is removed, so that the object it leaves keeps its layout when it is also the one it comes to.
std::optional<std::string> move_text(const Document& document, const Edit& edit, const NewValue& value) {
  const auto text = set_text(document, edit.to, value);
  const auto added = text ? reread(document, *text) : std::nullopt;
  return added ? remove_text(*added, edit.path) : std::nullopt;
}

// Whether it is right is for `proves` to say.
std::optional<std::string> changed_text(const Document& document, const Edit& edit, const NewValue& value) {
  switch (edit.kind) {
    case Edit::Kind::kSet: return set_text(document, edit.path, value);
    case Edit::Kind::kRename: return rename_text(document, edit.path, edit.to);
    case Edit::Kind::kMove: return move_text(document, edit, value);
    case Edit::Kind::kRemove: return remove_text(document, edit.path);
  }
  return std::nullopt;
}

// Ways to write what the edit puts into the file, the author's own first.
std::vector<NewValue> ways_to_write(const Document& document, const Edit& edit, const Value& literal) {
  const auto in_form = [&](std::string json) {
    return NewValue{document.form == Form::kYaml ? detail::yaml_literal(json) : std::move(json)};
  };
  if (edit.kind == Edit::Kind::kSet) return {in_form(edit.literal), in_form(to_json(literal))};
  if (edit.kind != Edit::Kind::kMove) return {NewValue{}};
  const Member& member = *find_member_path(document.root, edit.path);
  std::vector<NewValue> ways;
  if (auto verbatim = source_text(Page(document), member)) ways.push_back(std::move(*verbatim));
  ways.push_back(in_form(to_json(member.value)));
  return ways;
}

// The text reads as `expected`, what is around the config in the same file is as before, and no number became a string.
bool proves(const Document& old, const std::string& text, const Value& expected) {
  const auto result = reread(old, text);
  if (!result || !same_tree(result->root, expected)) return false;
  if (result->exponent_strings.size() > old.exponent_strings.size()) return false;
  return old.outer != old.source ||
         detail::same_tree_except(old.training, old.root.span, result->training, result->root.span);
}

}  // namespace

std::optional<std::string> apply_edit(const Document& document, const Edit& edit) {
  if (document.form != Form::kHjson && document.form != Form::kYaml) return std::nullopt;
  const bool in_place = edit.kind == Edit::Kind::kMove && parent_of(edit.path) == parent_of(edit.to);
  if (in_place)
    return apply_edit(document, {Edit::Kind::kRename, edit.path, edit.to.substr(parent_of(edit.to).size())});
  const auto literal = edit.kind == Edit::Kind::kSet ? detail::parse_literal(edit.literal) : Value{};
  Value expected = document.root;
  if (!apply_edit_to_tree(expected, edit)) return std::nullopt;
  for (const auto& way : ways_to_write(document, edit, *literal)) {
    auto text = changed_text(document, edit, way);
    if (text && proves(document, *text, expected)) return text;
  }
  return std::nullopt;
}

std::optional<std::string> apply_edits(const Document& document, std::span<const Edit> edits) {
  if (edits.empty()) return std::string(document.source->text());
  auto text = apply_edit(document, edits.front());
  if (!text || edits.size() == 1) return text;
  const auto next = reread(document, *text);
  return next ? apply_edits(*next, edits.subspan(1)) : std::nullopt;
}

}  // namespace weft::config
