#include <CLI/CLI.hpp>
#include <cstdio>

#include "weft/base/env.h"
#include "weft/base/error.h"
#include "weft/cli/front/command.h"
#include "weft/cli/front/flags.h"
#include "weft/cli/front/run_output.h"
#include "weft/monitor/live/run_view.h"
#include "weft/monitor/run_compare.h"
#include "weft/monitor/run_files.h"
#include "weft/monitor/run_report.h"
#include "weft/monitor/trace_merge.h"

namespace weft::cli {
namespace {

struct ReportFlags {
  std::string first, second, out;
  bool json = false;
};

RunFiles load(std::string given) {
  while (given.size() > 1 && given.ends_with('/')) given.pop_back();
  try {
    return load_run(Env::posix(), find_run_folder(Env::posix(), given));
  } catch (const IoError& error) {
    throw Error(ErrorKind::kInput,
                error.text());  // a folder that may not be read is bad input, not a failure of the work
  }
}

void write_page(const std::string& path, const std::string& page) {
  publish_file(Env::posix(), path, bytes_of(page));
  std::fprintf(stderr, "report: %s\n", path.c_str());
}

// Where each host had a folder of its own, no rank could join them when the run ended.
void join_traces(const std::string& folder) {
  Env& env = Env::posix();
  const std::string path = folder + "/trace.json";
  const auto sources = traces_in(env, folder + "/trace");
  if (sources.size() < 2 || env.stat(path)) return;
  try {
    merge_traces(env, sources, path);
    std::fprintf(stderr, "timeline of %zu ranks: %s\n", sources.size(), path.c_str());
  } catch (const Error& error) {
    std::fprintf(stderr, "the timelines of the ranks are not joined: %s\n", error.what());
  }
}

void report_one(const ReportFlags& flags) {
  const RunFiles run = load(flags.first);
  if (!flags.json) join_traces(run.folder);
  const ReportOptions options{.now_unix_s = unix_now_s()};
  if (!flags.json || !flags.out.empty())
    write_page(flags.out.empty() ? run.folder + "/report.html" : flags.out, render_report_html(run, options));
  if (flags.json) std::fputs(report_json(run, options).c_str(), stdout);
}

void report_two(const ReportFlags& flags) {
  const RunComparison comparison = compare_runs(load(flags.first), load(flags.second), {.now_unix_s = unix_now_s()});
  if (!flags.json || !flags.out.empty())
    write_page(flags.out.empty() ? "compare.html" : flags.out, render_comparison_html(comparison));
  if (flags.json) std::fputs(comparison_json(comparison).c_str(), stdout);
}

}  // namespace

int run_report(const Arguments& arguments) {
  ReportFlags flags;
  auto app =
      make_app("report",
               "Make the report of a run again from what stands in its folder, of a crashed run as well; or put two\n"
               "runs side by side. DIR may be a folder of runs: the newest is taken.",
               "weft report runs/mine\n  weft report runs/before runs/after --out compare.html\n"
               "Exit codes: 0 made, 1 it could not be written, 2 no run there.");
  app->add_option("DIR", flags.first, "folder of the run")->required()->type_name("");
  app->add_option("OTHER", flags.second, "folder of a second run, to compare with")->type_name("");
  app->add_option("--out", flags.out, "the page [DIR/report.html; of two runs compare.html]")->type_name("FILE");
  app->add_flag("--json", flags.json, "print JSON; the page is then written only with --out");
  if (!parse_flags(*app, arguments)) return 0;
  flags.second.empty() ? report_one(flags) : report_two(flags);
  return 0;
}

}  // namespace weft::cli
