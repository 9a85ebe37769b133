#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "weft/base/env.h"
#include "weft/base/error.h"
#include "weft/base/text.h"
#include "weft/cli/front/command.h"
#include "weft/cli/front/flags.h"
#include "weft/cli/front/run_output.h"
#include "weft/monitor/run_compare.h"
#include "weft/monitor/run_files.h"
#include "weft/monitor/run_report.h"

namespace weft::cli {
namespace {

namespace fs = std::filesystem;

struct ReportFlags {
  std::string first, second, out;
  bool json = false;
};

std::string without_slash(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

// When something was last written there. No clock is worse than an old one: such a run is never the newest.
fs::file_time_type last_write(const std::string& folder) {
  auto newest = fs::file_time_type::min();
  for (const char* name : {"metrics.jsonl", "result.json", "ranks.json"}) {
    std::error_code code;
    const auto time = fs::last_write_time(cat(folder, "/", name), code);
    if (!code) newest = std::max(newest, time);
  }
  return newest;
}

std::string newest_run_in(const std::string& folder) {
  std::string newest;
  auto newest_time = fs::file_time_type::min();
  for (const std::string& name : Env::posix().list(folder)) {
    const std::string path = cat(folder, "/", name);
    const auto info = Env::posix().stat(path);
    if (!info || info->kind != FileKind::kFolder || !is_run_folder(Env::posix(), path)) continue;
    const auto time = last_write(path);
    if (!newest.empty() && time < newest_time) continue;
    newest = path;
    newest_time = time;
  }
  return newest;
}

// The folder itself, or the newest run inside it.
std::string run_folder_of(const std::string& given) {
  const std::string folder = without_slash(given);
  const auto info = Env::posix().stat(folder);
  const bool is_folder = info && info->kind == FileKind::kFolder;
  if (is_folder && is_run_folder(Env::posix(), folder)) return folder;
  const std::string newest = is_folder ? newest_run_in(folder) : "";
  if (!newest.empty()) return newest;
  throw Error(ErrorKind::kInput,
              {.title = !info ? "there is no such folder" : "no run was found there",
               .what = is_folder ? "neither it nor a folder inside it has a result.json or metrics.jsonl" : "",
               .where = given,
               .fix = "give the folder of a run, such as runs/mine, or the folder of all runs"});
}

RunFiles load(const std::string& given) {
  try {
    return load_run(Env::posix(), run_folder_of(given));
  } catch (const IoError& error) {
    throw Error(ErrorKind::kInput,
                error.text());  // a folder that may not be read is bad input, not a failure of the work
  }
}

void write_page(const std::string& path, const std::string& page) {
  publish_file(Env::posix(), path, bytes_of(page));
  std::fprintf(stderr, "report: %s\n", path.c_str());
}

void report_one(const ReportFlags& flags) {
  const RunFiles run = load(flags.first);
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
