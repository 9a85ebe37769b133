#include "weft/data/token_windows.h"

#include <algorithm>
#include <numeric>

#include "weft/base/check.h"
#include "weft/base/error.h"
#include "weft/base/text.h"

namespace weft::data {
namespace {

void check_options(std::span<const std::string> paths, const TokenWindowOptions& options) {
  constexpr int64_t kMostSeq = int64_t{1} << 40;
  std::string what;
  if (paths.empty()) what = "no file is given";
  if (options.seq < 1 || options.seq > kMostSeq) {
    what = cat("the sequence is ", options.seq, " tokens long, it is 1 to ", kMostSeq);
  }
  if (options.vocab < 0) what = cat("the vocabulary is ", options.vocab, ", 0 (not checked) is the least");
  if (what.empty()) return;
  throw Error(ErrorKind::kInput,
              {.title = "token files cannot be cut into samples like this",
               .what = what,
               .where = paths.empty() ? "" : paths.front(),
               .fix = "give one file or more, a sequence length, and the tokenizer's vocabulary or 0"});
}

}  // namespace

TokenWindows::TokenWindows(Env& env, std::span<const std::string> paths, const TokenWindowOptions& options)
    : options_(options), first_window_{0} {
  check_options(paths, options);
  for (const auto& path : paths) {
    const TokenFile& file = files_.emplace_back(env, path, options.type);
    first_window_.push_back(first_window_.back() + (file.size() - 1) / options.seq);
  }
  check_not_empty();
}

int64_t TokenWindows::num_tokens() const {
  return std::accumulate(files_.begin(), files_.end(), int64_t{0},
                         [](int64_t sum, const TokenFile& file) { return sum + file.size(); });
}

void TokenWindows::check_not_empty() const {
  if (size() > 0) return;
  throw Error(ErrorKind::kInput,
              {.title = "the token files are shorter than one sequence",
               .what = cat(num_tokens(), " tokens in ", files_.size(), files_.size() == 1 ? " file" : " files",
                           "; one sequence and its target take ", seq() + 1, " of one file"),
               .where = files_.front().path(),
               .fix = "give longer files, or a shorter sequence"});
}

void TokenWindows::read(int64_t window, std::span<int64_t> out) const {
  WEFT_CHECK(window >= 0 && window < size());
  WEFT_CHECK_EQ(static_cast<int64_t>(out.size()) - 1, seq());
  // The last file that starts at or before the window; files without a window start where the next one does.
  const auto after = std::ranges::upper_bound(first_window_, window);
  const auto file = static_cast<size_t>(after - first_window_.begin()) - 1;
  files_[file].read((window - first_window_[file]) * seq(), out, options_.vocab);
}

}  // namespace weft::data
