#include <algorithm>
#include <charconv>
#include <cmath>

#include "weft/base/text.h"
#include "weft/config/edit.h"
#include "weft/config/edit_impl.h"
#include "weft/config/hjson.h"

namespace weft::config::detail {
namespace {

// "a.b" as {"a", "b"}; nothing when a part is empty or there are more than the readers accept.
std::optional<std::vector<std::string>> split_path(std::string_view path) {
  std::vector<std::string> keys;
  for (size_t at = 0; at <= path.size();) {
    const size_t dot = std::min(path.find('.', at), path.size());
    if (dot == at || keys.size() == kMaxDepth) return std::nullopt;
    keys.emplace_back(path.substr(at, dot - at));
    at = dot + 1;
  }
  return keys;
}

Member& member_of(const Target& target) { return target.object->members[target.index().value()]; }

void erase(const Target& target) {
  auto& members = target.object->members;
  members.erase(members.begin() + static_cast<std::ptrdiff_t>(target.index().value()));
}

void set(const Target& target, Value value) {
  if (target.index()) {
    member_of(target).value = std::move(value);
    return;
  }
  for (size_t i = target.keys.size() - 1; i > 0; --i) {
    Value parent;
    parent.kind = Kind::kObject;
    parent.members.push_back({target.keys[i], {}, std::move(value)});
    value = std::move(parent);
  }
  target.object->members.push_back({target.keys[0], {}, std::move(value)});
}

bool rename(const Target& from, const std::string& to) {
  if (to.empty() || from.object->find(to) != nullptr) return false;
  member_of(from).key = to;
  return true;
}

bool move(Value& root, const Target& from, const Edit& edit) {
  if (edit.to.starts_with(edit.path + ".")) return false;
  Value value = std::move(member_of(from).value);
  erase(from);
  const auto to = find_target(root, edit.to);
  if (!to || to->index()) return false;
  set(*to, std::move(value));
  return true;
}

bool same_number(const Value& a, const Value& b) {
  if (a.kind == Kind::kInt && b.kind == Kind::kInt) return a.integer == b.integer;
  return a.number() == b.number() || (std::isnan(a.number()) && std::isnan(b.number()));
}

struct Exception {
  Span a, b;
};

bool same(const Value& a, const Value& b, const Exception* except);

std::vector<const Member*> by_key(const Value& object) {
  std::vector<const Member*> members;
  for (const auto& member : object.members) members.push_back(&member);
  std::ranges::sort(members, {}, [](const Member* member) -> const std::string& { return member->key; });
  return members;
}

bool same_members(const Value& a, const Value& b, const Exception* except) {
  return std::ranges::equal(by_key(a), by_key(b), [&](const Member* left, const Member* right) {
    return left->key == right->key && same(left->value, right->value, except);
  });
}

bool same(const Value& a, const Value& b, const Exception* except) {
  if (except != nullptr && a.span == except->a) return b.span == except->b;
  if (a.is_number() && b.is_number()) return same_number(a, b);
  if (a.kind != b.kind) return false;
  const auto same_item = [&](const Value& left, const Value& right) { return same(left, right, except); };
  switch (a.kind) {
    case Kind::kBool: return a.boolean == b.boolean;
    case Kind::kString: return a.text == b.text;
    case Kind::kArray: return std::ranges::equal(a.items, b.items, same_item);
    case Kind::kObject: return same_members(a, b, except);
    default: return true;
  }
}

std::string yaml_number(std::string_view number) {
  const size_t e = number.find_first_of("eE");
  if (e == std::string_view::npos) return std::string(number);
  double value = 0;
  std::from_chars(number.data(), number.data() + number.size(), value);
  // As HJSON reads it: an integer.
  if (std::abs(value) < 1e10 && value == std::trunc(value)) return cat(static_cast<int64_t>(value));
  const std::string_view mantissa = number.substr(0, e), exponent = number.substr(e + 1);
  const bool sign = exponent.starts_with('-') || exponent.starts_with('+');
  return cat(mantissa, mantissa.find('.') == std::string_view::npos ? ".0" : "", "e", sign ? "" : "+", exponent);
}

}  // namespace

std::optional<size_t> Target::index() const {
  const auto found = std::ranges::find(object->members, keys[0], &Member::key);
  if (keys.size() > 1 || found == object->members.end()) return std::nullopt;
  return static_cast<size_t>(found - object->members.begin());
}

std::optional<Target> find_target(Value& root, std::string_view path) {
  const auto keys = split_path(path);
  if (!keys) return std::nullopt;
  Target target{&root, {}};
  auto key = keys->begin();
  for (; key + 1 != keys->end(); ++key) {
    const auto next = std::ranges::find(target.object->members, *key, &Member::key);
    if (next == target.object->members.end()) break;
    if (!next->value.is_object()) return std::nullopt;
    target.object = &next->value;
  }
  target.keys.assign(key, keys->end());
  return target;
}

std::optional<Value> parse_literal(const std::string& literal) {
  const std::string before = "{\"literal\":";
  try {
    Value root = parse_hjson(checked_source("literal", cat(before, literal, "\n}")));
    Value& value = root.members.at(0).value;
    const bool whole = root.members.size() == 1 && value.span == Span{before.size(), before.size() + literal.size()};
    if (!whole || (value.kind == Kind::kString && !literal.starts_with('"'))) return std::nullopt;
    return std::move(value);
  } catch (const ReadError&) {
    return std::nullopt;
  }
}

std::string yaml_literal(std::string_view literal) {
  std::string out;
  for (size_t at = 0; at < literal.size();) {
    size_t end = at + 1;
    if (literal[at] == '"') {
      while (end < literal.size() && literal[end] != '"') end += literal[end] == '\\' ? 2 : 1;
      end = std::min(end + 1, literal.size());
      out += literal.substr(at, end - at);
    } else if (literal[at] == '-' || (literal[at] >= '0' && literal[at] <= '9')) {
      end = std::min(literal.find_first_not_of("0123456789.eE+-", at), literal.size());
      out += yaml_number(literal.substr(at, end - at));
    } else {
      out += literal[at];
    }
    at = end;
  }
  return out;
}

bool edit_tree(Value& root, const Edit& edit, const Value& literal) {
  const auto target = find_target(root, edit.path);
  if (!target || (edit.kind != Edit::Kind::kSet && !target->index())) return false;
  switch (edit.kind) {
    case Edit::Kind::kSet: set(*target, literal); return true;
    case Edit::Kind::kRename: return rename(*target, edit.to);
    case Edit::Kind::kMove: return move(root, *target, edit);
    case Edit::Kind::kRemove: erase(*target); return true;
  }
  return false;
}

bool same_tree_except(const Value& a, Span except_a, const Value& b, Span except_b) {
  const Exception except{except_a, except_b};
  return same(a, b, &except);
}

}  // namespace weft::config::detail

namespace weft::config {

bool same_tree(const Value& a, const Value& b) { return detail::same(a, b, nullptr); }

bool apply_edit_to_tree(Value& root, const Edit& edit) {
  const auto literal = edit.kind == Edit::Kind::kSet ? detail::parse_literal(edit.literal) : Value{};
  return literal && detail::edit_tree(root, edit, *literal);
}

}  // namespace weft::config
