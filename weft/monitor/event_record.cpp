#include <array>
#include <bit>

#include "weft/monitor/event_record_impl.h"

namespace weft::detail {
namespace {

constexpr std::array<uint32_t, 256> make_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78U : 0U);
    table[byte] = crc;
  }
  return table;
}

// Turned and moved, so that the checksum of bytes that hold a checksum is no special case.
uint32_t masked_crc(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xA282EAD8U; }

template <typename T>
void put_little_endian(std::string& out, T value) {
  for (size_t i = 0; i < sizeof value; ++i) out += static_cast<char>(value >> (8 * i) & 0xFF);
}

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7F) | 0x80);
  out += static_cast<char>(value);
}

enum class Wire : uint8_t { kVarint = 0, k64 = 1, kBytes = 2, k32 = 5 };

void put_key(std::string& out, int field, Wire wire) {
  put_varint(out, static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(wire));
}

}  // namespace

// A table will do: a step writes a kilobyte.
uint32_t crc32c(std::string_view bytes) {
  static constexpr auto kTable = make_table();
  uint32_t crc = ~0U;
  for (const char byte : bytes) crc = kTable[(crc ^ static_cast<uint8_t>(byte)) & 0xFF] ^ (crc >> 8);
  return ~crc;
}

std::string framed(std::string_view bytes) {
  std::string out;
  put_little_endian(out, static_cast<uint64_t>(bytes.size()));
  put_little_endian(out, masked_crc(out));
  out += bytes;
  put_little_endian(out, masked_crc(bytes));
  return out;
}

void put_int(std::string& message, int field, int64_t value) {
  put_key(message, field, Wire::kVarint);
  put_varint(message, static_cast<uint64_t>(value));
}

void put_double(std::string& message, int field, double value) {
  put_key(message, field, Wire::k64);
  put_little_endian(message, std::bit_cast<uint64_t>(value));
}

void put_float(std::string& message, int field, float value) {
  put_key(message, field, Wire::k32);
  put_little_endian(message, std::bit_cast<uint32_t>(value));
}

void put_bytes(std::string& message, int field, std::string_view bytes) {
  put_key(message, field, Wire::kBytes);
  put_varint(message, bytes.size());
  message += bytes;
}

}  // namespace weft::detail
