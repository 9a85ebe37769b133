#include "weft/base/error.h"

#include <cerrno>
#include <cstring>

#include "weft/base/text.h"

namespace weft {
namespace {

// Continuation lines line up under the first, so that a long "what" stays readable.
void add_field(std::string& out, std::string_view label, std::string_view body) {
  if (body.empty()) return;
  out += label;
  for (const char c : body) {
    out += c;
    if (c == '\n') out += "         ";
  }
  out += '\n';
}

std::string render(const ErrorText& text) {
  std::string out = cat("error: ", text.title, "\n");
  add_field(out, "  what:  ", text.what);
  add_field(out, "  where: ", text.where);
  add_field(out, "  do:    ", text.fix);
  out.pop_back();
  return out;
}

std::string fix_for(int code, std::string_view path) {
  switch (code) {
    case ENOSPC:
    case EDQUOT: return cat("free some space there (df -h ", path, "), or choose another folder");
    case EACCES:
    case EPERM:
    case EROFS: return cat("check who may use it: ls -ld ", path);
    case ENOENT: return "check the spelling; the path must exist";
    case EMFILE:
    case ENFILE: return "raise the limit of open files: ulimit -n 65536";
    case EIO: return "the device reported a fault: see dmesg, and do not trust this disk";
    default: return "";
  }
}

// The user chose the path in these cases; in the others the machine failed.
ErrorKind kind_for(int code) {
  const bool theirs = code == ENOENT || code == EACCES || code == EISDIR || code == ENOTDIR || code == ENAMETOOLONG;
  return theirs ? ErrorKind::kInput : ErrorKind::kEnvironment;
}

}  // namespace

Error::Error(ErrorKind kind, ErrorText text) : kind_(kind), text_(std::move(text)), message_(render(text_)) {}

IoError::IoError(std::string_view doing, std::string_view path, int code)
    : Error(kind_for(code), {.title = cat("cannot ", doing),
                             .what = std::strerror(code),
                             .where = std::string(path),
                             .fix = fix_for(code, path)}),
      code_(code) {}

}  // namespace weft
