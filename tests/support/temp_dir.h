// A folder that lives as long as this object: made under $TMPDIR (else /tmp), removed with all it holds. With
// WEFT_KEEP_TMP set it stays, and its path is printed, to look at what a failing test left there.
//
// Threads: path() from any. Failure: throws std::system_error when the folder cannot be made; a removal that fails is
// printed and does not fail the test.
#pragma once

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace weft::test {

class TempDir {
 public:
  TempDir() : path_(make()) {}
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir() {
    if (std::getenv("WEFT_KEEP_TMP") != nullptr) {
      std::fprintf(stderr, "kept %s\n", path_.c_str());
      return;
    }
    std::error_code error;
    std::filesystem::remove_all(path_, error);
    if (error) std::fprintf(stderr, "cannot remove %s: %s\n", path_.c_str(), error.message().c_str());
  }

  const std::filesystem::path& path() const { return path_; }
  // The path of something inside.
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  static std::filesystem::path make() {
    const char* base = std::getenv("TMPDIR");
    std::string name = std::string(base == nullptr || *base == '\0' ? "/tmp" : base) + "/weft-test-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) throw std::system_error(errno, std::generic_category(), "mkdtemp " + name);
    return name;
  }

  const std::filesystem::path path_;
};

}  // namespace weft::test
