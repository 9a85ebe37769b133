// XXH3-128: the fingerprint of every block we write. Fast and well mixed, but not cryptographic: it finds damage, not
// forgery. The hex form equals what `xxh128sum` prints.
//
// Threads: hash128 any thread; a Hasher belongs to one thread at a time. Failure: std::bad_alloc only.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "weft/base/error.h"

namespace weft {

struct Hash128 {
  uint64_t high = 0;
  uint64_t low = 0;
  auto operator<=>(const Hash128&) const = default;
};

Hash128 hash128(std::span<const std::byte> bytes);

// The same value as hash128 over all pieces joined.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;

  void update(std::span<const std::byte> bytes);
  // The hash of everything so far; more updates may follow.
  Hash128 finish() const;
  void reset();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// 32 lower-case hex digits, most significant first.
std::string to_hex(Hash128 hash);
// Reads what to_hex wrote (upper case too); anything else is an Error(kInput) that names the text.
Result<Hash128> hash_from_hex(std::string_view hex);

}  // namespace weft
