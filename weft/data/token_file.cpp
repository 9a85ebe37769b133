#include "weft/data/token_file.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "weft/base/check.h"
#include "weft/base/error.h"
#include "weft/base/text.h"

namespace weft::data {
namespace {

static_assert(std::endian::native == std::endian::little,
              "token files are mapped as they lie: little-endian hosts only");

Error unusable(std::string title, std::string what, const std::string& path, std::string fix) {
  return Error(ErrorKind::kInput,
               {.title = std::move(title), .what = std::move(what), .where = path, .fix = std::move(fix)});
}

std::string_view name_of(TokenType type) { return type == TokenType::kU16 ? "uint16" : "uint32"; }

TokenType decide_type(const std::string& path, std::optional<TokenType> told) {
  const auto named = token_type_of(path);
  if (!named && !told) {
    throw unusable("the type of the tokens is not known", "the name ends neither in .u16 nor in .u32", path,
                   "say uint16 or uint32, or rename the file");
  }
  if (named && told && *named != *told) {
    throw unusable("the name of the token file contradicts the type asked for",
                   cat("the name says ", name_of(*named), ", asked for is ", name_of(*told)), path,
                   "leave the type to the name, or rename the file");
  }
  return told ? *told : *named;
}

// A pipe would be waited on for ever, so the kind is looked at before the file is opened.
void check_is_file(Env& env, const std::string& path) {
  const auto info = env.stat(path);
  if (!info) throw unusable("the token file does not exist", "no such file", path, "check the path");
  if (info->kind == FileKind::kFile) return;
  throw unusable("the token file is not a file",
                 info->kind == FileKind::kFolder ? "it is a folder" : "it is a device or pipe", path,
                 "give a file of raw tokens");
}

void check_size(uint64_t bytes, TokenType type, const std::string& path) {
  if (bytes == 0) throw unusable("the token file is empty", "it has 0 bytes", path, "write the tokens again");
  const auto width = static_cast<uint64_t>(bytes_per_token(type));
  if (bytes % width == 0) return;
  throw unusable(
      "the token file does not hold whole tokens",
      cat(bytes, " bytes, and a ", name_of(type), " token takes ", width, ": ", bytes % width, " are left over"), path,
      "the file was cut short, has a header, or holds another type: write raw tokens again");
}

}  // namespace

int64_t bytes_per_token(TokenType type) { return type == TokenType::kU16 ? 2 : 4; }

std::optional<TokenType> token_type_of(std::string_view path) {
  if (path.ends_with(".u16")) return TokenType::kU16;
  if (path.ends_with(".u32")) return TokenType::kU32;
  return std::nullopt;
}

std::vector<std::string> token_paths(Env& env, const std::string& path) {
  const auto info = env.stat(path);
  if (!info || info->kind != FileKind::kFolder) return {path};
  std::vector<std::string> out;
  for (const auto& name : env.list(path)) {
    if (token_type_of(name) || name.ends_with(".bin")) out.push_back(cat(path, "/", name));
  }
  if (out.empty()) {
    throw unusable("the folder holds no token files", "no name ends in .u16, .u32 or .bin", path,
                   "give a folder of raw token files, or one such file");
  }
  return out;
}

Mapping::Mapping(const File& file, size_t bytes) : bytes_(bytes) {
  void* const at = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.fd(), 0);
  if (at == MAP_FAILED) throw IoError("map the token file", file.path(), errno);
  data_ = static_cast<std::byte*>(at);
}

Mapping::~Mapping() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

TokenFile::TokenFile(Env& env, const std::string& path, std::optional<TokenType> type)
    : type_(decide_type(path, type)) {
  check_is_file(env, path);
  file_ = env.open(path, OpenMode::kRead);
  const uint64_t bytes = file_->size();
  check_size(bytes, type_, path);
  mapping_ = Mapping(*file_, bytes);
  check_not_shrunk();  // mmap itself takes any length: a file that is being rewritten is found here, not by the first read
}

void TokenFile::check_not_shrunk() const {
  const uint64_t bytes = file_->size();
  if (bytes >= mapping_.bytes()) return;
  throw Error(ErrorKind::kEnvironment,
              {.title = "the token file has shrunk while it was in use",
               .what = cat(bytes, " bytes now, ", mapping_.bytes(), " when it was opened"),
               .where = path(),
               .fix = "restore the file and resume; replace such a file by renaming a new one over it"});
}

void TokenFile::check_below(int64_t vocab, std::span<const int64_t> tokens, int64_t offset) const {
  const auto found = std::ranges::find_if(tokens, [&](int64_t token) { return token >= vocab; });
  if (found == tokens.end()) return;
  throw unusable(
      "a token is outside the vocabulary",
      cat("token ", offset + (found - tokens.begin()), " of the file is ", *found, ", the vocabulary has ", vocab),
      path(), cat("set the vocabulary to that of the tokenizer; or the file is not ", name_of(type_)));
}

void TokenFile::read(int64_t offset, std::span<int64_t> out, int64_t vocab) const {
  const auto count = static_cast<int64_t>(out.size());
  WEFT_CHECK(offset >= 0 && offset <= size() && count <= size() - offset);
  check_not_shrunk();
  const std::byte* const at = mapping_.data() + offset * bytes_per_token(type_);
  if (type_ == TokenType::kU16) {
    std::copy_n(reinterpret_cast<const uint16_t*>(at), count, out.begin());
  } else {
    std::copy_n(reinterpret_cast<const uint32_t*>(at), count, out.begin());
  }
  if (vocab > 0) check_below(vocab, out, offset);
}

}  // namespace weft::data
