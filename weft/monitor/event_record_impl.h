// The bytes of a TensorBoard event file: protobuf's wire format as far as an Event needs it, and the frame around it.
// Pure functions, any thread, no failure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weft::detail {

// CRC-32C (Castagnoli).
uint32_t crc32c(std::string_view bytes);

// The bytes with their length and both checksums.
std::string framed(std::string_view bytes);

// On-disk: the numbers are those of TensorFlow's event.proto and summary.proto.
struct EventFields {
  static constexpr int kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;
  static constexpr int kSummaryValue = 1;
  static constexpr int kValueTag = 1, kValueSimple = 2, kValueMetadata = 9;
  static constexpr int kMetadataPlugin = 1, kMetadataClass = 4, kPluginName = 1;
  static constexpr int kSessionStatus = 1;
};

void put_int(std::string& message, int field, int64_t value);
void put_double(std::string& message, int field, double value);
void put_float(std::string& message, int field, float value);
// Texts, and messages inside messages.
void put_bytes(std::string& message, int field, std::string_view bytes);

}  // namespace weft::detail
