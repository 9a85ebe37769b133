// The report of one training run: a single HTML file that opens from disk, on a phone, in the dark and on paper.
//
//   const RunFiles run = load_run(Env::posix(), "runs/mine");
//   publish_file(env, "runs/mine/report.html", bytes_of(render_report_html(run, {.now_unix_s = unix_now_s()})));
//
// It is made from the run's folder alone, so that it can be made again at any time, for a crashed run as well. Everything is
// inside: no network, no font, no library. Pure functions, any thread. Failure: none; empty runs, single points and losses
// that are not numbers give a page that says so. All text is escaped.
#pragma once

#include <optional>
#include <string>

#include "weft/monitor/run_files.h"

namespace weft {

struct ReportOptions {
  std::optional<double> now_unix_s = {};  // tells a run that was lost from one that goes on
};

std::string render_report_html(const RunFiles& run, const ReportOptions& options = {});

// The same for programs: how the run ended, its targets, medians and parts, ranks that are slow; "schema": 1.
std::string report_json(const RunFiles& run, const ReportOptions& options = {});

}  // namespace weft
