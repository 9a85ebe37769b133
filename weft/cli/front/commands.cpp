#include "weft/cli/front/command.h"

namespace weft::cli {
namespace {

constexpr Command kCommands[] = {
    {"train", "train a GPT on text, on the built-in corpus or on random tokens", run_train},
    {"run", "run any program as several ranks, and end them together", run_run},
    {"check", "find what is wrong with a DeepSpeed config, and repair it", run_check},
    {"report", "make the report of a run again, or compare two runs", run_report},
    {"watch", "serve the live page of a run, for a browser", run_watch},
    {"top", "show a run in the terminal while it goes on", run_top},
    {"blame", "find the rank to blame for a run that hung or failed", run_blame},
    {"ckpt", "look after checkpoints: list, verify, compare, prune, export", run_ckpt},
    {"bench", "measure collectives, or draw how they work (--teach)", run_bench},
    {"schema", "print the JSON Schema of a DeepSpeed config, for editors", run_schema},
    {"completion", "print the completion script of bash, zsh or fish", run_completion},
    {"version", "what this build is made of (also: weft --version)", run_version},
};

}  // namespace

std::span<const Command> commands() { return kCommands; }

}  // namespace weft::cli
