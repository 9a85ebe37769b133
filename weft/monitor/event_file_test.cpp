#include "weft/monitor/event_file.h"

#include <gtest/gtest.h>

#include <bit>
#include <cerrno>
#include <cmath>
#include <limits>
#include <map>
#include <regex>

#include "weft/base/crash_env.h"
#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/monitor/event_record_impl.h"

namespace weft {
namespace {

template <typename T>
T little_endian(std::string_view bytes) {
  T out = 0;
  for (size_t i = 0; i < sizeof out; ++i) out |= static_cast<T>(static_cast<uint8_t>(bytes[i])) << (8 * i);
  return out;
}

uint32_t unmasked(uint32_t masked) { return std::rotl(masked - 0xA282EAD8U, 15); }

// What every record holds, each checked as TensorFlow's reader does. Stops at the end of the file and nowhere else.
std::vector<std::string> records_of(std::string_view file) {
  std::vector<std::string> out;
  while (!file.empty()) {
    EXPECT_GE(file.size(), 16U) << "torn";
    if (file.size() < 16) return out;
    const auto bytes = static_cast<size_t>(little_endian<uint64_t>(file));
    EXPECT_EQ(unmasked(little_endian<uint32_t>(file.substr(8))), detail::crc32c(file.substr(0, 8)));
    EXPECT_GE(file.size(), bytes + 16) << "torn";
    if (file.size() < bytes + 16) return out;
    const std::string_view content = file.substr(12, bytes);
    EXPECT_EQ(unmasked(little_endian<uint32_t>(file.substr(12 + bytes))), detail::crc32c(content));
    out.emplace_back(content);
    file.remove_prefix(bytes + 16);
  }
  return out;
}

uint64_t take_varint(std::string_view& bytes) {
  uint64_t out = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = static_cast<uint8_t>(bytes.front());
    bytes.remove_prefix(1);
    out |= static_cast<uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return out;
  }
}

// By field number: numbers as they are, everything else as bytes.
struct Message {
  std::map<int, uint64_t> numbers = {};
  std::map<int, std::vector<std::string>> texts = {};
};

Message decoded(std::string_view bytes) {
  Message out;
  while (!bytes.empty()) {
    const uint64_t key = take_varint(bytes);
    const auto field = static_cast<int>(key >> 3);
    const size_t fixed = (key & 7) == 1 ? 8 : (key & 7) == 5 ? 4 : 0;
    if ((key & 7) == 0) {
      out.numbers[field] = take_varint(bytes);
    } else if (fixed > 0) {
      out.numbers[field] = fixed == 8 ? little_endian<uint64_t>(bytes) : little_endian<uint32_t>(bytes);
      bytes.remove_prefix(fixed);
    } else {
      EXPECT_EQ(key & 7, 2U);
      const auto size = static_cast<size_t>(take_varint(bytes));
      out.texts[field].emplace_back(bytes.substr(0, size));
      bytes.remove_prefix(size);
    }
  }
  return out;
}

class Events : public testing::Test {
 protected:
  std::vector<Message> events_in(const std::string& path) {
    std::vector<Message> out;
    for (const std::string& record : records_of(read_file(env_, path, 1 << 20))) out.push_back(decoded(record));
    return out;
  }
  static StepScalars one(int64_t x, double value = 1) { return {.x = x, .values = {{.tag = "a/b", .value = value}}}; }
  // The x of the events that hold points.
  std::vector<uint64_t> points_in(const std::string& path) {
    std::vector<uint64_t> out;
    for (const Message& event : events_in(path)) {
      if (event.texts.contains(5)) out.push_back(event.numbers.at(2));
    }
    return out;
  }

  CrashEnv env_;
};

TEST(Crc32c, OfKnownTexts) {
  EXPECT_EQ(detail::crc32c(""), 0U);
  EXPECT_EQ(detail::crc32c("123456789"), 0xE3069283U);
  EXPECT_EQ(detail::crc32c(std::string(32, '\0')), 0x8A9136AAU) << "RFC 3720, B.4";
  EXPECT_EQ(detail::crc32c(std::string(32, '\xFF')), 0x62A8AB43U);
}

TEST(EventRecords, AreThoseOfOtherWriters) {
  // The first record of a file by torch's SummaryWriter, its time set to 0.
  std::string event;
  detail::put_double(event, 1, 0);
  detail::put_bytes(event, 3, "brain.Event:2");
  EXPECT_EQ(event, std::string("\x09\0\0\0\0\0\0\0\0\x1a\x0d"
                               "brain.Event:2",
                               24));
  const std::string record = detail::framed(event);
  EXPECT_EQ(record.size(), event.size() + 16);
  EXPECT_EQ(record.substr(0, 8), std::string("\x18\0\0\0\0\0\0\0", 8));
}

TEST(EventRecords, IntegersOfAnySize) {
  for (const int64_t value : {int64_t{0}, int64_t{127}, int64_t{128}, int64_t{1} << 40, INT64_MAX, int64_t{-1}}) {
    std::string message;
    detail::put_int(message, 2, value);
    EXPECT_EQ(static_cast<int64_t>(decoded(message).numbers.at(2)), value);
  }
}

TEST_F(Events, AFileSaysItsVersionThenTheScalars) {
  EventFile file(env_, "logs/job", false);
  file.add({.x = 64, .values = {{.tag = "Train/Samples/lr", .value = 0.1}, {.tag = "n", .value = 3}}});
  file.add({.x = 128, .values = {{.tag = "Train/Samples/lr", .value = 0.2}}});
  const auto events = events_in(file.path());
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0].texts.at(3).front(), "brain.Event:2");
  EXPECT_GT(std::bit_cast<double>(events[0].numbers.at(1)), 1.7e9) << "seconds since 1970";
  EXPECT_EQ(events[1].numbers.at(2), 64U);
  const Message summary = decoded(events[1].texts.at(5).front());
  ASSERT_EQ(summary.texts.at(1).size(), 2U);
  const Message lr = decoded(summary.texts.at(1)[0]);
  EXPECT_EQ(lr.texts.at(1).front(), "Train/Samples/lr");
  EXPECT_EQ(std::bit_cast<float>(static_cast<uint32_t>(lr.numbers.at(2))), 0.1F);
  const Message metadata = decoded(lr.texts.at(9).front());
  EXPECT_EQ(decoded(metadata.texts.at(1).front()).texts.at(1).front(), "scalars");
  EXPECT_EQ(metadata.numbers.at(4), 1U);
  const Message later = decoded(decoded(events[2].texts.at(5).front()).texts.at(1)[0]);
  EXPECT_FALSE(later.texts.contains(9)) << "said once";
}

TEST_F(Events, NumbersThatAreNone) {
  EventFile file(env_, "j", false);
  file.add(one(1, std::nan("")));
  file.add(one(2, -std::numeric_limits<double>::infinity()));
  file.add(one(3, 1e300));
  const auto events = events_in(file.path());
  const auto value = [&](size_t i) {
    return std::bit_cast<float>(
        static_cast<uint32_t>(decoded(decoded(events[i].texts.at(5)[0]).texts.at(1)[0]).numbers.at(2)));
  };
  EXPECT_TRUE(std::isnan(value(1)));
  EXPECT_EQ(value(2), -std::numeric_limits<float>::infinity());
  EXPECT_EQ(value(3), std::numeric_limits<float>::infinity()) << "there is no more room in a float";
}

TEST_F(Events, TheNameIsAsTensorBoardLooksForIt) {
  const EventFile first(env_, "j", false), second(env_, "j", false);
  EXPECT_TRUE(std::regex_match(first.path(), std::regex(R"(j/events\.out\.tfevents\.\d{10}\..*\.\d+\.\d+)")))
      << first.path();
  EXPECT_NE(first.path(), second.path());
}

TEST_F(Events, AResumedRunSaysFromWhereOnToForget) {
  EventFile file(env_, "j", true);
  EXPECT_EQ(read_file(env_, file.path(), 1 << 20), "");
  file.add(one(640));
  file.add(one(704));
  const auto events = events_in(file.path());
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(events[0].texts.at(3).front(), "brain.Event:2");
  EXPECT_EQ(events[1].numbers.at(2), 640U);
  EXPECT_EQ(decoded(events[1].texts.at(7).front()).numbers.at(1), 1U) << "SessionLog.START";
  EXPECT_EQ(points_in(file.path()), (std::vector<uint64_t>{640, 704}));
}

TEST_F(Events, AFullDiskCostsEventsAndNothingElse) {
  for (const bool resumed : {false, true}) {
    EventFile file(env_, "j", resumed);
    file.add(one(1));
    const int fired = env_.faults_fired();
    env_.short_write(1, 5);
    file.add({.x = 2, .values = {{.tag = "new", .value = 1}}});
    EXPECT_EQ(env_.faults_fired(), fired + 1);
    EXPECT_EQ(file.num_left_out(), 1U);
    file.add({.x = 3, .values = {{.tag = "new", .value = 1}}});
    EXPECT_EQ(points_in(file.path()), (std::vector<uint64_t>{1, 3})) << "the torn part of 2 is gone";
    const auto last = events_in(file.path()).back();
    EXPECT_TRUE(decoded(decoded(last.texts.at(5)[0]).texts.at(1)[0]).texts.contains(9))
        << "described where it is first";
  }
}

TEST_F(Events, ADiskThatIsFullFromTheStart) {
  env_.fail_call(1, ENOSPC, EnvCall::kWrite);
  EventFile file(env_, "j", false);
  EXPECT_EQ(env_.faults_fired(), 1);
  file.add(one(5));
  const auto events = events_in(file.path());
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].texts.at(3).front(), "brain.Event:2");
}

TEST_F(Events, AFolderThatCannotBeMadeIsKnownAtOnce) {
  write_file(env_, "j", bytes_of("a file"));
  EXPECT_THROW(EventFile(env_, "j", false), IoError);
  EXPECT_THROW(EventFile(Env::posix(), "/proc/none/of/it", false), IoError);
}

}  // namespace
}  // namespace weft
