#include "weft/cli/front/run_output.h"

#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>

#include "weft/base/build_info.h"
#include "weft/base/env.h"
#include "weft/base/text.h"
#include "weft/base/units.h"
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

void add_facts(std::vector<Fact>& facts, const std::string& group, const std::vector<TableRow>& rows) {
  for (const auto& row : rows)
    facts.push_back({group, row.label, row.note.empty() ? row.value : cat(row.value, " (", row.note, ")")});
}

std::vector<TableRow> setting_rows(const RunFacts& facts, const TrainOptions& o) {
  return {{"data", facts.data, ""},
          {"model",
           fmt::format("{} layers, width {}, {} heads, vocabulary {}{}", o.layers, o.dim, o.heads, o.vocab,
                       o.tied ? ", tied" : ""),
           ""},
          {"batch", fmt::format("{} × {} tokens", o.micro_batch, o.seq), ""},
          {"learning rate", fmt::format("{:g}", o.lr), cat("warm-up ", o.warmup_steps, " steps")},
          {"device", facts.device == "cpu" ? cat("cpu, ", facts.threads, " threads") : facts.device, ""},
          {"seed", cat(facts.seed), ""},
          {"weft", cat(kVersion, ", torch ", kTorchVersion), ""}};
}

}  // namespace

std::string report_of(const RunRecord& record, const TrainOptions& options) {
  const RunFacts& facts = record.facts;
  RunReport report{.title = facts.name,
                   .subtitle = cat(format_count(facts.params), " parameters on ", facts.data, ", ", facts.status),
                   .steps = {},
                   .held_out = {},
                   .references = {},
                   .facts = {}};
  for (int64_t i = 0; i < record.num_steps(); ++i) {
    report.steps.push_back({.step = facts.first_step + i + 1,
                            .loss = record.losses()[static_cast<size_t>(i)],
                            .tokens_per_s = static_cast<double>(facts.tokens_per_step) / (record.step_ms(i) * 1e-3)});
  }
  if (facts.held_out_loss) report.held_out.push_back({facts.first_step + record.num_steps(), *facts.held_out_loss});
  if (facts.unigram_entropy) report.references.push_back({"unigram entropy", *facts.unigram_entropy});
  add_facts(report.facts, "Loss", loss_rows(record));
  add_facts(report.facts, "Speed", speed_rows(record));
  add_facts(report.facts, "Memory", memory_rows(facts));
  add_facts(report.facts, "Settings", setting_rows(facts, options));
  return render_report_html(report);
}

void print_closing_table(const RunRecord& record, const std::string& report_path) {
  const RunFacts& facts = record.facts;
  Table table{.title = cat("run ", facts.name, ": ", facts.status), .rows = loss_rows(record)};
  append(table.rows, speed_rows(record));
  append(table.rows, memory_rows(facts));
  // On standard error, like all that is for people: standard output belongs to --json -.
  std::fprintf(stderr, "%sreport: %s\n", render_table(table, detect_terminal(STDERR_FILENO)).c_str(),
               report_path.c_str());
}

void write_json(const RunRecord& record, const std::string& path) {
  const std::string text = record.to_json();
  if (path == "-") {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return;
  }
  publish_file(Env::posix(), path, bytes_of(text));
}

int64_t peak_rss_bytes() {
  struct rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<int64_t>(usage.ru_maxrss) * 1024;
}

}  // namespace weft::cli
