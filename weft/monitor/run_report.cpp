#include "weft/monitor/run_report.h"

#include <algorithm>
#include <cmath>

#include "weft/base/text.h"
#include "weft/base/units.h"
#include "weft/monitor/html.h"
#include "weft/monitor/numbers.h"
#include "weft/monitor/report_html_impl.h"

namespace weft {
namespace detail {
namespace {

const char* class_of(TargetMark mark) {
  switch (mark) {
    case TargetMark::kMet: return "met";
    case TargetMark::kMissed: return "missed";
    case TargetMark::kNotKnown: return "unknown";
    case TargetMark::kNone: return "none";
  }
  return "none";
}

Words words_of(TargetMark mark) {
  switch (mark) {
    case TargetMark::kMet: return {"met", "达标"};
    case TargetMark::kMissed: return {"missed", "未达标"};
    case TargetMark::kNotKnown: return {"not known", "未知"};
    case TargetMark::kNone: return {"", ""};
  }
  return {};
}

std::string target_row(const TargetRow& row) {
  return cat("<tr class=\"", class_of(row.mark), "\"><td class=\"mark\">", bilingual(words_of(row.mark)),
             "</td><th scope=\"row\">", bilingual(row.name), "</th><td class=\"value\">", bilingual(row.shown),
             "</td><td>", bilingual(row.target), "</td><td class=\"how\">", bilingual(row.how), "</td></tr>\n");
}

std::string log_html(const RunFiles& run) {
  if (run.last_lines.empty()) return "";
  std::string lines;
  for (const std::string& line : run.last_lines) lines += escape_html(line) + "\n";
  return cat("<pre>", lines, "</pre>\n");
}

Words where_it_stopped(const RunFiles& run, const RunSummary& summary) {
  const int64_t shown = std::max(summary.last_step.value_or(0), run.ranks ? run.ranks->step : 0);
  const std::string step = shown > 0 ? cat("step ", grouped_text(shown)) : "the first step";
  const std::string step_zh = shown > 0 ? cat("第 ", grouped_text(shown), " 步") : "第一步";
  const std::string still = short_duration_text(summary.stood_still_s);
  const std::string position = shown > 0 ? cat("after ", step) : cat("before ", step);
  switch (summary.state) {
    case RunEnd::kFailed:
      return {cat("The run failed ", position, "; its error is the last thing in the log."),
              cat("运行在", step_zh, shown > 0 ? "之后" : "之前", "失败；错误见日志末尾。")};
    case RunEnd::kLost:
      return {cat("The run was lost ", position, ": nothing was written for ", still,
                  ". It crashed, was killed, or hangs."),
              cat("运行在", step_zh, shown > 0 ? "之后" : "之前", "中断：已有 ", still,
                  " 没有写入。它崩溃、被杀死或挂起。")};
    case RunEnd::kStopped:
      return {cat("The run was stopped ", position, "; what it had done was kept."),
              cat("运行在", step_zh, "之后被停止。")};
    case RunEnd::kRunning:
      return {
          cat("The run's end is not recorded: it was at ", step, " when this report was made, or was killed there."),
          cat("运行的结束没有记录：生成报告时位于", step_zh, "，或在那里被杀死。")};
    default:
      return {cat("There is no result.json: how the run ended is not known. Its last step is ", step, "."),
              cat("没有 result.json：结局未知。最后一步为", step_zh, "。")};
  }
}

Words next_words(const RunFiles& run) {
  if (run.has_flight_dumps)
    return {cat("The ranks left their flight recorders: weft blame ", run.folder, "/flight says which rank to blame."),
            cat("各进程留下了飞行记录：weft blame ", run.folder, "/flight 指出责任进程。")};
  return {"To go on from the last save: the same command with --resume.", "从最近的保存继续：同一命令加 --resume。"};
}

std::string big_number(const Words& label, std::string_view value, std::string_view note) {
  return cat("<div><dt>", bilingual(label), "</dt><dd>", value, "<div class=\"note\">", escape_html(note),
             "</div></dd></div>\n");
}

std::string headline(const RunFiles& run, const RunSummary& summary, const ReportData& data) {
  if (run.rows.empty()) return "";
  std::string out = "<dl class=\"figures\">\n";
  if (data.final_loss) {
    const std::string note = cat("last step ", loss_text(*data.final_loss));
    out += big_number({"Final loss, smoothed", "最终损失（平滑）"}, loss_text(*data.final_smooth_loss), note);
  }
  if (data.final_held_out)
    out += big_number({"Held-out loss", "留出集损失"}, loss_text(*data.final_held_out), "text it never saw");
  const double rate = data.rate_is_samples ? summary.samples_per_s : summary.tokens_per_s;
  if (is_drawable(rate)) {
    out += big_number(
        data.rate_is_samples ? Words{"Samples per second", "样本/秒"} : Words{"Tokens per second", "词元/秒"},
        format_count(std::llround(rate)), "median over the steps");
  }
  if (is_drawable(summary.step_ms))
    out += big_number({"Time of a step", "每步时间"}, ms_text(summary.step_ms), "median");
  const std::string range =
      cat("from ", grouped_text(run.rows.front().step), " to ", grouped_text(run.rows.back().step));
  return out + big_number({"Steps", "步数"}, grouped_text(static_cast<int64_t>(run.rows.size())), range) + "</dl>\n";
}

std::string subtitle(const RunFiles& run, const RunSummary& summary) {
  const Words state = words_of(summary.state);
  const bool bad = summary.state == RunEnd::kFailed || summary.state == RunEnd::kLost;
  std::string out =
      cat("<p class=\"subtitle\"><span class=\"state ", bad ? "missed" : "plain", "\">", bilingual(state), "</span>");
  if (run.result && run.result->params > 0) {
    const std::string params = format_count(run.result->params);
    out += bilingual(
        {cat(" ", params, " parameters on ", run.result->data), cat(" ", params, " 参数，数据 ", run.result->data)});
  }
  return out + "</p>\n";
}

std::string notes_html(const RunFiles& run) {
  if (run.notes.empty()) return "";
  std::string items;
  for (const std::string& note : run.notes) items += cat("<li>", escape_html(note), "</li>\n");
  return card({"What could not be read", "无法读取的内容"}, cat("<ul class=\"plain\">\n", items, "</ul>"), "problem");
}

}  // namespace

std::string targets_section(const RunSummary& summary) {
  std::string rows;
  int64_t num_met = 0, num_judged = 0;
  for (const TargetRow& row : summary.targets) {
    rows += target_row(row);
    num_met += row.mark == TargetMark::kMet ? 1 : 0;
    num_judged += row.mark == TargetMark::kMet || row.mark == TargetMark::kMissed ? 1 : 0;
  }
  const Words heading = num_judged == 0 ? Words{"Verdict: no target could be judged", "结论：无法评判"}
                                        : Words{cat("Verdict: ", num_met, " of ", num_judged, " targets met"),
                                                cat("结论：", num_judged, " 项目标中 ", num_met, " 项达标")};
  return card(heading, cat("<div class=\"scroll\"><table class=\"targets\"><thead><tr><th></th><th scope=\"col\">",
                           bilingual("what", "项目"), "</th><th scope=\"col\">", bilingual("reached", "实际"),
                           "</th><th scope=\"col\">", bilingual("target", "目标"), "</th><th scope=\"col\">",
                           bilingual("how", "依据"), "</th></tr></thead>\n<tbody>\n", rows, "</tbody></table></div>"));
}

std::string end_section(const RunFiles& run, const RunSummary& summary) {
  if (summary.state == RunEnd::kFinished) return "";
  const bool bad = summary.state == RunEnd::kFailed || summary.state == RunEnd::kLost;
  std::string body = cat("<p>", bilingual(where_it_stopped(run, summary)), "</p>\n");
  if (summary.state != RunEnd::kNotRecorded) body += cat("<p>", bilingual(next_words(run)), "</p>\n");
  return card(bad ? Words{"Where it stopped", "停止的位置"} : Words{"How it ended", "如何结束"}, body + log_html(run),
              bad ? "problem" : "");
}

}  // namespace detail

std::string render_report_html(const RunFiles& run, const ReportOptions& options) {
  using namespace detail;  // NOLINT(google-build-using-namespace): the sections are all of it
  const RunSummary summary = summarize(run, options.now_unix_s);
  const ReportData data = prepare_report(run);
  ReadOut read_out;
  read_out.add("loss", {{.name = "loss", .points = data.loss, .digits = 4},
                        {.name = "smoothed", .points = data.smooth_loss, .digits = 4, .has_dot = true}});
  read_out.add("rate", {{.name = data.rate_is_samples ? "samples per second" : "tokens per second",
                         .points = data.smooth_rate,
                         .digits = data.rate_is_samples ? 2 : 0,
                         .has_dot = true}});
  std::string sections = headline(run, summary, data) + end_section(run, summary) + targets_section(summary);
  sections += loss_section(data) + rate_section(data) + parts_section(run, summary, read_out) + timeline_section(run);
  sections += overlap_section(run, summary) + ranks_section(run) + memory_section(run, summary);
  sections += flops_section(run) + advice_section(run);
  sections += settings_section(run) + facts_section(run, summary, data) + numbers_section(data) + notes_html(run);
  return page(run.name(), {"weft run report", "weft 运行报告"}, subtitle(run, summary), sections, read_out.html());
}

}  // namespace weft
