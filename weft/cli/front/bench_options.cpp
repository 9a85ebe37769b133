#include "weft/cli/front/bench_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "weft/base/text.h"
#include "weft/base/units.h"
#include "weft/cli/front/flags.h"

namespace weft::cli {
namespace {

// More than that no screen shows; measuring takes what the host can run.
constexpr int64_t kMaxTaughtRanks = 64, kMaxRanks = 4096;
constexpr int64_t kTaughtRanks = 8, kMeasuredRanks = 2;
constexpr const char* kTaughtBytes = "5MB";
constexpr const char* kMeasuredBytes = "64K,1M,25M";
const std::vector<std::string> kOperations = {"all_reduce", "reduce_scatter", "all_gather",
                                              "broadcast",  "reduce",         "all_to_all"};
// shm-staged: the shared-memory transport on tensors that are not in its own memory.
const std::vector<std::string> kTransports = {"auto", "shm", "shm-staged", "gloo", "nccl"};

// The flags as they were typed.
struct TypedBench {
  std::optional<int64_t> num_ranks, num_iterations, threads;
  std::string bytes, rate, latency, language, operations, transports;
};

void add_shared_flags(CLI::App& app, TypedBench& t, BenchCommOptions& o) {
  app.add_flag("--teach", o.teach, "do not measure: compute and draw how collectives work");
  add_int(app, "-n,--ranks", t.num_ranks, 1, kMaxRanks, "ranks (default: 2; with --teach 8)");
  app.add_option("--bytes", t.bytes,
                 cat("sizes, with commas between (default: ", kMeasuredBytes, "; --teach ", kTaughtBytes, ")"))
      ->type_name("BYTES");
  app.add_option("--rate", t.rate,
                 "of each link: 1gbit, 1MB/s; measuring: the limit to compare with (default: memory; --teach 1MB/s)")
      ->type_name("RATE");
  app.add_flag("--json", o.json, "print JSON");
  app.add_option("--svg", o.svg_path, "also draw: a file, or with --teach a folder")->type_name("PATH");
}

void add_measuring_flags(CLI::App& app, TypedBench& t) {
  app.option_defaults()->group("Measuring");
  app.add_option("--op", t.operations,
                 cat("what to measure, with commas between (default: all_reduce): ", join(kOperations, ", ")))
      ->type_name("OPS");
  app.add_option(
         "--transport", t.transports,
         cat("what carries the bytes; several take turns in one run (default: auto): ", join(kTransports, ", ")))
      ->type_name("NAMES");
  add_int(app, "--iters", t.num_iterations, 1, 1 << 30, "calls of each size (default: until the median is steady)");
  add_int(app, "--threads", t.threads, 1, 4096, "CPU threads of each rank (default: 1)");
}

void add_teaching_flags(CLI::App& app, TypedBench& t, BenchCommOptions& o) {
  app.option_defaults()->group("With --teach");
  app.add_flag("--measured", o.measured, "send the messages between ranks, and show the times beside the computed");
  app.add_option("--latency", t.latency, "of each message: 0, 50us (default: 0)")->type_name("DURATION");
  add_choice(app, "--lang", t.language, {"en", "zh"}, "language (default: en)");
}

std::vector<uint64_t> sizes_of(const std::string& text) {
  std::vector<uint64_t> out;
  for (const std::string& piece : CLI::detail::split(text, ',')) out.push_back(parse_bytes(piece).value());
  if (out.empty()) refuse("--bytes names no size", "", cat("--bytes ", kMeasuredBytes));
  return out;
}

std::vector<std::string> words_of(const char* flag, const std::string& text, const std::vector<std::string>& known) {
  std::vector<std::string> words = CLI::detail::split(text, ',');
  for (const std::string& word : words) {
    if (std::find(known.begin(), known.end(), word) == known.end())
      refuse(cat("'", word, "' is not one of ", join(known, ", ")), cat(flag, " ", text), cat(flag, " ", known[1]));
  }
  return words;
}

// A flag of the other half would be ignored, so it is refused.
void check_halves(const TypedBench& t, bool teach) {
  const std::pair<bool, const char*> measuring[] = {{!t.operations.empty(), "--op"},
                                                    {!t.transports.empty(), "--transport"},
                                                    {t.num_iterations.has_value(), "--iters"},
                                                    {t.threads.has_value(), "--threads"}};
  const std::pair<bool, const char*> teaching[] = {{!t.latency.empty(), "--latency"}, {!t.language.empty(), "--lang"}};
  for (const auto& [is_given, name] : measuring) {
    if (is_given && teach)
      refuse(cat(name, " belongs to measuring"), cat(name, " with --teach"), "leave one of them out");
  }
  for (const auto& [is_given, name] : teaching) {
    if (is_given && !teach) refuse(cat(name, " belongs to --teach"), "", cat("weft bench comm --teach ", name, " ..."));
  }
}

void take_teaching(const TypedBench& t, BenchCommOptions& o) {
  if (o.num_ranks > kMaxTaughtRanks) {
    refuse("too many ranks to draw", cat("--ranks ", o.num_ranks, " with --teach, which takes 1 to ", kMaxTaughtRanks),
           cat("--ranks ", kTaughtRanks));
  }
  if (o.bytes.size() != 1) refuse("--teach takes one size", cat("--bytes ", t.bytes), cat("--bytes ", kTaughtBytes));
  o.link.bytes_per_s = parse_rate(t.rate.empty() ? "1MB/s" : t.rate).value();
  if (!(o.link.bytes_per_s > 0)) refuse("a link needs a rate above zero", cat("--rate ", t.rate), "--rate 1MB/s");
  // A bare 0 needs no unit.
  const bool has_latency = !t.latency.empty() && t.latency != "0";
  if (has_latency) o.link.latency_s = static_cast<double>(parse_duration(t.latency).value().count()) * 1e-9;
  if (t.language == "zh") o.language = config::Language::kChinese;
}

}  // namespace

std::optional<BenchCommOptions> parse_bench_comm_options(const std::vector<std::string>& arguments) {
  BenchCommOptions o;
  TypedBench t;
  auto app =
      make_app("bench comm",
               "Measure collectives between ranks of this host, or with --teach compute and draw how they work:\n"
               "who sends what to whom, what each rank holds after each step, and how long it takes.",
               "weft bench comm --op all_reduce,all_gather --bytes 1M,25M --transport shm,gloo -n 2\n"
               "  weft bench comm --teach --ranks 8 --bytes 5MB --rate 1MB/s\n"
               "  weft bench comm --teach --ranks 4 --latency 50us --rate 10gbit --svg pictures");
  add_shared_flags(*app, t, o);
  add_measuring_flags(*app, t);
  add_teaching_flags(*app, t, o);
  if (!parse_flags(*app, arguments)) return std::nullopt;
  check_halves(t, o.teach);
  if (o.measured && !o.teach) refuse("--measured belongs to --teach", "", "weft bench comm --teach --measured");
  o.num_ranks = t.num_ranks.value_or(o.teach ? kTaughtRanks : kMeasuredRanks);
  o.bytes = sizes_of(!t.bytes.empty() ? t.bytes : o.teach ? kTaughtBytes : kMeasuredBytes);
  o.operations = words_of("--op", t.operations.empty() ? "all_reduce" : t.operations, kOperations);
  o.transports = words_of("--transport", t.transports.empty() ? "auto" : t.transports, kTransports);
  if (!t.rate.empty()) o.link.bytes_per_s = parse_rate(t.rate).value();
  o.num_iterations = t.num_iterations.value_or(0);
  o.threads = t.threads.value_or(1);
  if (o.teach) take_teaching(t, o);
  return o;
}

}  // namespace weft::cli
