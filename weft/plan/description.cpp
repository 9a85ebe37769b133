#include <algorithm>
#include <charconv>
#include <utility>

#include "weft/base/text.h"
#include "weft/plan/description_impl.h"

namespace weft::plan {
namespace {

constexpr std::string_view kMagic = "weft plan ";
constexpr std::string_view kEnd = "end";
// Above what kMaxParameters with names of ordinary length make; a peer cannot have us hold more.
constexpr size_t kMaxTextBytes = 268'435'456;
constexpr size_t kMaxSettings = 1024, kMaxShown = 60;
constexpr int64_t kMaxPadded = 2 * kMaxElements;

std::string_view word_of(bool frozen) { return frozen ? "frozen" : "trainable"; }

std::string compact_shape(const std::vector<int64_t>& shape) {
  std::string out = "[";
  for (const int64_t dimension : shape) out += cat(out.size() > 1 ? "," : "", dimension);
  return out + "]";
}

// The lines of a text and the words of a line; every refusal names the line.
class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  void next_line() {
    ++line_;
    const size_t end = rest_.find('\n');
    if (end == std::string_view::npos) refuse("the text ends too early");
    words_ = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
  }
  bool take(std::string_view prefix) {
    if (!words_.starts_with(prefix)) return false;
    words_.remove_prefix(prefix.size());
    return true;
  }
  std::string_view word() {
    const size_t end = std::min(words_.find(' '), words_.size());
    const std::string_view out = words_.substr(0, end);
    words_.remove_prefix(std::min(end + 1, words_.size()));
    if (out.empty()) refuse("a word is missing");
    return out;
  }
  std::string_view remainder() { return std::exchange(words_, {}); }
  bool at_line_end() const { return words_.empty(); }
  bool at_end() const { return rest_.empty(); }
  void expect_line_end() const {
    if (!at_line_end()) refuse(cat("there is more than expected: ", shown(words_)));
  }

  int64_t number(std::string_view text, int64_t high) const {
    int64_t value = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || code != std::errc() || end != text.data() + text.size() || value < 0 || value > high)
      refuse(cat(shown(text), " is not a whole number from 0 to ", high));
    return value;
  }
  int64_t number(int64_t high) { return number(word(), high); }

  [[noreturn]] void refuse(std::string_view why) const {
    throw Error(ErrorKind::kInput, {.title = "not the description of a plan",
                                    .what = cat("line ", line_, ": ", why),
                                    .where = "",
                                    .fix = "run the same version of weft on every rank"});
  }
  // Foreign bytes in a message: short, and printable.
  static std::string shown(std::string_view text) {
    std::string out = "'";
    for (const char c : text.substr(0, kMaxShown)) out += c >= ' ' && c <= '~' ? c : '?';
    return out + (text.size() > kMaxShown ? "...'" : "'");
  }

 private:
  std::string_view rest_, words_;
  int line_ = 0;
};

Dtype read_dtype(Reader& in) {
  const std::string_view name = in.word();
  const auto dtype = dtype_named(name);
  if (!dtype) in.refuse(cat(Reader::shown(name), " is no type"));
  return *dtype;
}

bool read_frozen(Reader& in) {
  const std::string_view word = in.word();
  if (word != word_of(true) && word != word_of(false))
    in.refuse(cat(Reader::shown(word), " is not frozen or trainable"));
  return word == word_of(true);
}

std::vector<int64_t> read_shape(Reader& in) {
  std::string_view text = in.word();
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') in.refuse(cat(Reader::shown(text), " is no shape"));
  text = text.substr(1, text.size() - 2);
  std::vector<int64_t> shape;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    shape.push_back(in.number(text.substr(0, comma), INT64_MAX));
    if (shape.size() > kMaxDimensions || comma + 1 == text.size()) in.refuse(cat(Reader::shown(text), " is no shape"));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  if (!elements_of(shape)) in.refuse(cat("shape ", shape_text(shape), " has too many elements"));
  return shape;
}

SharedSetting read_setting(Reader& in) {
  const std::string_view name = in.word(), value = in.remainder();
  if (!is_setting_name(name) || !is_one_line(value)) in.refuse(cat(Reader::shown(name), " is no setting"));
  return {std::string(name), std::string(value)};
}

Parameter read_parameter(Reader& in) {
  Parameter out{.name = {}, .dtype = read_dtype(in), .frozen = read_frozen(in)};
  const std::string_view tie = in.word();
  if (tie != "-") out.tied_to = static_cast<int>(in.number(tie, kMaxParameters));
  out.shape = read_shape(in);
  out.name = std::string(in.remainder());
  if (out.name.size() > kMaxNameBytes || !is_one_line(out.name)) in.refuse("a name that cannot be printed");
  return out;
}

std::vector<int> read_order(Reader& in) {
  std::vector<int> order;
  while (!in.at_line_end()) {
    order.push_back(static_cast<int>(in.number(kMaxParameters)));
    if (order.size() > kMaxParameters) in.refuse("too many gradients");
  }
  return order;
}

BucketExtent read_bucket(Reader& in) {
  BucketExtent out{.dtype = read_dtype(in), .frozen = read_frozen(in)};
  out.num_parameters = in.number(kMaxParameters);
  out.num_elements = in.number(kMaxPadded);
  in.expect_line_end();
  return out;
}

void read_first_line(Reader& in) {
  in.next_line();
  if (!in.take(kMagic)) in.refuse(cat("it does not begin with '", kMagic, kDescriptionVersion, "'"));
  const int64_t version = in.number(INT64_MAX);
  if (version != kDescriptionVersion)
    in.refuse(cat("version ", version, ", this weft reads version ", kDescriptionVersion));
  in.expect_line_end();
}

// Lines of one kind follow each other; the first of another kind ends them.
template <typename Item, typename Read>
void read_list(Reader& in, std::string_view prefix, size_t limit, std::vector<Item>& out, Read read) {
  for (; in.take(prefix); in.next_line()) {
    out.push_back(read(in));
    if (out.size() > limit) in.refuse(cat("more than ", limit, " lines of this kind"));
  }
}

Description read_all(std::string_view text) {
  Reader in(text);
  if (text.size() > kMaxTextBytes)
    in.refuse(cat("it has ", text.size(), " bytes, at most ", kMaxTextBytes, " are read"));
  Description out;
  read_first_line(in);
  in.next_line();
  read_list(in, "setting ", kMaxSettings, out.settings, read_setting);
  read_list(in, "parameter ", kMaxParameters, out.parameters, read_parameter);
  if (!in.take("order ")) in.refuse(cat("not a line that belongs here: ", Reader::shown(in.remainder())));
  out.ready_order = read_order(in);
  in.next_line();
  read_list(in, "bucket ", kMaxParameters, out.buckets, read_bucket);
  if (!in.take(kEnd) || !in.at_line_end())
    in.refuse(cat("not a line that belongs here: ", Reader::shown(in.remainder())));
  if (!in.at_end()) in.refuse("there is more after the end");
  return out;
}

}  // namespace

bool is_setting_name(std::string_view name) {
  return !name.empty() && is_one_line(name) && name.find(' ') == std::string_view::npos;
}

DescriptionParts parts_of(const Description& description) {
  DescriptionParts out;
  for (const auto& [name, value] : description.settings) out.settings += cat("setting ", name, " ", value, "\n");
  for (const Parameter& one : description.parameters)
    out.parameters += cat("parameter ", name_of(one.dtype), " ", word_of(one.frozen), " ",
                          one.tied_to ? cat(*one.tied_to) : "-", " ", compact_shape(one.shape), " ", one.name, "\n");
  out.ready_order = "order ";
  for (const int parameter : description.ready_order)
    out.ready_order += cat(out.ready_order.size() > 6 ? " " : "", parameter);
  out.ready_order += '\n';
  for (const BucketExtent& one : description.buckets)
    out.buckets += cat("bucket ", name_of(one.dtype), " ", word_of(one.frozen), " ", one.num_parameters, " ",
                       one.num_elements, "\n");
  return out;
}

std::string to_text(const Description& description) {
  const DescriptionParts parts = parts_of(description);
  return cat(kMagic, kDescriptionVersion, "\n", parts.settings, parts.parameters, parts.ready_order, parts.buckets,
             kEnd, "\n");
}

Result<Description> read_description(std::string_view text) {
  try {
    return read_all(text);
  } catch (const Error& error) {
    return error;
  }
}

}  // namespace weft::plan
