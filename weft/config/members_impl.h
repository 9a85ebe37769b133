// The members of an object while it is being read: refuses the second of two equal keys, as DeepSpeed does.
//
// Belongs to one parse. Internal to the room.
#pragma once

#include <string>
#include <unordered_map>

#include "weft/config/value.h"

namespace weft::config {

class MemberList {
 public:
  MemberList(SourcePtr source, size_t begin) : source_(std::move(source)) {
    object_.kind = Kind::kObject;
    object_.span = {begin, begin};
  }

  // Throws ReadError when the key is there already, with both places.
  void check(const std::string& key, Span span) const;
  // Requires: check().
  void add(Member member);
  bool contains(const std::string& key) const { return places_.contains(key); }
  // The object; its span has no end yet.
  Value take() { return std::move(object_); }

 private:
  SourcePtr source_;
  Value object_;
  std::unordered_map<std::string, Span> places_;
};

}  // namespace weft::config
