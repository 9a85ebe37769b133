#include "weft/base/hash.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "weft/base/env.h"

namespace weft {
namespace {

std::string pattern(size_t size) {
  std::string text(size, '\0');
  for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 31 + i / 251);
  return text;
}

// On-disk values: what `xxh128sum` prints for the same bytes.
TEST(Hash, MatchesThePublishedValues) {
  EXPECT_EQ(to_hex(hash128({})), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(to_hex(hash128(bytes_of("weft\n"))), "a9aa0752f07e7acc2c625edfda306d0d");
}

TEST(Hash, StreamingEqualsOneShot) {
  for (const size_t size : {0, 1, 16, 17, 128, 129, 240, 241, 1023, 4096, 100'003}) {
    const std::string text = pattern(size);
    for (const size_t piece : {1, 7, 64, 1000, 65536}) {
      Hasher hasher;
      for (size_t at = 0; at < size; at += piece) hasher.update(bytes_of(std::string_view(text).substr(at, piece)));
      ASSERT_EQ(hasher.finish(), hash128(bytes_of(text))) << size << " bytes by " << piece;
    }
  }
}

TEST(Hash, FinishDoesNotEndTheStream) {
  Hasher hasher;
  hasher.update(bytes_of("ab"));
  EXPECT_EQ(hasher.finish(), hash128(bytes_of("ab")));
  hasher.update(bytes_of("c"));
  EXPECT_EQ(hasher.finish(), hash128(bytes_of("abc")));
  hasher.reset();
  EXPECT_EQ(hasher.finish(), hash128({}));
}

TEST(Hash, MovesWithItsState) {
  Hasher hasher;
  hasher.update(bytes_of("ab"));
  Hasher moved = std::move(hasher);
  moved.update(bytes_of("c"));
  EXPECT_EQ(moved.finish(), hash128(bytes_of("abc")));
}

TEST(Hash, SeesASingleBit) {
  std::string text = pattern(5000);
  const Hash128 before = hash128(bytes_of(text));
  text[4999] = static_cast<char>(text[4999] ^ 1);
  EXPECT_NE(hash128(bytes_of(text)), before);
}

TEST(Hash, HexRoundTrips) {
  const Hash128 hash{.high = 0x0123456789abcdef, .low = 0xfedcba9876543210};
  EXPECT_EQ(to_hex(hash), "0123456789abcdeffedcba9876543210");
  EXPECT_EQ(hash_from_hex(to_hex(hash)).value(), hash);
  EXPECT_EQ(hash_from_hex("0123456789ABCDEFFEDCBA9876543210").value(), hash);
  EXPECT_LT((Hash128{.high = 1, .low = 0}), (Hash128{.high = 1, .low = 1}));
}

TEST(Hash, RefusesWhatIsNoHash) {
  for (const char* bad :
       {"", "0123", "0123456789abcdeffedcba987654321", "0123456789abcdeffedcba98765432100",
        "-123456789abcdef0fedcba9876543210", "g123456789abcdeffedcba9876543210", " 123456789abcdeffedcba9876543210"}) {
    const auto hash = hash_from_hex(bad);
    ASSERT_FALSE(hash) << bad;
    EXPECT_NE(hash.error().text().what.find(bad), std::string::npos);
  }
}

}  // namespace
}  // namespace weft
