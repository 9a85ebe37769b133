#include "weft/cli/front/ckpt.h"

#include <unistd.h>

#include <cstdio>

#include "weft/base/clock.h"
#include "weft/base/env.h"
#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/checkpoint/store_names.h"
#include "weft/cli/front/flags.h"
#include "weft/monitor/progress.h"

namespace weft::cli {
namespace {

struct Part {
  const char* name;
  const char* summary;
  int (*run)(const Arguments&);
};

constexpr Part kParts[] = {
    {"ls", "the steps of a store", ckpt_ls},
    {"show", "what one step holds", ckpt_show},
    {"verify", "read every byte of a step, or of all, and compare it with its hash", ckpt_verify},
    {"diff", "which tensors of two steps differ", ckpt_diff},
    {"prune", "remove all steps but those to keep", ckpt_prune},
    {"export", "the parameters as safetensors files that others read", ckpt_export},
    {"import", "a step out of weights or a DeepSpeed checkpoint", ckpt_import},
};

void print_ckpt_help() {
  std::printf(
      "Look after checkpoints.\n"
      "\n"
      "usage: weft ckpt COMMAND DIR [OPTIONS]\n"
      "\n");
  for (const Part& part : kParts) std::printf("  %-8s %s\n", part.name, part.summary);
  std::printf(
      "\n"
      "example:\n"
      "  weft ckpt ls state/\n"
      "  weft ckpt export state/ model/ --dtype bf16\n"
      "  weft ckpt import deepspeed_run/ state/\n"
      "\n"
      "weft ckpt COMMAND --help lists the flags. Exit codes: 0 fine, 1 damage or differences were found, 2 wrong usage "
      "or bad input.\n");
}

[[noreturn]] void no_step(const std::string& path, std::string what) {
  throw Error(ErrorKind::kInput, {.title = "there is no such checkpoint",
                                  .what = std::move(what),
                                  .where = path,
                                  .fix = "give a folder that was saved to; weft ckpt ls DIR lists its steps"});
}

std::string without_slash(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

}  // namespace

std::vector<checkpoint::StepPlace> steps_of(const std::string& store) {
  const auto info = Env::posix().stat(store);
  if (!info || info->kind != FileKind::kFolder) no_step(store, "it is not a folder");
  return checkpoint::list_steps(Env::posix(), without_slash(store));
}

checkpoint::StepPlace step_at(const std::string& path, std::optional<int64_t> step) {
  const std::string folder = without_slash(path);
  const auto named = checkpoint::step_of(folder.substr(folder.rfind('/') + 1));
  if (named && !step) return {.step = *named, .folder = folder};
  for (const auto& place : steps_of(folder)) {
    if (!step || place.step == *step) return place;
  }
  no_step(path, step ? cat("no step ", *step) : "no step was saved there");
}

// --- The bar ---------------------------------------------------------------------------------------------------------

struct ByteBar::State {
  Stopwatch watch;
  Progress progress;
};

ByteBar::ByteBar(std::string title)
    : state_(new State{.watch = {},
                       .progress = Progress(
                           ProgressOptions{.title = std::move(title), .terminal = detect_terminal(STDERR_FILENO)})}) {}
ByteBar::~ByteBar() = default;

ByteProgress ByteBar::progress() {
  return [state = state_.get()](uint64_t done, uint64_t total) {
    const double fraction = total == 0 ? 1 : static_cast<double>(done) / static_cast<double>(total);
    const double elapsed_s = state->watch.elapsed_s();
    state->progress.update({.step = static_cast<int64_t>(done >> 20U),
                            .total_steps = static_cast<int64_t>(total >> 20U),
                            .fraction = fraction,
                            .eta_s = fraction > 0 ? elapsed_s / fraction - elapsed_s : -1,
                            .unit = "MiB"});
  };
}

int run_ckpt(const Arguments& arguments) {
  const std::string what = arguments.empty() ? "" : arguments.front();
  if (what == "--help" || what == "-h") {
    print_ckpt_help();
    return 0;
  }
  std::vector<std::string> names;
  for (const Part& part : kParts) {
    if (what == part.name) return part.run({arguments.begin() + 1, arguments.end()});
    names.emplace_back(part.name);
  }
  if (what == kListWords) {
    for (const std::string& name : names) std::printf("%s\n", name.c_str());
    return 0;
  }
  const std::string meant = nearest(what, names);
  throw Error(ErrorKind::kInput,
              {.title = what.empty() ? "nothing to do" : cat("weft ckpt does not know '", what, "'"),
               .what = "",
               .where = "",
               .fix = meant.empty() ? "weft ckpt --help lists what there is" : cat("did you mean: weft ckpt ", meant)});
}

}  // namespace weft::cli
