#include "weft/checkpoint/foreign/zip_entries.h"

#include <gtest/gtest.h>

#include "weft/base/crash_env.h"
#include "weft/base/error.h"
#include "weft/checkpoint/foreign/torch_save_maker.h"

namespace weft::checkpoint::foreign {
namespace {

using test::zip_of;

std::vector<ZipEntry> entries_of(const std::string& bytes) {
  CrashEnv env;
  test::put_file(env, "a.zip", bytes);
  const auto file = env.open("a.zip", OpenMode::kRead);
  return read_zip(*file);
}

std::string zip_refusal(const std::string& bytes) {
  try {
    entries_of(bytes);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.text().what;
  }
  return "";
}

TEST(Zip, SaysWhereEntriesLie) {
  const std::string bytes =
      zip_of({{.name = "a/one", .bytes = "first"}, {.name = "a/two", .bytes = ""}, {.name = "b", .bytes = "xyz"}});
  const auto entries = entries_of(bytes);
  ASSERT_EQ(entries.size(), 3U);
  EXPECT_EQ(entries[0].name, "a/one");
  EXPECT_EQ(bytes.substr(entries[0].offset, entries[0].bytes), "first");
  EXPECT_EQ(entries[1].bytes, 0U);
  EXPECT_EQ(bytes.substr(entries[2].offset, entries[2].bytes), "xyz");
  EXPECT_EQ(entries_of(zip_of({{.name = "b", .bytes = "xyz"}}, {.with_64 = false})).size(), 1U);
}

TEST(Zip, CutAnywhereIsRefused) {
  const std::string bytes = zip_of({{.name = "a/one", .bytes = "first"}, {.name = "a/two", .bytes = "second"}});
  for (size_t size = 0; size < bytes.size(); ++size) EXPECT_NE(zip_refusal(bytes.substr(0, size)), "") << size;
}

TEST(Zip, RefusesWhatTorchNeverWrites) {
  EXPECT_NE(zip_refusal(zip_of({{.name = "a", .bytes = "x", .method = 8}})).find("compressed"), std::string::npos);
  EXPECT_NE(zip_refusal(zip_of({{.name = "a", .bytes = "x", .flags = 1}})).find("encrypted"), std::string::npos);
  EXPECT_NE(zip_refusal(zip_of({{.name = "a", .bytes = "x"}}, {.disk = 1})).find("disks"), std::string::npos);
  EXPECT_NE(zip_refusal(zip_of({{.name = "a", .bytes = "x"}}, {.comment = "PK"})).find("does not end"),
            std::string::npos);
  EXPECT_NE(zip_refusal(zip_of({{.name = "a", .bytes = "x"}}, {.more_entries = 1})), "");
  EXPECT_NE(zip_refusal(zip_of({{.name = "a", .bytes = "x"}}, {.more_entries = 2'000'000})).find("too much"),
            std::string::npos);
  EXPECT_NE(zip_refusal(zip_of({{.name = "a", .bytes = "x"}, {.name = "a", .bytes = "y"}})).find("twice"),
            std::string::npos);
}

TEST(Zip, RefusesNamesThatLeadElsewhere) {
  for (const char* name : {"", "/etc/passwd", "../a", "a/../b", "a/..", "..", "a\\b", "a\nb"})
    EXPECT_NE(zip_refusal(zip_of({{.name = name, .bytes = "x"}})), "") << name;
  EXPECT_EQ(zip_refusal(zip_of({{.name = "a/..b/c..", .bytes = "x"}})), "");
}

TEST(Zip, RefusesEntriesThatShareBytes) {
  // The second entry's header lies, as a file of its own, in the bytes of the first.
  const std::string inner = zip_of({{.name = "b", .bytes = "yy"}});
  const std::string nested = inner.substr(0, inner.find("PK\x01\x02"));
  const std::string bytes =
      zip_of({{.name = "a", .bytes = nested},
              {.name = "b", .bytes = "yy", .header_shift = -static_cast<int64_t>(nested.size())}});
  EXPECT_NE(zip_refusal(bytes).find("overlaps"), std::string::npos) << zip_refusal(bytes);
  EXPECT_NE(zip_refusal(zip_of({{.name = "a", .bytes = "x"}, {.name = "b", .bytes = "y", .header_shift = -3}})), "");
  EXPECT_NE(zip_refusal(zip_of({{.name = "a", .bytes = "x", .header_shift = 1 << 30}})), "");
}

TEST(Zip, RefusesSizesPastTheEnd) {
  std::string bytes = zip_of({{.name = "a", .bytes = "xyz"}});
  const size_t entry = bytes.find("PK\x01\x02");
  for (const uint32_t size : {4U, 1000U, 0x7fffffffU, 0xfffffffeU, 0xffffffffU}) {
    std::memcpy(bytes.data() + entry + 20, &size, 4);
    std::memcpy(bytes.data() + entry + 24, &size, 4);
    EXPECT_NE(zip_refusal(bytes), "") << size;
  }
  bytes = zip_of({{.name = "a", .bytes = "xyz"}});
  const size_t end_64 = bytes.find("PK\x06\x06");
  for (const size_t field : {32U, 40U, 48U}) {
    std::string lying = bytes;
    std::memset(lying.data() + end_64 + field, 0xff, 8);
    EXPECT_NE(zip_refusal(lying), "") << field;
  }
}

TEST(Zip, EveryFlippedBitIsRefusedOrHarmless) {
  const std::string bytes = zip_of({{.name = "a/one", .bytes = "first"}, {.name = "a/two", .bytes = "second"}});
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string other = bytes;
    other[bit / 8] = static_cast<char>(other[bit / 8] ^ (1 << (bit % 8)));
    CrashEnv env;
    test::put_file(env, "a.zip", other);
    try {
      for (const ZipEntry& entry : read_zip(*env.open("a.zip", OpenMode::kRead)))
        EXPECT_LE(entry.offset + entry.bytes, other.size()) << bit;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput) << bit;
    }
  }
}

}  // namespace
}  // namespace weft::checkpoint::foreign
