// The commands of the front binary. It is torch-free and starts in milliseconds; a command that needs torch checks its flags
// here and then becomes weft-worker (exec), as git does with its own commands.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace weft::cli {

using Arguments = std::vector<std::string>;  // what stands after the command's name

struct Command {
  const char* name;
  const char* summary;           // one line, for `weft --help`
  int (*run)(const Arguments&);  // returns the exit code; throws Error
};

// All of them, in the order of `weft --help`.
std::span<const Command> commands();

// Implemented one file each.
int run_bench(const Arguments& arguments);
int run_blame(const Arguments& arguments);
int run_check(const Arguments& arguments);
int run_ckpt(const Arguments& arguments);
int run_completion(const Arguments& arguments);
int run_report(const Arguments& arguments);
int run_run(const Arguments& arguments);
int run_schema(const Arguments& arguments);
int run_top(const Arguments& arguments);
int run_train(const Arguments& arguments);
int run_version(const Arguments& arguments);
int run_watch(const Arguments& arguments);

}  // namespace weft::cli
