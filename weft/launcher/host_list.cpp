#include "weft/launcher/host_list.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <span>

#include "weft/base/env.h"
#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/launcher/launch_spec.h"

namespace weft::launcher {
namespace {

constexpr uint64_t kMaxFileBytes = 16 << 20;
constexpr std::string_view kBlanks = " \t\r";

[[noreturn]] void refuse_hosts(std::string title, std::string what, const std::string& where, std::string fix) {
  throw Error(ErrorKind::kInput,
              {.title = std::move(title), .what = std::move(what), .where = where, .fix = std::move(fix)});
}

std::vector<std::string_view> split(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> out;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find_first_of(separators, at), text.size());
    out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlanks);
  return begin == std::string_view::npos ? "" : text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

int ranks_of(std::string_view text, const std::string& where) {
  int ranks = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ranks);
  const bool is_number = error == std::errc() && end == text.data() + text.size() && !text.empty();
  if (is_number && ranks >= 1 && ranks <= kMaxLocalRanks) return ranks;
  refuse_hosts("not a number of ranks for a host", cat("'", text, "'; 1 to ", kMaxLocalRanks), where,
               "node0:4, or in a file: node0 slots=4");
}

// The name becomes a word of ssh's: one that begins with '-' would be an option of it.
void check_name(std::string_view name, const std::string& where) {
  const bool has_odd = std::ranges::any_of(name, [](char c) {
    const bool is_word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    return !is_word && std::string_view("._-@:[]%").find(c) == std::string_view::npos;
  });
  if (!name.empty() && name[0] != '-' && !has_odd && !name.ends_with('@')) return;
  refuse_hosts("not the name of a host", cat("'", name, "'"), where,
               "letters, digits, '.', '_' and '-', with user@ before it where ssh needs one");
}

// "host", "host:4", "user@host:4", "[fe80::1]:4", "fe80::1".
Host host_of(std::string_view text, std::optional<int> slots, int default_ranks, const std::string& where) {
  const size_t colon = text.rfind(':'), bracket = text.rfind(']');
  const bool is_bare_ipv6 = bracket == std::string_view::npos && text.find(':') != colon;
  const bool after_bracket = bracket == std::string_view::npos || colon > bracket;
  const bool has_ranks = colon != std::string_view::npos && !is_bare_ipv6 && after_bracket;
  const std::string_view name = has_ranks ? text.substr(0, colon) : text;
  check_name(name, where);
  if (has_ranks && slots)
    refuse_hosts("the number of ranks is there twice", std::string(text), where, "either host:4 or host slots=4");
  const int ranks = has_ranks ? ranks_of(text.substr(colon + 1), where) : slots.value_or(default_ranks);
  std::string bare(name);
  std::erase_if(bare, [](char c) { return c == '[' || c == ']'; });  // ssh takes an IPv6 address without them
  return {.name = bare, .num_ranks = ranks};
}

Host host_of_line(std::string_view line, int default_ranks, const std::string& where) {
  std::vector<std::string_view> words = split(line, kBlanks);
  std::erase(words, "");
  std::optional<int> slots;
  for (const auto word : std::span(words).subspan(1)) {
    if (!word.starts_with("slots=") || slots) {
      refuse_hosts("a line of the hostfile has a word too many", cat("'", word, "'"), where,
                   "one host a line: node0 slots=4");
    }
    slots = ranks_of(word.substr(6), where);
  }
  return host_of(words[0], slots, default_ranks, where);
}

// Two agents on one host would both count their local ranks from 0 and use the same devices.
void add(std::vector<Host>& hosts, std::map<std::string, std::string>& seen, Host host, const std::string& where) {
  const auto [found, is_new] = seen.emplace(host.name, where);
  if (!is_new) {
    refuse_hosts(cat("host ", host.name, " is there twice"), where.empty() ? "" : cat("first in ", found->second),
                 where, cat("name it once, with all its ranks: ", host.name, ":", 2 * host.num_ranks));
  }
  hosts.push_back(std::move(host));
}

}  // namespace

std::vector<Host> parse_hosts(std::string_view text, int default_ranks) {
  std::vector<Host> hosts;
  std::map<std::string, std::string> seen;
  for (const auto word : split(text, ",")) add(hosts, seen, host_of(trimmed(word), {}, default_ranks, ""), "");
  return hosts;
}

std::vector<Host> read_hostfile(const std::string& path, int default_ranks) {
  std::vector<Host> hosts;
  std::map<std::string, std::string> seen;
  int number = 0;
  const std::string text = read_file(Env::posix(), path, kMaxFileBytes);
  for (const auto line : split(text, "\n")) {
    ++number;
    const auto content = trimmed(line.substr(0, line.find('#')));
    const std::string where = cat(path, ":", number);
    if (!content.empty()) add(hosts, seen, host_of_line(content, default_ranks, where), where);
  }
  if (hosts.empty()) refuse_hosts("the hostfile names no host", "", path, "one host a line: node0 slots=4");
  return hosts;
}

std::string address_of(const Host& host) { return host.name.substr(host.name.find('@') + 1); }

bool is_loopback(const Host& host) {
  const std::string address = address_of(host);
  return address == "localhost" || address == "::1" || address.starts_with("127.");
}

}  // namespace weft::launcher
