// The one error type: it says what happened, where, and what to do about it, and knows the exit code it deserves.
//
//   throw Error(ErrorKind::kInput, {.title = "the corpus is shorter than one sequence",
//                                   .what = cat("12 tokens, one sequence takes ", seq + 1),
//                                   .where = path,
//                                   .fix = "give a longer text, or a smaller --seq"});
//
// Threads: a value like any other. Failure: building one allocates and may throw std::bad_alloc, nothing else.
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace weft {

enum class ErrorKind {
  kInput,        // the user's flags, files or environment: exit code 2
  kEnvironment,  // the world failed us (disk full, peer lost, deadline): exit code 1
  kBug,          // we failed: exit code 1
};

struct ErrorText {
  std::string title;  // one line, no full stop
  std::string what;   // the values that prove it; may be empty
  std::string where;  // file:line, path, rank; may be empty
  std::string fix;    // the command or change that helps; may be empty
};

class Error : public std::exception {
 public:
  Error(ErrorKind kind, ErrorText text);

  // The whole message, several lines: "error: title", then what/where/do, each only if there is one.
  const char* what() const noexcept override { return message_.c_str(); }

  ErrorKind kind() const { return kind_; }
  const ErrorText& text() const { return text_; }
  int exit_code() const { return kind_ == ErrorKind::kInput ? 2 : 1; }

 private:
  ErrorKind kind_;
  ErrorText text_;
  std::string message_;
};

// A system call said no. `code` is its errno; the text already spells it out.
class IoError : public Error {
 public:
  // `doing` completes "cannot ...": "write the report". The fix follows from the errno where one is known.
  IoError(std::string_view doing, std::string_view path, int code);
  int code() const { return code_; }

 private:
  int code_;
};

// A value or the Error that explains its absence, for places where failure is ordinary (parse, probe, open).
template <typename T>
class [[nodiscard]] Result {
 public:
  // Implicit, so that a function can return either.
  Result(T value) : state_(std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : state_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return std::holds_alternative<T>(state_); }
  explicit operator bool() const { return ok(); }

  // Requires: !ok().
  const Error& error() const { return std::get<Error>(state_); }
  // The value, or throws the error.
  T& value() & {
    if (!ok()) throw Error(error());
    return std::get<T>(state_);
  }
  T&& value() && { return std::move(value()); }

 private:
  std::variant<T, Error> state_;
};

}  // namespace weft
