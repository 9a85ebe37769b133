// For this room's tests: reading what is a file for the reader and a text here, and what is refused.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "weft/config/reading.h"

namespace weft::config {

inline SourcePtr source_of(const std::string& text) { return std::make_shared<const Source>("f", text); }

// The config "ds.json" of this text.
inline Reading read_text(const std::string& text, Facts facts = {}, std::optional<Version> version = {}) {
  return read_config(parse_document(checked_source("ds.json", text)), std::move(facts), version);
}

inline std::optional<ReadError> read_error_of(const std::function<void()>& read) {
  try {
    read();
  } catch (const ReadError& error) {
    return error;
  }
  return std::nullopt;
}

// `message` and `fix` are parts of what is said in English.
inline void expect_refused(const std::function<void()>& read, const std::string& rule, const std::string& message,
                           const std::string& fix = "") {
  const auto error = read_error_of(read);
  ASSERT_TRUE(error) << rule << ": " << message;
  EXPECT_EQ(error->rule(), rule) << error->what();
  EXPECT_EQ(error->exit_code(), 2);
  EXPECT_NE(error->message().en.find(message), std::string::npos) << error->what();
  EXPECT_NE(error->fix().en.find(fix), std::string::npos) << error->what();
  EXPECT_FALSE(error->message().zh.empty());
}

struct AcceptedText {
  std::string text, json;
};

struct RefusedText {
  std::string text, rule;
  Place place;
  std::string message, fix = {};
};

inline void expect_refused(const std::function<void(const std::string&)>& read, const RefusedText& refused) {
  SCOPED_TRACE(refused.text);
  const auto parse = [&] { read(refused.text); };
  expect_refused(parse, refused.rule, refused.message, refused.fix);
  if (const auto error = read_error_of(parse)) {
    EXPECT_EQ(error->source()->place(error->span().begin), refused.place) << error->what();
  }
}

}  // namespace weft::config
