#include <unistd.h>

#include <atomic>
#include <charconv>
#include <sstream>

#include "weft/base/text.h"
#include "weft/comm/c10d/roll_call_records_impl.h"
#include "weft/comm/fabric/liveness.h"
#include "weft/comm/host_identity.h"
#include "weft/monitor/host_name.h"

namespace weft::comm {
namespace {

std::string one_line(std::string text) {
  for (char& c : text)
    if (c == '\n') c = ' ';
  return text;
}

// Fields in the order they were written.
class Reader {
 public:
  explicit Reader(const std::string& text) : in_(text) {}

  std::string text() {
    std::string line;
    if (!std::getline(in_, line))
      throw Error(ErrorKind::kEnvironment,
                  {.title = "a record in the store is cut short",
                   .fix = "see that all ranks run the same weft, and that the run's name is its own"});
    return line;
  }
  template <typename Number>
  Number number() {
    const std::string line = text();
    Number value = 0;
    std::from_chars(line.data(), line.data() + line.size(), value);
    return value;
  }
  template <typename Enum>
  Enum choice() {
    return static_cast<Enum>(number<int>());
  }

 private:
  std::istringstream in_;
};

}  // namespace

Member Member::self(int world, bool serves) {
  static std::atomic<int> num_members{0};
  Member member;
  member.host = this_host_name();
  member.pid = ::getpid();
  member.start_time = fabric::start_time_of(member.pid);
  member.host_identity = comm::host_identity();
  member.world = world;
  member.serves = serves;
  member.nonce = std::to_string(num_members.fetch_add(1));
  return member;
}

std::string Member::who() const { return cat("process ", pid, " on host ", host); }

std::string to_text(const Member& member) {
  return cat(one_line(member.host), "\n", member.pid, "\n", member.start_time, "\n", member.host_identity, "\n",
             member.world, "\n", member.serves ? 1 : 0, "\n", member.nonce, "\n");
}

Member member_from(const std::string& text) {
  Reader in(text);
  Member member;
  member.host = in.text();
  member.pid = in.number<int>();
  member.start_time = in.number<uint64_t>();
  member.host_identity = in.text();
  member.world = in.number<int>();
  member.serves = in.number<int>() != 0;
  member.nonce = in.text();
  return member;
}

std::string to_text(const Beat& beat) {
  return cat(beat.count, "\n", static_cast<int>(beat.presence), "\n", beat.num_begun, "\n", beat.sequence, "\n",
             static_cast<int>(beat.operation), "\n", beat.is_inside ? 1 : 0, "\n", beat.fingerprint, "\n",
             one_line(beat.call), "\n");
}

Beat beat_from(const std::string& text) {
  Reader in(text);
  Beat beat;
  beat.count = in.number<uint64_t>();
  beat.presence = in.choice<Presence>();
  beat.num_begun = in.number<uint64_t>();
  beat.sequence = in.number<uint64_t>();
  beat.operation = in.choice<fabric::Operation>();
  beat.is_inside = in.number<int>() != 0;
  beat.fingerprint = in.number<uint64_t>();
  beat.call = in.text();
  return beat;
}

std::string to_text(const Verdict& verdict) {
  const Loss& loss = verdict.loss;
  return cat(static_cast<int>(verdict.kind), "\n", one_line(verdict.text), "\n", static_cast<int>(loss.kind), "\n",
             loss.rank, "\n", one_line(loss.host), "\n", loss.pid, "\n", one_line(loss.last_collective), "\n",
             one_line(loss.waiting_in), "\n", one_line(loss.group), "\n", one_line(loss.detail), "\n");
}

Verdict verdict_from(const std::string& text) {
  Reader in(text);
  Verdict verdict;
  verdict.kind = in.choice<Verdict::Kind>();
  verdict.text = in.text();
  Loss& loss = verdict.loss;
  loss.kind = in.choice<LossKind>();
  loss.rank = in.number<int>();
  loss.host = in.text();
  loss.pid = in.number<int>();
  loss.last_collective = in.text();
  loss.waiting_in = in.text();
  loss.group = in.text();
  loss.detail = in.text();
  return verdict;
}

}  // namespace weft::comm
