#include <algorithm>

#include "weft/base/text.h"
#include "weft/monitor/html.h"
#include "weft/monitor/numbers.h"
#include "weft/monitor/report_html_impl.h"

namespace weft::detail {
namespace {

const SlowRank* slow_entry(const RunRanks& ranks, int64_t rank) {
  const auto found = std::ranges::find_if(ranks.slow, [&](const SlowRank& it) { return it.rank == rank; });
  return found == ranks.slow.end() ? nullptr : &*found;
}

std::string percent_text(double percent) { return is_drawable(percent) ? cat(fixed_text(percent, 1), " %") : ""; }

std::string slow_words(const SlowRank& slow) {
  const std::string who = slow.rank < 0 ? "进程间的链路" : cat("rank ", slow.rank);
  const std::string where = slow.where.empty() ? "" : cat("，位于 ", slow.where);
  const Words words = {cat(text_of(slow), "."), cat(who, " 慢：", slow.phase, " 多用 ", ms_text(slow.ms), "（一步的 ",
                                                    percent_text(slow.percent), "），自第 ",
                                                    grouped_text(slow.since_step), " 步起", where, "。")};
  return cat("<p class=\"flag\">", bilingual(words), "</p>\n");
}

struct RankColumn {
  Words name;
  double RankRow::* value;
  std::string (*text)(double);
};

const RankColumn kRankColumns[] = {{{"step", "一步"}, &RankRow::step_ms, ms_text},
                                   {{"busy", "忙碌"}, &RankRow::busy_ms, ms_text},
                                   {{"data", "数据"}, &RankRow::data_ms, ms_text},
                                   {{"forward", "前向"}, &RankRow::forward_ms, ms_text},
                                   {{"backward", "反向"}, &RankRow::backward_ms, ms_text},
                                   {{"optimizer", "优化器"}, &RankRow::optimizer_ms, ms_text},
                                   {{"waits", "等待"}, &RankRow::exposed_comm_ms, ms_text},
                                   {{"saves", "保存"}, &RankRow::checkpoint_ms, ms_text},
                                   {{"CPU", "CPU"}, &RankRow::cpu_percent, percent_text},
                                   {{"GPU", "GPU"}, &RankRow::gpu_percent, percent_text},
                                   {{"resident", "常驻"}, &RankRow::rss_bytes, bytes_text},
                                   {{"on device", "显存"}, &RankRow::device_bytes, bytes_text}};

std::string rank_row(const RunRanks& ranks, const RankRow& row, const std::vector<RankColumn>& columns,
                     double most_busy) {
  const bool slow = slow_entry(ranks, row.rank) != nullptr;
  std::string out =
      cat("<tr", slow ? " class=\"slow\"" : "", "><th scope=\"row\" data-value=\"", row.rank, "\">", row.rank,
          slow ? cat(" <em>", bilingual("slow", "慢"), "</em>") : "", "</th><td>", escape_html(row.host), "</td>");
  for (const RankColumn& column : columns) {
    const double value = row.*column.value;
    const bool is_busy = column.value == &RankRow::busy_ms && is_drawable(value) && most_busy > 0;
    out += cat("<td data-value=\"", is_drawable(value) ? significant_text(value, 9) : "", "\"",
               is_busy ? cat(" class=\"busy\" style=\"--share:", fixed_text(value / most_busy * 100, 1), "%\"") : "",
               ">", column.text(value), "</td>");
  }
  return out + "</tr>\n";
}

// Errors before warnings before advice.
int weight_of(const AdviceRow& advice) { return advice.severity == "error" ? 0 : advice.severity == "warning" ? 1 : 2; }

std::string advice_item(const AdviceRow& advice) {
  const int weight = weight_of(advice);
  const Words kinds[] = {{"error", "错误"}, {"warning", "警告"}, {"advice", "建议"}};
  const char* const classes[] = {"error", "warning", "advice"};
  const auto or_english = [](const std::string& zh, const std::string& en) { return zh.empty() ? en : zh; };
  std::string out = cat("<li class=\"", classes[weight], "\"><p><b>", bilingual(kinds[weight]), "</b> ",
                        advice.path.empty() ? "" : cat("<code>", escape_html(advice.path), "</code> "),
                        bilingual({advice.en, or_english(advice.zh, advice.en)}), "</p>");
  if (!advice.fix_en.empty() || !advice.fix_zh.empty())
    out += cat("<p class=\"fix\">", bilingual({advice.fix_en, or_english(advice.fix_zh, advice.fix_en)}), "</p>");
  return out + "</li>\n";
}

std::string setting_row(const SettingRow& setting) {
  return cat("<tr", setting.is_default() ? " class=\"default\"" : "", "><th scope=\"row\"><code>",
             escape_html(setting.path), "</code></th><td><code>", escape_html(setting.value), "</code></td><td>",
             escape_html(setting.from), "</td></tr>\n");
}

}  // namespace

std::string ranks_section(const RunFiles& run) {
  if (!run.ranks || run.ranks->ranks.empty()) return "";
  const RunRanks& ranks = *run.ranks;
  std::vector<RankColumn> columns;
  for (const RankColumn& column : kRankColumns) {
    if (std::ranges::any_of(ranks.ranks, [&](const RankRow& row) { return is_drawable(row.*column.value); }))
      columns.push_back(column);
  }
  double most_busy = 0;
  for (const RankRow& row : ranks.ranks) most_busy = std::max(most_busy, is_drawable(row.busy_ms) ? row.busy_ms : 0);
  std::string body;
  for (const SlowRank& slow : ranks.slow) body += slow_words(slow);
  if (ranks.slow.empty())
    body += cat("<p class=\"notes\">", bilingual("No rank is slower than the others.", "没有明显慢的进程。"), "</p>\n");
  body +=
      cat("<div class=\"scroll tall\"><table class=\"ranks sortable\">\n<thead><tr><th scope=\"col\">rank</th><th "
          "scope=\"col\">",
          bilingual("host", "主机"), "</th>");
  for (const RankColumn& column : columns) body += cat("<th scope=\"col\">", bilingual(column.name), "</th>");
  body += "</tr></thead>\n<tbody>\n";
  for (const RankRow& row : ranks.ranks) body += rank_row(ranks, row, columns, most_busy);
  body += cat("</tbody></table></div>\n<p class=\"notes\">",
              bilingual({cat("Means over the last steps, up to step ", grouped_text(ranks.step), "."),
                         cat("截至第 ", grouped_text(ranks.step), " 步的最近各步平均。")}),
              "</p>");
  return card({"Ranks", "各进程"}, body);
}

std::string advice_section(const RunFiles& run) {
  if (!run.settings) return "";
  auto advice = run.settings->advice;
  std::ranges::stable_sort(advice, {}, weight_of);
  std::string body;
  for (const AdviceRow& it : advice) body += advice_item(it);
  if (body.empty())
    return card({"Advice", "建议"},
                cat("<p class=\"notes\">", bilingual("The doctor has nothing to say.", "没有建议。"), "</p>"));
  return card({"Advice", "建议"}, cat("<ul class=\"advice\">\n", body, "</ul>"));
}

std::string settings_section(const RunFiles& run) {
  if (!run.settings || run.settings->settings.empty()) return "";
  std::string rows;
  size_t num_defaults = 0;
  for (const bool defaults : {false, true}) {
    for (const SettingRow& setting : run.settings->settings) {
      if (setting.is_default() != defaults) continue;
      rows += setting_row(setting);
      num_defaults += defaults ? 1 : 0;
    }
  }
  const std::string count = cat(num_defaults);
  return card(
      {"Settings", "配置"},
      cat("<div class=\"filter\" hidden><input type=\"search\" placeholder=\"zero, bucket, lr\" aria-label=\"Find a "
          "setting\"><label><input type=\"checkbox\"> ",
          bilingual({cat("defaults (", count, ")"), cat("默认值（", count, "）")}),
          "</label></div>\n<div class=\"scroll tall\"><table class=\"settings\">\n<thead><tr><th scope=\"col\">",
          bilingual("setting", "配置项"), "</th><th scope=\"col\">", bilingual("value", "值"),
          "</th><th scope=\"col\">", bilingual("from", "来源"), "</th></tr></thead>\n<tbody>\n", rows,
          "</tbody></table></div>\n<output></output>"));
}

}  // namespace weft::detail
