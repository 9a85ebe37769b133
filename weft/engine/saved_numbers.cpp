#include "weft/engine/saved_numbers.h"

#include <charconv>
#include <map>
#include <optional>

#include "weft/base/error.h"
#include "weft/base/text.h"

namespace weft::engine {
namespace {

[[noreturn]] void refuse_numbers(std::string what) {
  throw Error(ErrorKind::kInput, {.title = "the checkpoint's numbers cannot be read",
                                  .what = std::move(what),
                                  .where = "",
                                  .fix = "it was saved by another version of weft: load it with that one"});
}

template <typename T>
T number_in(std::string_view word) {
  T out{};
  const auto [end, problem] = std::from_chars(word.data(), word.data() + word.size(), out);
  if (problem != std::errc() || end != word.data() + word.size()) refuse_numbers(cat("'", word, "' is no number"));
  return out;
}

// By the first word of each line: the others.
using Lines = std::map<std::string, std::vector<std::string_view>, std::less<>>;

Lines lines_by_name(std::string_view text) {
  Lines out;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    std::vector<std::string_view> words;
    while (!line.empty()) {
      const std::string_view word = line.substr(0, line.find(' '));
      line.remove_prefix(std::min(line.size(), word.size() + 1));
      words.push_back(word);
    }
    if (words.empty()) continue;
    out[std::string(words[0])] = {words.begin() + 1, words.end()};
  }
  return out;
}

int64_t whole_number(const Lines& lines, std::string_view name, std::optional<int64_t> absent = std::nullopt) {
  const auto found = lines.find(name);
  if (found == lines.end() && absent) return *absent;
  if (found == lines.end() || found->second.size() != 1) refuse_numbers(cat("no '", name, "'"));
  return number_in<int64_t>(found->second[0]);
}

std::vector<double> several(const Lines& lines, std::string_view name) {
  std::vector<double> out;
  const auto found = lines.find(name);
  if (found == lines.end()) return out;
  for (const std::string_view word : found->second) out.push_back(number_in<double>(word));
  return out;
}

std::string line_of(std::string_view name, const std::vector<double>& numbers) {
  std::string out(name);
  for (const double number : numbers) out += cat(" ", number);
  return out + "\n";
}

}  // namespace

std::string to_text(const SavedNumbers& numbers) {
  std::string out =
      cat("global_steps ", numbers.global_steps, "\nmicro_steps ", numbers.micro_steps, "\nskipped_steps ",
          numbers.skipped_steps, "\n", line_of("lrs", numbers.lrs), line_of("base_lrs", numbers.base_lrs));
  if (numbers.in_step == 0) return out;
  return out + cat("in_step ", numbers.in_step, "\naccumulation_steps ", numbers.accumulation_steps, "\nmicro_batch ",
                   numbers.micro_batch, "\n", line_of("loss_scale", {numbers.loss_scale}));
}

SavedNumbers read_numbers(std::string_view text) {
  const Lines lines = lines_by_name(text);
  const std::vector<double> scale = several(lines, "loss_scale");
  SavedNumbers out{.global_steps = whole_number(lines, "global_steps"),
                   .micro_steps = whole_number(lines, "micro_steps"),
                   .skipped_steps = whole_number(lines, "skipped_steps"),
                   .lrs = several(lines, "lrs"),
                   .base_lrs = several(lines, "base_lrs"),
                   .in_step = whole_number(lines, "in_step", 0),
                   .accumulation_steps = whole_number(lines, "accumulation_steps", 1),
                   .micro_batch = whole_number(lines, "micro_batch", 1),
                   .loss_scale = scale.empty() ? 1 : scale[0]};
  if (out.in_step < 0 || out.accumulation_steps < 1 || out.micro_batch < 1 || out.loss_scale <= 0)
    refuse_numbers(cat("micro-step ", out.in_step, " of ", out.accumulation_steps));
  return out;
}

std::string to_text(const data::SamplerState& state) {
  return cat("epoch ", state.epoch, "\nconsumed ", state.consumed, "\nnum_samples ", state.num_samples, "\nseed ",
             state.seed, "\nshuffle ", state.shuffle ? 1 : 0, "\n");
}

data::SamplerState read_sampler_state(std::string_view text) {
  const Lines lines = lines_by_name(text);
  return {.epoch = whole_number(lines, "epoch"),
          .consumed = whole_number(lines, "consumed"),
          .num_samples = whole_number(lines, "num_samples"),
          .seed = whole_number(lines, "seed"),
          .shuffle = whole_number(lines, "shuffle") != 0};
}

}  // namespace weft::engine
