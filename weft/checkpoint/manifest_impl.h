// Shared by the files that make, read and check manifests.
#pragma once

#include <string>
#include <string_view>

namespace weft::checkpoint {

// On-disk: the first bytes of every manifest.json. The hash covers everything behind kSealEnd.
inline constexpr std::string_view kSealBegin = "{\"xxh3_128\":\"";
inline constexpr std::string_view kSealEnd = "\",";
// On-disk: never renumber. A reader refuses every other version.
inline constexpr int kManifestVersion = 1;

[[noreturn]] void refuse_manifest(std::string what, const std::string& where);

// Valid UTF-8.
bool is_text(std::string_view bytes);
// The name of a tensor or section that can stand in messages and JSON: text without control characters, not too long.
bool is_plain_name(std::string_view name);

}  // namespace weft::checkpoint
