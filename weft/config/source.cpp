#include "weft/config/source.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "weft/base/text.h"
#include "weft/base/units.h"
#include "weft/base/utf8.h"

namespace weft::config {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr size_t kMaxNamesShown = 5;

// The starts of lines as Python's text mode splits them: \n, \r\n and a lone \r.
std::vector<size_t> find_lines(std::string_view text) {
  std::vector<size_t> starts{0};
  for (size_t at = text.find_first_of("\r\n"); at != std::string_view::npos; at = text.find_first_of("\r\n", at)) {
    at += text.substr(at).starts_with("\r\n") ? 2 : 1;
    starts.push_back(at);
  }
  return starts;
}

ErrorText error_text(const Source& source, Span span, const Words& message, const Words& fix) {
  return {.title = "the config cannot be read",
          .what = message.en,
          .where = source.text().empty() ? source.name() : source.where(span),
          .fix = fix.en};
}

// About the file as a whole, of which nothing was read.
[[noreturn]] void refuse(std::string rule, const std::string& path, Words message, Words fix) {
  throw ReadError(std::move(rule), std::make_shared<Source>(path, ""), {}, std::move(message), std::move(fix));
}

[[noreturn]] void refuse_size(const std::string& path, uint64_t bytes) {
  const std::string size = format_bytes(bytes), limit = format_bytes(kMaxSourceBytes);
  refuse("syntax/too-large", path,
         {cat("the file has ", size, "; a config is a page or two, and more than ", limit, " is not read"),
          cat("文件大小为 ", size, "；配置文件通常只有一两页，超过 ", limit, " 的文件不会读取")},
         {"check the path: this may be a checkpoint or a log", "请检查路径：这可能是检查点或日志文件"});
}

bool names_config(const std::string& name) {
  return name.ends_with(".json") || name.ends_with(".hjson") || name.ends_with(".yaml") || name.ends_with(".yml");
}

std::vector<std::string> names_in(Env& env, const std::string& folder) {
  try {
    return env.list(folder);
  } catch (const IoError&) {
    return {};  // only for a hint
  }
}

[[noreturn]] void refuse_folder(Env& env, const std::string& path) {
  std::vector<std::string> names = names_in(env, path);
  std::erase_if(names, [](const std::string& name) { return !names_config(name); });
  names.resize(std::min(names.size(), kMaxNamesShown));
  Words fix{"give the path of a config file", "请给出配置文件的路径"};
  if (!names.empty()) {
    fix = {cat("give one of the files in it: ", join(names, ", ")), cat("请指定其中的一个文件：", join(names, "、"))};
  }
  refuse("syntax/directory", path, {"this is a folder, not a config file", "这是一个文件夹，而不是配置文件"},
         std::move(fix));
}

[[noreturn]] void refuse_missing(Env& env, const std::string& path) {
  const std::string folder = folder_of(path);
  const std::string name = path.substr(path.rfind('/') + 1);
  const std::string meant = nearest(name, names_in(env, folder));
  Words fix{"check the spelling, and the folder you are in", "请检查拼写以及当前所在的文件夹"};
  if (!meant.empty()) {
    const std::string near = path.substr(0, path.size() - name.size()) + meant;
    fix = {cat("did you mean ", near, "?"), cat("您是否想用 ", near, "？")};
  }
  refuse("syntax/missing-file", path, {"the file does not exist", "文件不存在"}, std::move(fix));
}

// A name that is too long, or leads through a file, is no file either: the text may be base64.
std::optional<FileInfo> look_up(Env& env, const std::string& path) {
  try {
    return env.stat(path);
  } catch (const IoError& error) {
    if (error.code() == ENAMETOOLONG || error.code() == ENOTDIR) return std::nullopt;
    throw;
  }
}

std::string_view wide_encoding(std::string_view text) {
  if (text.starts_with(std::string_view("\xFF\xFE\0\0", 4))) return "UTF-32";
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF")) return "UTF-16";
  return "";
}

std::optional<size_t> first_bad_byte(std::string_view text) {
  for (std::string_view rest = text; !rest.empty();) {
    const size_t at = text.size() - rest.size();
    if (!take_code_point(rest).valid) return at;
  }
  return std::nullopt;
}

void check_encoding(const SourcePtr& source) {
  const std::string_view text = source->text();
  const Words save{"save the file as UTF-8", "请将文件另存为 UTF-8 编码"};
  if (const std::string_view encoding = wide_encoding(text); !encoding.empty()) {
    throw ReadError("syntax/encoding", source, {0, 2},
                    {cat("the file is ", encoding, ", not UTF-8"), cat("文件是 ", encoding, " 编码，不是 UTF-8")},
                    save);
  }
  if (const size_t at = text.find('\0'); at != std::string_view::npos) {
    throw ReadError("syntax/binary", source, {at, at + 1},
                    {"the file holds a NUL byte: it is not text", "文件中有 NUL 字节：这不是文本文件"},
                    {"check the path: a config is text", "请检查路径：配置文件应为文本"});
  }
  if (const auto at = first_bad_byte(text)) {
    throw ReadError("syntax/encoding", source, {*at, *at + 1}, {"this byte is not UTF-8", "此处的字节不是合法的 UTF-8"},
                    {"save the file as UTF-8 (from GBK: iconv -f GBK -t UTF-8)",
                     "请将文件另存为 UTF-8 编码（GBK 文件可用 iconv -f GBK -t UTF-8 转换）"});
  }
}

}  // namespace

Source::Source(std::string name, std::string text)
    : name_(std::move(name)), text_(std::move(text)), line_starts_(find_lines(text_)) {}

std::string Source::brief(Span span) const {
  constexpr int kMostCharacters = 40;
  std::string out;
  std::string_view rest = at(span);
  for (int count = 0; !rest.empty(); ++count) {
    if (count == kMostCharacters) return out + "…";
    const CodePoint next = take_code_point(rest);
    const bool blank = is_control(next.value);
    if (!blank) out += next.bytes;
    if (blank && !out.ends_with(' ')) out += ' ';
  }
  return out;
}

Place Source::place(size_t offset) const {
  const auto after = std::ranges::upper_bound(line_starts_, offset);
  const size_t start = *(after - 1);
  std::string_view before = at({start, std::min(offset, text_.size())});
  // Editors do not show the mark, nor count it.
  if (start == 0 && before.starts_with(kByteOrderMark)) before.remove_prefix(kByteOrderMark.size());
  Place place{static_cast<int>(after - line_starts_.begin()), 1};
  for (; !before.empty(); ++place.column) take_code_point(before);
  return place;
}

std::string_view Source::line(int number) const {
  const auto index = static_cast<size_t>(number - 1);
  const size_t end = index + 1 < line_starts_.size() ? line_starts_[index + 1] : text_.size();
  const std::string_view whole = at({line_starts_[index], end});
  return whole.substr(0, whole.find_first_of("\r\n"));
}

std::string Source::where(Span span) const {
  const Place start = place(span.begin);
  return cat(name_, ":", start.line, ":", start.column);
}

ReadError::ReadError(std::string rule, SourcePtr source, Span span, Words message, Words fix)
    : Error(ErrorKind::kInput, error_text(*source, span, message, fix)),
      rule_(std::move(rule)),
      source_(std::move(source)),
      span_(span),
      message_(std::move(message)),
      fix_(std::move(fix)) {}

SourcePtr read_source(Env& env, const std::string& path) {
  const auto info = look_up(env, path);
  if (!info) refuse_missing(env, path);
  if (info->kind == FileKind::kFolder) refuse_folder(env, path);
  if (info->kind == FileKind::kOther) {
    refuse("syntax/directory", path,
           {"this is a device or a pipe, not a config file", "这是设备或管道，而不是配置文件"},
           {"write the config to a file first", "请先将配置写入文件"});
  }
  if (info->bytes > kMaxSourceBytes) refuse_size(path, info->bytes);
  return checked_source(path, read_file(env, path, kMaxSourceBytes));
}

SourcePtr checked_source(std::string name, std::string text) {
  if (text.size() > kMaxSourceBytes) refuse_size(name, text.size());
  auto source = std::make_shared<const Source>(std::move(name), std::move(text));
  check_encoding(source);
  return source;
}

bool deepspeed_refuses(const ReadError& error) {
  constexpr std::string_view kBoth[] = {"syntax/hjson",  "syntax/duplicate-key", "syntax/root",
                                        "syntax/binary", "syntax/encoding",      "syntax/directory"};
  return std::find(std::begin(kBoth), std::end(kBoth), error.rule()) != std::end(kBoth);
}

}  // namespace weft::config
