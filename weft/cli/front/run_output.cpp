#include "weft/cli/front/run_output.h"

#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "weft/base/env.h"
#include "weft/base/text.h"
#include "weft/base/units.h"
#include "weft/monitor/run_files.h"
#include "weft/monitor/run_report.h"
#include "weft/monitor/table.h"

namespace weft::cli {
namespace {

std::string nats(double loss) { return fmt::format("{:.4f}", loss); }

bool beats_unigrams(const RunFacts& facts, double loss) {
  return facts.unigram_entropy && loss < *facts.unigram_entropy;
}

Mark mark_of(const RunFacts& facts, double loss) {
  if (!facts.unigram_entropy) return Mark::kNone;
  return beats_unigrams(facts, loss) ? Mark::kGood : Mark::kBad;
}

std::string verdict(const RunFacts& facts, double loss) {
  if (!facts.unigram_entropy) return "";
  return beats_unigrams(facts, loss) ? "below the unigram entropy" : "not below the unigram entropy yet";
}

std::string total_time(const RunRecord& record) {
  double total_ms = 0;
  for (int64_t i = 0; i < record.num_steps(); ++i) total_ms += record.step_ms(i);
  return format_duration(std::chrono::nanoseconds(static_cast<int64_t>(total_ms * 1e6)));
}

std::vector<TableRow> loss_rows(const RunRecord& record) {
  const RunFacts& facts = record.facts;
  if (record.num_steps() == 0) return {};
  std::vector<TableRow> rows = {{"first loss", nats(record.losses().front()), "nats per token"},
                                {"final loss", nats(record.final_loss()), verdict(facts, record.final_loss()),
                                 mark_of(facts, record.final_loss())}};
  if (facts.held_out_loss)
    rows.push_back(
        {"held-out loss", nats(*facts.held_out_loss), "text it never saw", mark_of(facts, *facts.held_out_loss)});
  if (facts.unigram_entropy)
    rows.push_back({"unigram entropy", nats(*facts.unigram_entropy), "the best without context"});
  return rows;
}

std::vector<TableRow> speed_rows(const RunRecord& record) {
  const Spread times = record.times_ms();
  return {{"steps", cat(record.num_steps()), total_time(record)},
          {"step", fmt::format("{:.1f} ms", times.median),
           fmt::format("median; fastest {:.1f}, p90 {:.1f}", times.min, times.p90)},
          {"rate", cat(format_count(static_cast<int64_t>(record.tokens_per_s())), " tokens/s"), ""}};
}

std::vector<TableRow> memory_rows(const RunFacts& facts) {
  const auto bytes = [](int64_t value) { return format_bytes(static_cast<uint64_t>(value)); };
  std::vector<TableRow> rows = {{"parameters", format_count(facts.params),
                                 cat("state ", bytes(facts.params_bytes + facts.grads_bytes + facts.optimizer_bytes))},
                                {"peak memory", bytes(facts.peak_rss_bytes), "resident"}};
  if (facts.peak_device_bytes) rows.push_back({"peak on device", bytes(*facts.peak_device_bytes), ""});
  return rows;
}

void append(std::vector<TableRow>& rows, std::vector<TableRow> more) {
  for (auto& row : more) rows.push_back(std::move(row));
}

}  // namespace

std::string report_of(const std::string& run_folder) {
  return render_report_html(load_run(Env::posix(), run_folder), {.now_unix_s = unix_now_s()});
}

double unix_now_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

void print_closing_table(const RunRecord& record, const std::string& report_path) {
  const RunFacts& facts = record.facts;
  Table table{.title = cat("run ", facts.name, ": ", facts.status), .rows = loss_rows(record)};
  append(table.rows, speed_rows(record));
  append(table.rows, memory_rows(facts));
  // On standard error, like all that is for people: standard output belongs to --json -.
  std::fprintf(stderr, "%sreport: %s\n", render_table(table, detect_terminal(STDERR_FILENO)).c_str(),
               report_path.empty() ? "not written" : report_path.c_str());
}

void write_json(const RunRecord& record, const std::string& path) {
  const std::string text = record.to_json();
  if (path == "-") {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return;
  }
  publish_file(Env::posix(), path, bytes_of(text));
}

}  // namespace weft::cli
