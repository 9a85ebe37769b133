#include <algorithm>
#include <charconv>
#include <iterator>

#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/comm/faulty_group.h"

namespace weft::comm {
namespace {

constexpr std::string_view kForm = "rank=1 at=5 op=all_reduce do=kill; rank=0 at=3 do=delay:0.2 when=after";
constexpr double kMaxDelaySeconds = 86'400;

constexpr Operation kOperations[] = {Operation::kBarrier,   Operation::kAllReduce, Operation::kReduceScatter,
                                     Operation::kAllGather, Operation::kBroadcast, Operation::kReduce,
                                     Operation::kAllToAll,  Operation::kGather,    Operation::kScatter,
                                     Operation::kSend,      Operation::kRecv};

struct ActionName {
  std::string_view name;
  FaultAction action;
};
constexpr ActionName kActions[] = {{"kill", FaultAction::kKill},   {"stop", FaultAction::kStop},
                                   {"delay", FaultAction::kDelay}, {"corrupt", FaultAction::kCorrupt},
                                   {"drop", FaultAction::kDrop},   {"throw", FaultAction::kThrow}};

[[noreturn]] void refuse_fault(std::string_view word, std::string why) {
  throw Error(ErrorKind::kInput, {.title = cat("this is no fault: '", word, "'"),
                                  .what = std::move(why),
                                  .where = "the script of faults (WEFT_FAULTS)",
                                  .fix = cat("write it like this: ", kForm)});
}

// "names: kill, stop, ..." of anything that has one.
template <typename Items, typename Name>
std::string list_of(const Items& items, Name name) {
  std::vector<std::string> names;
  for (const auto& item : items) names.emplace_back(name(item));
  return join(names, ", ");
}

template <typename Number>
Number number_in(std::string_view word, std::string_view text, Number least, Number most) {
  Number value{};
  const auto [stopped, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_whole_text = !text.empty() && code == std::errc() && stopped == text.data() + text.size();
  if (!is_whole_text || !(value >= least && value <= most)) {
    refuse_fault(word, cat("'", text, "' is not a number from ", least, " to ", most));
  }
  return value;
}

Operation read_operation(std::string_view word, std::string_view text) {
  for (const Operation operation : kOperations) {
    if (fabric::name_of(operation) == text) return operation;
  }
  refuse_fault(word, cat("operations are ", list_of(kOperations, [](Operation o) { return fabric::name_of(o); })));
}

void read_action(Fault& fault, std::string_view word, std::string_view text) {
  const size_t colon = std::min(text.find(':'), text.size());
  const std::string_view name = text.substr(0, colon), value = text.substr(std::min(colon + 1, text.size()));
  const auto found =
      std::find_if(std::begin(kActions), std::end(kActions), [&](const ActionName& a) { return a.name == name; });
  if (found == std::end(kActions)) {
    refuse_fault(word, cat("what can be done is ", list_of(kActions, [](const ActionName& a) { return a.name; })));
  }
  fault.action = found->action;
  if (fault.action == FaultAction::kDelay) {
    fault.delay_s = number_in(word, value, 0.0, kMaxDelaySeconds);
  } else if (fault.action == FaultAction::kCorrupt) {
    fault.byte = number_in<int64_t>(word, value, 0, INT64_MAX);
  } else if (colon != text.size()) {
    refuse_fault(word, cat("'", name, "' takes no number"));
  }
}

void read_word(Fault& fault, std::string_view word) {
  const size_t equals = std::min(word.find('='), word.size());
  const std::string_view name = word.substr(0, equals), value = word.substr(std::min(equals + 1, word.size()));
  if (name == "do") {
    read_action(fault, word, value);
  } else if (name == "rank") {
    fault.rank = number_in(word, value, 0, INT32_MAX);
  } else if (name == "at") {
    fault.at = number_in<uint64_t>(word, value, 1, INT64_MAX);
  } else if (name == "op") {
    fault.operation = read_operation(word, value);
  } else if (name == "when" && (value == "before" || value == "after")) {
    fault.after = value == "after";
  } else {
    refuse_fault(word,
                 name == "when" ? "when= is before or after" : "a fault is made of do=, rank=, at=, op= and when=");
  }
}

// Takes the next piece up to one of `separators` off the front.
std::string_view take(std::string_view& text, std::string_view separators) {
  const size_t end = std::min(text.find_first_of(separators), text.size());
  const std::string_view piece = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return piece;
}

}  // namespace

std::vector<Fault> parse_faults(std::string_view script) {
  std::vector<Fault> faults;
  while (!script.empty()) {
    const std::string_view whole = take(script, ";\n");
    Fault fault;
    std::vector<std::string> seen;
    for (std::string_view rest = whole; !rest.empty();) {
      const std::string_view word = take(rest, " \t");
      if (word.empty()) continue;
      read_word(fault, word);
      const std::string name(word.substr(0, word.find('=')));
      if (std::find(seen.begin(), seen.end(), name) != seen.end()) refuse_fault(whole, cat(name, "= is there twice"));
      seen.push_back(name);
    }
    if (seen.empty()) continue;
    if (std::find(seen.begin(), seen.end(), "do") == seen.end()) refuse_fault(whole, "it does not say do=");
    if (fault.action == FaultAction::kDrop && fault.after)
      refuse_fault(whole, "a call cannot be dropped after it was made");
    faults.push_back(fault);
  }
  return faults;
}

}  // namespace weft::comm
