#include "weft/config/yaml.h"

#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "weft/base/text.h"
#include "weft/config/hjson.h"
#include "weft/config/members_impl.h"
#include "weft/config/number_impl.h"
#include "weft/config/secret.h"
#include "weft/config/yaml_events_impl.h"
#include "weft/config/yaml_impl.h"

namespace weft::config {
namespace {

constexpr std::string_view kYamlTags = "tag:yaml.org,2002:";

// What an expanded alias costs, so that it is refused before it is copied.
struct Cost {
  size_t nodes = 0;
  size_t text_bytes = 0;
  int depth = 0;
};

Cost cost_of(const Value& value) {
  Cost cost{1, value.text.size(), 0};
  const auto add = [&](const Value& child) {
    const Cost inner = cost_of(child);
    cost.nodes += inner.nodes;
    cost.text_bytes += inner.text_bytes;
    cost.depth = std::max(cost.depth, inner.depth + 1);
  };
  for (const Value& item : value.items) add(item);
  for (const Member& member : value.members) {
    cost.text_bytes += member.key.size();
    add(member.value);
  }
  return cost;
}

// An anchored value; without one while it is still being read.
struct Anchored {
  std::optional<Value> value;
  Cost cost;
};

class Reader {
 public:
  explicit Reader(const SourcePtr& source) : source_(source), events_(source) {}

  YamlTree tree();

 private:
  // Each reads what the current event begins, and stops at its last event.
  Value node();
  Value scalar();
  Value plain_scalar(Span span, std::string_view text);
  Value sequence();
  Value mapping();
  Value alias();
  // Adds the member whose key is the current event, or notes what it merges. Returns where its value ends.
  size_t member(MemberList& members, std::vector<Value>& merged);
  Member key();

  std::string anchor() const;
  void check_collection_tag(const unsigned char* tag) const;
  void charge(const Cost& cost);
  [[noreturn]] void refuse_tag(Span span, const std::string& tag) const;
  [[noreturn]] void fail(Span span, Words message, Words fix = {}) const;

  const SourcePtr& source_;
  YamlEvents events_;
  YamlTree tree_;
  std::unordered_map<std::string, Anchored> anchors_;
  int depth_ = 0;
  Cost total_;
};

std::string text_of(const unsigned char* text) {
  return text == nullptr ? "" : std::string(reinterpret_cast<const char*>(text));
}

Value with_merged(Value own, std::vector<Value> merged, const SourcePtr& source) {
  if (merged.empty()) return own;
  MemberList taken(source, own.span.begin), all(source, own.span.begin);
  for (const Member& member : own.members) taken.add({member.key, member.key_span, {}});
  for (Value& object : merged) {
    for (Member& member : object.members) {
      if (taken.contains(member.key)) continue;
      taken.add({member.key, member.key_span, {}});
      all.add(std::move(member));
    }
  }
  for (Member& member : own.members) all.add(std::move(member));
  Value object = all.take();
  object.span = own.span;
  return object;
}

YamlTree Reader::tree() {
  events_.next();  // the stream's start
  if (events_.next() == YAML_STREAM_END_EVENT) return {.root = {.kind = Kind::kNull}};
  events_.next();
  tree_.root = node();
  events_.next();  // the document's end
  if (events_.next() != YAML_STREAM_END_EVENT) {
    fail(events_.span(), {"a second document begins here", "此处开始了第二个文档"},
         {"keep one document: remove the '---' and what follows it", "只保留一个文档：请删除 '---' 及其后的内容"});
  }
  return std::move(tree_);
}

void Reader::fail(Span span, Words message, Words fix) const {
  throw ReadError("syntax/yaml", source_, span, std::move(message), std::move(fix));
}

void Reader::charge(const Cost& cost) {
  constexpr size_t kMaxCopiedBytes = 4 * kMaxSourceBytes;
  total_.nodes += cost.nodes;
  total_.text_bytes += cost.text_bytes;
  if (depth_ + cost.depth > kMaxDepth) {
    throw ReadError("syntax/too-deep", source_, events_.span(),
                    {cat("more than ", kMaxDepth, " objects and lists inside one another"),
                     cat("对象和列表的嵌套超过了 ", kMaxDepth, " 层")});
  }
  if (total_.nodes > kMaxYamlNodes || total_.text_bytes > kMaxCopiedBytes) {
    throw ReadError("syntax/too-large", source_, events_.span(),
                    {cat("more than ", kMaxYamlNodes, " values once the aliases are followed"),
                     cat("展开别名之后的值超过 ", kMaxYamlNodes, " 个")});
  }
}

std::string Reader::anchor() const {
  const yaml_event_t& event = events_.event();
  switch (event.type) {
    case YAML_SCALAR_EVENT: return text_of(event.data.scalar.anchor);
    case YAML_SEQUENCE_START_EVENT: return text_of(event.data.sequence_start.anchor);
    case YAML_MAPPING_START_EVENT: return text_of(event.data.mapping_start.anchor);
    default: return "";
  }
}

Value Reader::node() {
  if (events_.type() == YAML_ALIAS_EVENT) return alias();
  const std::string name = anchor();
  if (!name.empty()) anchors_[name] = {};
  const bool is_scalar = events_.type() == YAML_SCALAR_EVENT;
  charge({1, 0, is_scalar ? 0 : 1});
  if (!is_scalar) ++depth_;
  Value value = is_scalar ? scalar() : events_.type() == YAML_SEQUENCE_START_EVENT ? sequence() : mapping();
  if (!is_scalar) --depth_;
  if (!name.empty()) {
    // The copy kept here is paid for too: anchors inside anchors would hold the innermost once for each.
    const Cost cost = cost_of(value);
    charge(cost);
    anchors_[name] = {value, cost};
  }
  return value;
}

Value Reader::alias() {
  const std::string name = text_of(events_.event().data.alias.anchor);
  const auto found = anchors_.find(name);
  if (found == anchors_.end()) {
    const std::string said = cited(*source_, events_.span(), name);
    fail(events_.span(), {cat("no anchor &", said, " stands before this"), cat("前面没有锚点 &", said)});
  }
  if (!found->second.value) {
    fail(events_.span(), {cat("the anchor &", name, " would contain itself"), cat("锚点 &", name, " 包含了它自身")});
  }
  charge(found->second.cost);
  Value value = *found->second.value;
  value.span = events_.span();
  return value;
}

void Reader::refuse_tag(Span span, const std::string& tag) const {
  const std::string said = cited(*source_, span, tag);
  fail(span, {cat("the tag ", said, " means nothing in a config"), cat("配置中不能使用标签 ", said)},
       {"remove it", "请删除该标签"});
}

void Reader::check_collection_tag(const unsigned char* tag) const {
  const std::string name = text_of(tag);
  if (name.empty() || name == "!" || name == cat(kYamlTags, "map") || name == cat(kYamlTags, "seq")) return;
  refuse_tag(events_.span(), name);
}

Value Reader::scalar() {
  const auto& data = events_.event().data.scalar;
  Span span = events_.span();
  const std::string_view written = source_->at(span);
  // A block scalar ends where the next line begins.
  span.end -= written.size() - std::min(written.find_last_not_of("\r\n") + 1, written.size());
  const std::string_view text(reinterpret_cast<const char*>(data.value), data.length);
  const std::string tag = text_of(data.tag);
  if (tag.empty() && data.plain_implicit != 0) return plain_scalar(span, text);
  static const std::unordered_map<std::string, YamlTag> kKnown = {
      {"", YamlTag::kString},     {"!", YamlTag::kString},  {"str", YamlTag::kString}, {"int", YamlTag::kInt},
      {"float", YamlTag::kFloat}, {"bool", YamlTag::kBool}, {"null", YamlTag::kNull},
  };
  const auto known = kKnown.find(tag.starts_with(kYamlTags) ? tag.substr(kYamlTags.size()) : tag);
  const bool ours = known != kKnown.end() && (tag.empty() || tag == "!" || tag.starts_with(kYamlTags));
  if (!ours) refuse_tag(span, tag);
  return construct_scalar(known->second, source_, span, text);
}

Value Reader::plain_scalar(Span span, std::string_view text) {
  if (is_exponent_string(text)) {
    tree_.exponent_strings.push_back(span);
    return number_value(source_, span, text.starts_with('+') ? text.substr(1) : text);
  }
  return construct_scalar(resolve_plain(text), source_, span, text);
}

Value Reader::sequence() {
  const auto& data = events_.event().data.sequence_start;
  check_collection_tag(data.tag);
  const bool flow = data.style == YAML_FLOW_SEQUENCE_STYLE;
  Value list{.kind = Kind::kArray, .span = events_.span()};
  while (events_.next() != YAML_SEQUENCE_END_EVENT) list.items.push_back(node());
  // A block has no closing bracket: it ends with its last item, not where the next token begins.
  list.span.end = flow || list.items.empty() ? events_.span().end : list.items.back().span.end;
  return list;
}

Value Reader::mapping() {
  const auto& data = events_.event().data.mapping_start;
  check_collection_tag(data.tag);
  const bool flow = data.style == YAML_FLOW_MAPPING_STYLE;
  const Span opening = events_.span();
  MemberList members(source_, opening.begin);
  std::vector<Value> merged;
  size_t last_end = opening.end;
  while (events_.next() != YAML_MAPPING_END_EVENT) last_end = member(members, merged);
  Value object = members.take();
  object.span.end = flow ? events_.span().end : last_end;
  return with_merged(std::move(object), std::move(merged), source_);
}

Member Reader::key() {
  if (events_.type() != YAML_SCALAR_EVENT) {
    fail(events_.span(), {"a key must be a plain word", "键名必须是普通的文本"});
  }
  const auto& data = events_.event().data.scalar;
  const std::string tag = text_of(data.tag);
  if (!anchor().empty() || !(tag.empty() || tag == "!" || tag == cat(kYamlTags, "str"))) {
    fail(events_.span(), {"a key with an anchor or a tag", "键名不能带锚点或标签"}, {"remove it", "请将其删除"});
  }
  return {std::string(reinterpret_cast<const char*>(data.value), data.length), events_.span(), {}};
}

size_t Reader::member(MemberList& members, std::vector<Value>& merged) {
  Member member = key();
  const bool merges = member.key == "<<" && events_.event().data.scalar.plain_implicit != 0;
  members.check(member.key, member.key_span);
  events_.next();
  member.value = node();
  const size_t end = member.value.span.end;
  if (!merges) {
    members.add(std::move(member));
    return end;
  }
  std::vector<Value> one;
  if (member.value.kind != Kind::kArray) one.push_back(std::move(member.value));
  for (Value& object : one.empty() ? member.value.items : one) {
    if (!object.is_object()) {
      fail(member.key_span, {"'<<' takes an object, or a list of objects", "'<<' 之后必须是对象或对象的列表"});
    }
    merged.push_back(std::move(object));
  }
  return end;
}

}  // namespace

YamlTree parse_yaml(const SourcePtr& source) { return Reader(source).tree(); }

}  // namespace weft::config
