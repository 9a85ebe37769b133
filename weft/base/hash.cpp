#include "weft/base/hash.h"

#define XXH_INLINE_ALL  // NOLINT(readability-identifier-naming): the library's own name
#include <xxhash.h>

#include <charconv>

#include "weft/base/text.h"

namespace weft {
namespace {

Hash128 from_xxh(XXH128_hash_t hash) { return {.high = hash.high64, .low = hash.low64}; }

void append_hex(std::string& out, uint64_t word) {
  constexpr char kDigits[] = "0123456789abcdef";
  for (int shift = 60; shift >= 0; shift -= 4) out += kDigits[(word >> shift) & 0xF];
}

// from_chars alone would accept a minus sign; all sixteen characters must be digits.
bool read_hex(std::string_view digits, uint64_t& word) {
  if (digits.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos) return false;
  return std::from_chars(digits.data(), digits.data() + digits.size(), word, 16).ec == std::errc();
}

}  // namespace

struct Hasher::State {
  XXH3_state_t xxh;
};

Hash128 hash128(std::span<const std::byte> bytes) { return from_xxh(XXH3_128bits(bytes.data(), bytes.size())); }

Hasher::Hasher() : state_(std::make_unique<State>()) { reset(); }
Hasher::~Hasher() = default;
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;

void Hasher::update(std::span<const std::byte> bytes) {
  if (!bytes.empty()) XXH3_128bits_update(&state_->xxh, bytes.data(), bytes.size());
}

Hash128 Hasher::finish() const { return from_xxh(XXH3_128bits_digest(&state_->xxh)); }

void Hasher::reset() { XXH3_128bits_reset(&state_->xxh); }

std::string to_hex(Hash128 hash) {
  std::string out;
  append_hex(out, hash.high);
  append_hex(out, hash.low);
  return out;
}

Result<Hash128> hash_from_hex(std::string_view hex) {
  Hash128 hash;
  const bool good = hex.size() == 32 && read_hex(hex.substr(0, 16), hash.high) && read_hex(hex.substr(16), hash.low);
  if (good) return hash;
  return Error(ErrorKind::kInput, {.title = "not a 128-bit hash",
                                   .what = cat("'", hex, "' (", hex.size(), " characters)"),
                                   .where = "",
                                   .fix = "a hash is exactly 32 hexadecimal digits"});
}

}  // namespace weft
