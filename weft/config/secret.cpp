#include "weft/config/secret.h"

#include <algorithm>

#include "weft/base/text.h"
#include "weft/config/lower.h"
#include "weft/config/setting.h"

namespace weft::config {
namespace {

// "api_key", "API-Key" and "apikey" are one key.
std::string bare(std::string_view key) {
  std::string out = lower(key);
  std::erase_if(out, [](char c) { return c == '_' || c == '-'; });
  return out;
}

std::vector<std::string> secret_keys() {
  std::vector<std::string> keys;
  for (const Setting& setting : settings()) {
    if (!setting.secret) continue;
    keys.push_back(bare(setting.key));
    for (const std::string_view alias : setting.aliases) keys.push_back(bare(alias));
  }
  return keys;
}

bool is_key_of_table(std::string_view key) {
  return std::ranges::any_of(settings(), [&](const Setting& setting) {
    return setting.key == key || std::ranges::find(setting.aliases, key) != setting.aliases.end();
  });
}

bool is_like_secret(std::string_view key) {
  static const std::vector<std::string> kKeys = secret_keys();
  const std::string word = bare(key);
  if (std::ranges::any_of(kKeys, [&](const std::string& secret) { return word.ends_with(secret); })) return true;
  return !is_key_of_table(key) && !nearest(word, kKeys).empty();
}

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

bool is_quote(char c) { return c == '"' || c == '\''; }

// Steps over a text of which nothing is known but that it is meant to be a config.
class SecretScanner {
 public:
  explicit SecretScanner(std::string_view text) : text_(text) {}

  std::vector<Span> secrets() {
    std::vector<Span> out;
    while (at_ < text_.size()) {
      const size_t begin = at_;
      while (is_word(peek())) ++at_;
      if (at_ == begin) {
        ++at_;
      } else if (is_like_secret(text_.substr(begin, at_ - begin))) {
        out.push_back(value(begin));
      }
    }
    return out;
  }

  // Whether it says `token: …` or `token=…`.
  bool gives_secret() {
    while (at_ < text_.size()) {
      const size_t begin = at_;
      while (is_word(peek())) ++at_;
      if (at_ == begin) {
        ++at_;
        continue;
      }
      const size_t end = at_;
      if (is_quote(peek())) ++at_;
      skip_blanks();
      const bool is_given = peek() == ':' || peek() == '=';
      at_ = end;
      if (is_given && is_like_secret(text_.substr(begin, end - begin))) return true;
    }
    return false;
  }

 private:
  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  bool at_end() const { return at_ >= text_.size(); }
  bool at_line_end() const { return at_end() || peek() == '\n' || peek() == '\r'; }

  void skip_blanks() {
    while (!at_end() && std::string_view(" \t\r\n").find(peek()) != std::string_view::npos) ++at_;
  }

  void skip_line() {
    while (!at_line_end()) ++at_;
  }

  void skip_comments() {
    for (skip_blanks(); peek() == '#' || (peek() == '/' && (peek(1) == '/' || peek(1) == '*')); skip_blanks()) {
      if (peek() == '/' && peek(1) == '*') {
        at_ = std::min(text_.find("*/", at_ + 2), text_.size() - 2) + 2;
      } else {
        skip_line();
      }
    }
  }

  // Requires: behind the key that begins at `key`. What looks like a comment is hidden too: a secret may begin with a '#'.
  Span value(size_t key) {
    if (is_quote(peek())) ++at_;
    skip_comments();
    if (peek() == ':' || peek() == '=') ++at_;
    skip_blanks();
    const size_t begin = at_;
    skip_comments();
    if (!take_brackets() && !take_quoted()) take_lines(indent_of(key));
    return {begin, at_};
  }

  // A list or an object, to the end of the text where it is not closed, or where a text in it is not.
  bool take_brackets() {
    if (peek() != '[' && peek() != '{') return false;
    int open = 0;
    while (!at_end()) {
      if (is_quote(peek())) {
        if (!take_quoted()) at_ = text_.size();
        continue;
      }
      if (peek() == '[' || peek() == '{') ++open;
      const bool closes = peek() == ']' || peek() == '}';
      ++at_;
      if (closes && --open == 0) break;
    }
    return true;
  }

  // False where its end cannot be told: then the closing quote may be that of another text.
  bool take_quoted() {
    const char quote = peek();
    if (!is_quote(quote)) return false;
    const size_t begin = at_;
    if (text_.substr(at_).starts_with("'''")) {
      at_ = std::min(text_.find("'''", at_ + 3), text_.size() - 3) + 3;
      return true;
    }
    for (++at_; !at_line_end() && peek() != quote; ++at_) {
      if (peek() == '\\') ++at_;
    }
    if (peek() == quote) {
      const size_t end = ++at_;
      while (peek() == ' ' || peek() == '\t') ++at_;
      const bool ends = at_line_end() || std::string_view(",}]#/").find(peek()) != std::string_view::npos;
      at_ = end;
      if (ends) return true;
    }
    at_ = begin;
    return false;
  }

  size_t indent_of(size_t at) const {
    const size_t start = text_.find_last_of("\r\n", at);
    const size_t line = start == std::string_view::npos ? 0 : start + 1;
    return text_.find_first_not_of(" \t", line) - line;
  }

  // The rest of the line, and what a block of YAML or an unclosed text may have below it.
  void take_lines(size_t indent) {
    for (skip_line(); !at_end(); skip_line()) {
      const size_t line_end = at_;
      skip_blanks();
      const bool is_item = peek() == '-' && (peek(1) == ' ' || peek(1) == '\n');
      if (!at_end() && !is_item && indent_of(at_) <= indent) {
        at_ = line_end;
        return;
      }
    }
  }

  std::string_view text_;
  size_t at_ = 0;
};

class SecretWalker {
 public:
  explicit SecretWalker(const Source& source) : source_(source) {}

  void walk(std::string_view section, const Value& value) {
    if (gives_secret(value)) secrets_.push_back(value.span);
    for (const Value& item : value.items) walk(".", item);
    for (const Member& member : value.members) {
      const std::string path = section.empty() ? member.key : cat(section, ".", member.key);
      if (is_secret(path, member.key) && member.value.kind != Kind::kNull) {
        secrets_.push_back(member.value.span);
      } else {
        walk(path, member.value);
      }
    }
  }

  std::vector<Span> take() && { return std::move(secrets_); }

 private:
  static bool is_secret(std::string_view path, std::string_view key) {
    if (const Setting* const setting = find_setting(path)) return setting->secret;
    return find_section(path) == nullptr && is_like_secret(key);
  }

  // An unquoted text runs to the end of its line: `True, "token": "…"` is one value. As it is written: where an alias stands for a text,
  // that was looked at where it is defined.
  bool gives_secret(const Value& value) const {
    return value.kind == Kind::kString && SecretScanner(source_.at(value.span)).gives_secret();
  }

  const Source& source_;
  std::vector<Span> secrets_;
};

}  // namespace

std::vector<Span> find_secrets(const Document& document) {
  SecretWalker walker(*document.source);
  walker.walk("", document.root);
  return std::move(walker).take();
}

std::vector<Span> find_secrets(const Source& source) { return SecretScanner(source.text()).secrets(); }

std::string cited(const Source& source, Span span, std::string_view text) {
  return std::string(overlaps(find_secrets(source), span) ? kNotShown : text);
}

bool overlaps(std::span<const Span> secrets, Span span) {
  return std::ranges::any_of(secrets, [&](Span secret) { return secret.begin < span.end && span.begin < secret.end; });
}

}  // namespace weft::config
