#include "weft/base/units.h"

#include <gtest/gtest.h>

#include <climits>
#include <cmath>

namespace weft {
namespace {

using namespace std::chrono_literals;

// Everything a refusal owes the reader: the text itself, and the forms that would have worked.
template <typename T>
void expect_refused(const Result<T>& result, const std::string& text, const std::string& form) {
  ASSERT_FALSE(result) << text;
  EXPECT_EQ(result.error().kind(), ErrorKind::kInput) << text;
  EXPECT_NE(result.error().text().title.find("'" + text + "'"), std::string::npos) << text;
  EXPECT_NE(result.error().text().fix.find(form), std::string::npos) << text;
}

TEST(ParseCount, ReadsPlainScientificAndSuffixed) {
  EXPECT_EQ(parse_count("0").value(), 0);
  EXPECT_EQ(parse_count("1024").value(), 1024);
  EXPECT_EQ(parse_count("5e8").value(), 500'000'000);
  EXPECT_EQ(parse_count("5E+8").value(), 500'000'000);
  EXPECT_EQ(parse_count("1.5K").value(), 1'500);
  EXPECT_EQ(parse_count("25m").value(), 25'000'000);
  EXPECT_EQ(parse_count("7B").value(), 7'000'000'000);
  EXPECT_EQ(parse_count("2T").value(), 2'000'000'000'000);
  EXPECT_EQ(parse_count("1.5e3K").value(), 1'500'000);
  EXPECT_EQ(parse_count("20e-1").value(), 2);
}

TEST(ParseCount, IsExactWhereFloatsAreNot) {
  EXPECT_EQ(parse_count("0.3K").value(), 300);
  EXPECT_EQ(parse_count("1.001K").value(), 1'001);
  EXPECT_EQ(parse_count("9223372036854775807").value(), INT64_MAX);
  EXPECT_EQ(parse_count("9.223372036854775807e18").value(), INT64_MAX);
  EXPECT_EQ(parse_count("0e9999").value(), 0);
}

TEST(ParseCount, RefusesTheRest) {
  for (const char* bad : {"",
                          " ",
                          "-1",
                          "+1",
                          "nan",
                          "inf",
                          "1_000",
                          "1,000",
                          "1.5",
                          "0.0001K",
                          "1e-3",
                          "K",
                          ".",
                          "1K5",
                          "1KB",
                          "7 B 1",
                          "0x10",
                          "1e",
                          "1e99999999999",
                          "9223372036854775808",
                          "1e19",
                          "10000000000T",
                          "1..5",
                          "1\n",
                          "9999999999999999999999999"}) {
    expect_refused(parse_count(bad), bad, "1.5K");
  }
}

TEST(ParseBytes, TellsPowersOf1024From1000) {
  EXPECT_EQ(parse_bytes("512").value(), 512u);
  EXPECT_EQ(parse_bytes("512B").value(), 512u);
  EXPECT_EQ(parse_bytes("24G").value(), 24ull << 30);
  EXPECT_EQ(parse_bytes("1.5GiB").value(), 3ull << 29);
  EXPECT_EQ(parse_bytes("64k").value(), 65'536u);
  EXPECT_EQ(parse_bytes("64KiB").value(), 65'536u);
  EXPECT_EQ(parse_bytes("2T").value(), 2ull << 40);
  EXPECT_EQ(parse_bytes("25MB").value(), 25'000'000u);
  EXPECT_EQ(parse_bytes("1KB").value(), 1'000u);
  EXPECT_EQ(parse_bytes("3gb").value(), 3'000'000'000u);
  EXPECT_EQ(parse_bytes("18446744073709551615").value(), UINT64_MAX);
}

TEST(ParseBytes, DropsPartOfAByte) { EXPECT_EQ(parse_bytes("0.1GiB").value(), 107'374'182u); }

TEST(ParseBytes, RefusesTheRest) {
  for (const char* bad :
       {"", "-1G", "nan", "G", "1X", "1GiBs", "1 G B", "1_000", "1,5G", "18446744073709551616", "16777216T", "1e30"}) {
    expect_refused(parse_bytes(bad), bad, "1.5GiB");
  }
}

TEST(ParseRate, TellsBitsFromBytes) {
  EXPECT_DOUBLE_EQ(parse_rate("10gbit").value(), 1.25e9);
  EXPECT_DOUBLE_EQ(parse_rate("10Gbit/s").value(), 1.25e9);
  EXPECT_DOUBLE_EQ(parse_rate("1gbps").value(), 1.25e8);
  EXPECT_DOUBLE_EQ(parse_rate("100Mbps").value(), 1.25e7);
  EXPECT_DOUBLE_EQ(parse_rate("12GB/s").value(), 12e9);
  EXPECT_DOUBLE_EQ(parse_rate("3GiB/s").value(), 3.0 * (1 << 30));
  EXPECT_DOUBLE_EQ(parse_rate("800B/s").value(), 800);
  EXPECT_DOUBLE_EQ(parse_rate("2.5e3 bit").value(), 312.5);
}

TEST(ParseRate, RefusesTheRest) {
  for (const char* bad :
       {"", "10", "10G", "12gb/s", "12GBps", "-1gbit", "nangbit", "1xbit", "1e400gbit", "bit", "1 g bit", "1gbit!"}) {
    expect_refused(parse_rate(bad), bad, "10gbit");
  }
}

TEST(ParseDuration, ReadsOneOrMoreParts) {
  EXPECT_EQ(parse_duration("90s").value(), 90s);
  EXPECT_EQ(parse_duration("250ms").value(), 250ms);
  EXPECT_EQ(parse_duration("1h30m").value(), 90min);
  EXPECT_EQ(parse_duration("2m").value(), 2min);
  EXPECT_EQ(parse_duration("1.5h").value(), 90min);
  EXPECT_EQ(parse_duration("1d2h3m4s5ms6us7ns").value(), 26h + 3min + 4s + 5ms + 6us + 7ns);
  EXPECT_EQ(parse_duration("0s").value(), 0s);
  EXPECT_EQ(parse_duration("0.1s").value(), 100ms);
  EXPECT_EQ(parse_duration("1m 05s").value(), 65s);
}

TEST(ParseDuration, RefusesTheRest) {
  for (const char* bad : {"", "90", "-5s", "s", "30m1h", "1s1s", "1h30", "1y", "nans", "1e30s", "293 years", "200000d",
                          "106751d 24h", "1s,"}) {
    expect_refused(parse_duration(bad), bad, "250ms");
  }
}

TEST(Format, Count) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1'000), "1.0K");
  EXPECT_EQ(format_count(17'000'000), "17.0M");
  EXPECT_EQ(format_count(999'949), "999.9K");
  EXPECT_EQ(format_count(999'950), "1.0M");
  EXPECT_EQ(format_count(7'240'000'000), "7.2B");
  EXPECT_EQ(format_count(-1'500), "-1.5K");
  EXPECT_EQ(format_count(INT64_MIN), "-9223372.0T");
}

TEST(Format, Bytes) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.0 KiB");
  EXPECT_EQ(format_bytes(3ull << 29), "1.5 GiB");
  EXPECT_EQ(format_bytes((1ull << 20) - 1), "1.0 MiB");
  EXPECT_EQ(format_bytes(UINT64_MAX), "16777216.0 TiB");
}

TEST(Format, Rate) {
  EXPECT_EQ(format_rate(12e9), "12.0 GB/s");
  EXPECT_EQ(format_rate(0), "0.0 B/s");
  EXPECT_EQ(format_rate(999'960), "1.0 MB/s");
  EXPECT_EQ(format_rate(NAN), "n/a");
  EXPECT_EQ(format_rate(-1), "n/a");
  EXPECT_EQ(format_rate(INFINITY), "n/a");
}

TEST(Format, Duration) {
  EXPECT_EQ(format_duration(0ns), "0 ns");
  EXPECT_EQ(format_duration(999ns), "999 ns");
  EXPECT_EQ(format_duration(820us), "820 us");
  EXPECT_EQ(format_duration(820ms), "820 ms");
  EXPECT_EQ(format_duration(999'600us), "1.0 s");
  EXPECT_EQ(format_duration(4'240ms), "4.2 s");
  EXPECT_EQ(format_duration(59'960ms), "1m 00s");
  EXPECT_EQ(format_duration(65s), "1m 05s");
  EXPECT_EQ(format_duration(3'599'600ms), "1h 00m");
  EXPECT_EQ(format_duration(2h + 3min), "2h 03m");
  EXPECT_EQ(format_duration(76h), "3d 04h");
  EXPECT_EQ(format_duration(-65s), "-1m 05s");
  EXPECT_EQ(format_duration(std::chrono::nanoseconds::min()), "-106752d 00h");
}

TEST(Format, WhatWePrintWeCanRead) {
  for (const uint64_t bytes : {0ull, 77ull, 1ull << 10, 3ull << 29, 5ull << 40})
    EXPECT_EQ(parse_bytes(format_bytes(bytes)).value(), bytes);
  for (const int64_t count : {5, 1'500, 17'000'000}) EXPECT_EQ(parse_count(format_count(count)).value(), count);
  for (const std::chrono::nanoseconds d :
       {std::chrono::nanoseconds(820ms), std::chrono::nanoseconds(65s), std::chrono::nanoseconds(123min)}) {
    EXPECT_EQ(parse_duration(format_duration(d)).value(), d);
  }
  EXPECT_DOUBLE_EQ(parse_rate(format_rate(12e9)).value(), 12e9);
}

}  // namespace
}  // namespace weft
