#include "weft/data/token_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"
#include "weft/base/aio.h"
#include "weft/data/test_refusal_impl.h"

namespace weft::data {
namespace {

template <typename Token>
void write_tokens(const std::string& path, const std::vector<Token>& tokens) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(tokens.data()), static_cast<std::streamsize>(tokens.size() * sizeof(Token)));
}

void write_bytes(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

std::vector<int64_t> tokens_of(const TokenFile& file, int64_t offset, size_t count, int64_t vocab = 0) {
  std::vector<int64_t> out(count);
  file.read(offset, out, vocab);
  return out;
}

TEST(TokenFile, ReadsWhatItsNameSays) {
  const test::TempDir dir;
  write_tokens<uint16_t>(dir / "a.u16", {0, 1, 0x1234, 65535});
  write_tokens<uint32_t>(dir / "a.u32", {7, 65536, 4294967295});
  const TokenFile narrow(Env::posix(), dir / "a.u16");
  const TokenFile wide(Env::posix(), dir / "a.u32");
  EXPECT_EQ(narrow.size(), 4);
  EXPECT_EQ(tokens_of(narrow, 0, 4), (std::vector<int64_t>{0, 1, 0x1234, 65535}));
  EXPECT_EQ(tokens_of(narrow, 3, 1), std::vector<int64_t>{65535});
  EXPECT_EQ(tokens_of(narrow, 4, 0), std::vector<int64_t>{});
  EXPECT_EQ(wide.size(), 3);
  EXPECT_EQ(tokens_of(wide, 1, 2), (std::vector<int64_t>{65536, 4294967295}));
}

TEST(TokenFile, BytesAreLittleEndian) {
  const test::TempDir dir;
  write_bytes(dir / "a.u16", std::string("\x34\x12", 2));
  EXPECT_EQ(tokens_of(TokenFile(Env::posix(), dir / "a.u16"), 0, 1), std::vector<int64_t>{0x1234});
}

TEST(TokenFile, TheTypeCanBeToldWhereTheNameIsSilent) {
  const test::TempDir dir;
  write_tokens<uint32_t>(dir / "a.bin", {70000, 1});
  EXPECT_EQ(TokenFile(Env::posix(), dir / "a.bin", TokenType::kU32).size(), 2);
  EXPECT_EQ(TokenFile(Env::posix(), dir / "a.bin", TokenType::kU16).size(), 4);
  EXPECT_EQ(refusal_of([&] { TokenFile(Env::posix(), dir / "a.bin"); }).title, "the type of the tokens is not known");
  write_tokens<uint16_t>(dir / "b.u16", {1, 2});
  EXPECT_EQ(refusal_of([&] { TokenFile(Env::posix(), dir / "b.u16", TokenType::kU32); }).what,
            "the name says uint16, asked for is uint32");
}

TEST(TokenFile, SaysWhatIsWrongWithTheFile) {
  const test::TempDir dir;
  write_bytes(dir / "empty.u16", "");
  write_bytes(dir / "odd.u16", "abc");
  write_bytes(dir / "odd.u32", "abcdef");
  std::filesystem::create_directories(dir / "folder.u16");
  ASSERT_EQ(::mkfifo((dir / "pipe.u16").c_str(), 0600), 0);
  const std::array<std::string, 3> cases[] = {
      {"missing.u16", "the token file does not exist", "no such file"},
      {"empty.u16", "the token file is empty", "it has 0 bytes"},
      {"odd.u16", "the token file does not hold whole tokens", "3 bytes, and a uint16 token takes 2: 1 are left over"},
      {"odd.u32", "the token file does not hold whole tokens", "6 bytes, and a uint32 token takes 4: 2 are left over"},
      {"folder.u16", "the token file is not a file", "it is a folder"},
      {"pipe.u16", "the token file is not a file", "it is a device or pipe"},
  };
  for (const auto& [name, title, what] : cases) {
    const ErrorText text = refusal_of([&] { TokenFile(Env::posix(), dir / name); });
    EXPECT_EQ(text.title, title) << name;
    EXPECT_EQ(text.what, what) << name;
    EXPECT_EQ(text.where, dir / name);
    EXPECT_FALSE(text.fix.empty()) << name;
  }
}

TEST(TokenFile, ATokenOutsideTheVocabularyIsNamedWithItsPlace) {
  const test::TempDir dir;
  write_tokens<uint16_t>(dir / "a.u16", {1, 99, 100, 2});
  const TokenFile file(Env::posix(), dir / "a.u16");
  EXPECT_EQ(tokens_of(file, 0, 2, 100), (std::vector<int64_t>{1, 99}));
  EXPECT_EQ(tokens_of(file, 0, 4), (std::vector<int64_t>{1, 99, 100, 2}));
  const ErrorText text = refusal_of([&] { tokens_of(file, 1, 3, 100); });
  EXPECT_EQ(text.title, "a token is outside the vocabulary");
  EXPECT_EQ(text.what, "token 2 of the file is 100, the vocabulary has 100");
  EXPECT_EQ(text.where, dir / "a.u16");
}

TEST(TokenFile, AShrunkFileIsAnErrorAndNotASignal) {
  const test::TempDir dir;
  write_tokens<uint16_t>(dir / "a.u16", std::vector<uint16_t>(100'000, 7));
  const TokenFile file(Env::posix(), dir / "a.u16");
  EXPECT_EQ(tokens_of(file, 99'999, 1), std::vector<int64_t>{7});
  std::filesystem::resize_file(dir / "a.u16", 10);
  const ErrorText text = refusal_of([&] { tokens_of(file, 99'999, 1); }, 1);
  EXPECT_EQ(text.title, "the token file has shrunk while it was in use");
  EXPECT_EQ(text.what, "10 bytes now, 200000 when it was opened");
}

// A disk on which the file shrinks at the moment after its size was asked for.
class ShrinkingFile : public File {
 public:
  explicit ShrinkingFile(std::unique_ptr<File> file) : File(file->path()), file_(std::move(file)) {}
  size_t read_at(uint64_t offset, std::span<std::byte> into) override { return file_->read_at(offset, into); }
  void write_at(uint64_t offset, std::span<const std::byte> bytes) override { file_->write_at(offset, bytes); }
  void sync() override { file_->sync(); }
  uint64_t size() override {
    const uint64_t before = file_->size();
    std::filesystem::resize_file(path(), 2);
    return before;
  }
  void truncate(uint64_t bytes) override { file_->truncate(bytes); }
  int fd() const override { return file_->fd(); }

 private:
  std::unique_ptr<File> file_;
};

class ShrinkingEnv : public Env {
 public:
  std::unique_ptr<File> open(const std::string& path, OpenMode mode) override {
    return std::make_unique<ShrinkingFile>(real_.open(path, mode));
  }
  std::optional<FileInfo> stat(const std::string& path) override { return real_.stat(path); }
  std::vector<std::string> list(const std::string& folder) override { return real_.list(folder); }
  void make_folders(const std::string& path) override { real_.make_folders(path); }
  void rename(const std::string& from, const std::string& to) override { real_.rename(from, to); }
  void remove_file(const std::string& path) override { real_.remove_file(path); }
  void remove_folder(const std::string& path) override { real_.remove_folder(path); }
  void sync_folder(const std::string& path) override { real_.sync_folder(path); }
  uint64_t free_bytes(const std::string& path) override { return real_.free_bytes(path); }
  std::unique_ptr<AsyncIo> async_io(const AsyncOptions& options) override { return real_.async_io(options); }

 private:
  Env& real_ = Env::posix();
};

TEST(TokenFile, AFileThatShrinksWhileItIsOpenedIsRefused) {
  const test::TempDir dir;
  write_tokens<uint16_t>(dir / "a.u16", std::vector<uint16_t>(100, 7));
  ShrinkingEnv env;
  const ErrorText text = refusal_of([&] { TokenFile(env, dir / "a.u16"); }, 1);
  EXPECT_EQ(text.what, "2 bytes now, 200 when it was opened");
}

TEST(TokenFile, RemovingTheNameDoesNoHarm) {
  const test::TempDir dir;
  write_tokens<uint16_t>(dir / "a.u16", {5, 6});
  const TokenFile file(Env::posix(), dir / "a.u16");
  std::filesystem::remove(dir / "a.u16");
  EXPECT_EQ(tokens_of(file, 0, 2), (std::vector<int64_t>{5, 6}));
}

TEST(TokenFile, OffsetsPastFourGibibytes) {
  const test::TempDir dir;
  constexpr int64_t kTokens = (int64_t{5} << 30) / 2;
  write_tokens<uint16_t>(dir / "a.u16", {1});
  std::filesystem::resize_file(dir / "a.u16", kTokens * 2 - 2);  // a hole: takes no room on the disk
  std::ofstream(dir / "a.u16", std::ios::binary | std::ios::app) << std::string("\xCD\xAB", 2);
  const TokenFile file(Env::posix(), dir / "a.u16");
  EXPECT_EQ(file.size(), kTokens);
  EXPECT_EQ(tokens_of(file, kTokens - 2, 2), (std::vector<int64_t>{0, 0xABCD}));
  EXPECT_EQ(tokens_of(file, 0, 1), std::vector<int64_t>{1});
}

TEST(TokenFile, CanBeMoved) {
  const test::TempDir dir;
  write_tokens<uint16_t>(dir / "a.u16", {5, 6});
  TokenFile first(Env::posix(), dir / "a.u16");
  const TokenFile second(std::move(first));
  EXPECT_EQ(tokens_of(second, 1, 1), std::vector<int64_t>{6});
}

TEST(TokenPaths, AFolderIsItsTokenFilesByName) {
  const test::TempDir dir;
  for (const std::string name : {"b.u16", "a.u16", "c.bin", "d.u32", "notes.txt"}) write_bytes(dir / name, "1234");
  EXPECT_EQ(token_paths(Env::posix(), dir.path().string()),
            (std::vector<std::string>{dir / "a.u16", dir / "b.u16", dir / "c.bin", dir / "d.u32"}));
  EXPECT_EQ(token_paths(Env::posix(), dir / "notes.txt"), std::vector<std::string>{dir / "notes.txt"});
  std::filesystem::create_directories(dir / "empty");
  EXPECT_EQ(refusal_of([&] { token_paths(Env::posix(), dir / "empty"); }).title, "the folder holds no token files");
}

}  // namespace
}  // namespace weft::data
