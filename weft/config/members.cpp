#include "weft/base/text.h"
#include "weft/config/members_impl.h"
#include "weft/config/secret.h"

namespace weft::config {

void MemberList::check(const std::string& key, Span span) const {
  const auto first = places_.find(key);
  if (first == places_.end()) return;
  const std::string name = cited(*source_, span, key);
  const Place there = source_->place(first->second.begin), here = source_->place(span.begin);
  throw ReadError("syntax/duplicate-key", source_, span,
                  {cat("the key \"", name, "\" stands here (line ", here.line, ", column ", here.column,
                       ") and before (line ", there.line, ", column ", there.column, ")"),
                   cat("键 \"", name, "\" 重复：此处（第 ", here.line, " 行第 ", here.column, " 列）与前面（第 ",
                       there.line, " 行第 ", there.column, " 列）")},
                  {"keep one of the two", "请只保留其中一个"});
}

void MemberList::add(Member member) {
  places_.emplace(member.key, member.key_span);
  object_.members.push_back(std::move(member));
}

}  // namespace weft::config
