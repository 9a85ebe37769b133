#include "weft/cli/front/train_options.h"

#include <CLI/CLI.hpp>
#include <charconv>

#include "weft/base/build_info.h"
#include "weft/base/text.h"
#include "weft/base/units.h"
#include "weft/cli/front/flags.h"
#include "weft/launcher/launch_spec.h"

namespace weft::cli {
namespace {

constexpr auto kDefaultDuration = std::chrono::seconds(60);
constexpr int64_t kByteVocab = 256;

void add_model_flags(CLI::App& app, TrainOptions& o) {
  app.option_defaults()->group("The model");
  add_int(app, "--dim", o.dim, 1, 1 << 20, "width of the residual stream");
  add_int(app, "--layers", o.layers, 1, 10000, "transformer blocks");
  add_int(app, "--heads", o.heads, 1, 1 << 16, "attention heads; --dim must be a multiple");
  add_int(app, "--vocab", o.vocab, 2, int64_t{1} << 31, "tokens in the vocabulary; text takes 256 or more");
  add_int(app, "--seq", o.seq, 1, 1 << 24, "sequence length in tokens");
  app.add_flag("--tied", o.tied, "use the token embedding as the output head");
}

void add_work_flags(CLI::App& app, TrainOptions& o, std::string& duration) {
  app.option_defaults()->group("The work");
  add_int(app, "-n,--ranks", o.ranks, 1, launcher::kMaxLocalRanks, "ranks to start on this host");
  add_int(app, "--micro-batch", o.micro_batch, 1, 1 << 20, "sequences a rank takes at once");
  add_int(app, "--accumulation", o.accumulation, 1, 1 << 14, "micro-batches of a rank in one step");
  auto* steps = add_int(app, "--steps", o.steps, 0, int64_t{1} << 40, "optimizer steps; without it --for decides")
                    ->default_str("");
  app.add_option("--for", duration, "train this long: 60s, 5m, 1h30m (default 60s)")
      ->type_name("TIME")
      ->excludes(steps);
  app.add_option("--lr", o.lr, "learning rate")->capture_default_str()->check(CLI::Range(0.0, 1e3))->type_name("X");
  add_int(app, "--warmup", o.warmup_steps, 0, int64_t{1} << 40, "steps over which the learning rate rises from 0");
  add_int(app, "--seed", o.seed, 0, INT64_MAX, "decides weights and data");
  app.add_option("--data", o.data,
                 "corpus: Python's own library; random: random tokens;\n"
                 "or a text file or folder of your own")
      ->capture_default_str()
      ->type_name("WHAT");
}

void add_machine_flags(CLI::App& app, TrainOptions& o) {
  app.option_defaults()->group("The machine");
  app.add_option("--device", o.device, "cpu or cuda")
      ->capture_default_str()
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->type_name("D");
  add_int(app, "--threads", o.threads, 0, 4096, "CPU threads; 0: one per core");
}

void add_file_flags(CLI::App& app, TrainOptions& o, std::string& export_max_file, std::string& trace_steps) {
  app.option_defaults()->group("Files");
  app.add_option("--config", o.config_path, "a ds_config.json; what it says comes before the flags")->type_name("FILE");
  app.add_option("--init", o.init_path,
                 "start from these weights: safetensors or pytorch_model.bin,\na file, an index or a folder")
      ->type_name("PATH");
  auto* to =
      app.add_option("--export", o.export_path, "write the final weights (safetensors); a folder: with an index");
  to->type_name("FILE");
  app.add_option("--export-max-file", export_max_file,
                 "largest file of the folder before another is begun (default: 5GB)")
      ->needs(to)
      ->type_name("BYTES");
  auto* save = app.add_option("--save", o.save_folder, "save the training state in this folder")->type_name("DIR");
  add_int(app, "--save-every", o.save_every, 0, int64_t{1} << 40, "save each N steps as well as at the end")
      ->needs(save);
  app.add_flag("--save-local", o.save_local, "each host has a folder of its own there")->needs(save);
  auto* last =
      add_int(app, "--keep-last", o.keep_last, 0, 1 << 30, "keep the newest K saves; 0: all of them")->needs(save);
  add_int(app, "--keep-every", o.keep_every, 0, int64_t{1} << 40, "and those of every Nth step")->needs(last);
  add_int(app, "--keep-best", o.keep_best, 0, 1 << 30, "and the K with the lowest loss")->needs(last);
  app.add_flag("--resume", o.resume, "go on from the newest intact state in --save")->needs(save);
  add_int(app, "--restarts", o.restarts, 0, 1000,
          "after a failure start all ranks again from the newest save,\nthis often at most")
      ->needs(save);
  app.add_option("--runs", o.runs_folder, "where run folders go")->capture_default_str()->type_name("DIR");
  app.add_option("--name", o.name, "name of the run folder (default: date and time)")->type_name("NAME");
  app.add_flag("--trace", o.trace,
               "write a timeline of all ranks for Chrome and Perfetto: trace.json in the run folder");
  app.add_option("--trace-steps", trace_steps, "write it of these steps: 10-12, or 10")->type_name("A-B");
  app.add_flag("--no-metrics", o.no_metrics,
               "measure and write nothing while it runs: no metrics, no ranks, no timeline");
  app.add_option("--json", o.json_path, "write the result as JSON; - is standard output")->type_name("FILE");
}

void check_together(const TrainOptions& o) {
  if (o.no_metrics && o.trace)
    refuse("a timeline has to be measured", "--trace with --no-metrics", "leave one of them out");
  if (o.dim % o.heads != 0) {
    refuse("the heads do not divide the width", cat("--dim ", o.dim, " is not a multiple of --heads ", o.heads),
           cat("for example --dim ", (o.dim / o.heads + 1) * o.heads));
  }
  if (o.data != "random" && o.vocab < kByteVocab) {
    refuse("the vocabulary is too small for text",
           cat("text is read as bytes and takes 256 tokens, --vocab is ", o.vocab), "--vocab 256");
  }
  if (o.device == "cuda" && !kHasCuda) {
    refuse("this build has no CUDA", cat("it was built with torch ", kTorchVersion, " for the CPU"),
           "build with a CUDA torch: WEFT_PYTHON=/path/to/python make");
  }
  if (o.name.find('/') != std::string::npos || o.name == "." || o.name == "..") {
    refuse("the run's name is not a folder name", cat("--name ", o.name),
           "use --runs DIR for the place and --name for the name alone");
  }
}

// "10-12" or "10".
void take_trace_steps(const std::string& text, TrainOptions& o) {
  const auto number = [&](std::string_view word) {
    int64_t out = 0;
    const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), out);
    if (code != std::errc() || end != word.data() + word.size() || out < 1)
      refuse("these are no steps", cat("--trace-steps ", text), "a step or a range, such as --trace-steps 10-12");
    return out;
  };
  const size_t dash = std::min(text.find('-'), text.size());
  o.trace_from = number(text.substr(0, dash));
  o.trace_to = dash == text.size() ? o.trace_from : number(text.substr(dash + 1));
  if (o.trace_to < o.trace_from)
    refuse("these are no steps", cat("--trace-steps ", text, " ends before it begins"), "such as --trace-steps 10-12");
  o.trace = true;
}

}  // namespace

std::optional<TrainOptions> parse_train_options(const std::vector<std::string>& arguments) {
  TrainOptions o;
  std::string duration, export_max_file, trace_steps;
  auto app = make_app("train", "Train a GPT: on Python's own library, on your text, or on random tokens.",
                      "weft train --data my_texts/ --dim 256 --layers 6 --heads 8 --for 10m --save state/");
  add_model_flags(*app, o);
  add_work_flags(*app, o, duration);
  add_machine_flags(*app, o);
  add_file_flags(*app, o, export_max_file, trace_steps);
  if (!parse_flags(*app, arguments)) return std::nullopt;
  const bool by_steps = app->count("--steps") > 0;
  if (!by_steps) o.duration = duration.empty() ? kDefaultDuration : parse_duration(duration).value();
  if (!export_max_file.empty()) o.export_max_bytes = parse_bytes(export_max_file).value();
  if (!trace_steps.empty()) take_trace_steps(trace_steps, o);
  check_together(o);
  return o;
}

}  // namespace weft::cli
