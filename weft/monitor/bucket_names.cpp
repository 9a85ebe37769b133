#include "weft/monitor/bucket_names.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "weft/base/text.h"

namespace weft {
namespace {

using NameParts = std::vector<std::string>;

NameParts parts_of_name(const std::string& name) {
  NameParts out(1);
  for (const char c : name) {
    if (c == '.')
      out.emplace_back();
    else
      out.back() += c;
  }
  return out;
}

std::optional<int64_t> list_number(const std::string& part) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
  const bool is_number = error == std::errc() && end == part.data() + part.size();
  return is_number ? std::optional(value) : std::nullopt;
}

size_t place_of_number(const NameParts& parts) {
  return static_cast<size_t>(
      std::ranges::find_if(parts, [](const auto& part) { return list_number(part).has_value(); }) - parts.begin());
}

// How many parts may go from the front: of a numbered module the list stays ("layers.3"), of others the module itself.
size_t most_to_drop(const NameParts& parts) {
  const size_t number = place_of_number(parts);
  if (number < parts.size()) return number == 0 ? 0 : number - 1;
  return parts.size() < 2 ? 0 : parts.size() - 2;
}

// The parts that all of them begin with.
NameParts common_start(const std::vector<NameParts>& names) {
  if (names.empty()) return {};
  NameParts out(names.front().begin(),
                names.front().begin() + static_cast<std::ptrdiff_t>(most_to_drop(names.front())));
  for (const NameParts& parts : names) {
    const auto end = parts.begin() + static_cast<std::ptrdiff_t>(most_to_drop(parts));
    out.erase(std::mismatch(out.begin(), out.end(), parts.begin(), end).first, out.end());
  }
  return out;
}

// Of the numbered ones where there are any: the head of a model often lies outside of what its layers lie in.
NameParts prefix_of(const std::vector<std::vector<std::string>>& parameters) {
  std::vector<NameParts> all, numbered;
  for (const auto& bucket : parameters) {
    for (const std::string& name : bucket) {
      all.push_back(parts_of_name(name));
      if (place_of_number(all.back()) < all.back().size()) numbered.push_back(all.back());
    }
  }
  return common_start(numbered.empty() ? all : numbered);
}

struct Module {
  std::string list;                    // "layers", or the whole name
  std::optional<int64_t> number = {};  // in the list

  std::string text() const { return !number ? list : list.empty() ? cat(*number) : cat(list, ".", *number); }
};

Module module_of(const std::string& name, const NameParts& prefix) {
  NameParts parts = parts_of_name(name);
  if (parts.size() > prefix.size() &&
      std::ranges::equal(prefix, NameParts(parts.begin(), parts.begin() + std::ssize(prefix))))
    parts.erase(parts.begin(), parts.begin() + std::ssize(prefix));
  const size_t number = place_of_number(parts);
  if (number == parts.size()) return {.list = parts.front()};
  return {.list = join(NameParts(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(number)), "."),
          .number = list_number(parts[number])};
}

}  // namespace

std::vector<std::string> bucket_names(const std::vector<std::vector<std::string>>& parameters) {
  const NameParts prefix = prefix_of(parameters);
  std::vector<std::string> out;
  for (const auto& bucket : parameters) {
    if (bucket.empty()) {
      out.emplace_back();
      continue;
    }
    Module first = module_of(bucket.front(), prefix), last = module_of(bucket.back(), prefix);
    // Backward comes from the last layer; people count from the first.
    if (first.list == last.list && first.number > last.number) std::swap(first, last);
    out.push_back(first.text() == last.text() ? first.text() : cat(first.text(), " to ", last.text()));
  }
  return out;
}

}  // namespace weft
