#include <algorithm>

#include "weft/base/text.h"
#include "weft/cli/front/bench_svg.h"
#include "weft/cli/front/bench_teach.h"
#include "weft/cli/front/bench_teach_words.h"
#include "weft/monitor/html.h"
#include "weft/monitor/table.h"

namespace weft::cli {
namespace {

using config::Language;
using sim::Schedule;

std::string page(double height, const std::string& title, const std::string& about, const std::string& body) {
  return cat("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", px(kSvgWidth), " ", px(height),
             "\" role=\"img\" aria-labelledby=\"title about\" font-family=\"system-ui, 'Segoe UI', Roboto, "
             "'Helvetica Neue', Arial, 'Noto Sans CJK SC', sans-serif\">\n<title id=\"title\">",
             escape_html(title), "</title>\n<desc id=\"about\">", escape_html(about),
             "</desc>\n<defs><marker id=\"head\" viewBox=\"0 0 10 "
             "10\" refX=\"9\" refY=\"5\" markerWidth=\"9\" markerHeight=\"9\" markerUnits=\"userSpaceOnUse\" "
             "orient=\"auto\"><path d=\"M0 1L10 5L0 9Z\" fill=\"",
             kArrow, "\"/></marker></defs>\n",
             rectangle(0.5, 0.5, kSvgWidth - 1, height - 1, 12, cat("fill=\"#ffffff\" stroke=\"", kPale, "\"")), body,
             "</svg>\n");
}

Drawing heading(const std::string& title, const std::string& result, const std::string& about,
                const std::string& problem) {
  constexpr int kLetters = 112;
  Drawing out{.svg = text_at(kSvgMargin, 42, 22, kInk, "start", title, " font-weight=\"700\""), .bottom = 68};
  out.svg += text_at(kSvgWidth - kSvgMargin, 42, 18, kFinal, "end", result, " font-weight=\"700\"");
  const auto lines = about.empty() ? 0 : wrap_columns(about, kLetters).size();
  if (lines > 0) out.svg += paragraph(out.bottom, 14, kLetters, about);
  out.bottom += 20.0 * static_cast<double>(lines);
  out.svg += text_at(kSvgMargin, out.bottom, 14, kInk, "start", problem);
  out.bottom += 18;
  return out;
}

std::string key_at(double y, Language language, bool is_ring) {
  const bool zh = language == Language::kChinese;
  const std::string ring =
      zh ? "行是 rank，列是分块；橙框：这一步从上一行（第一行从最后一行）收到；数字：已相加的 rank 数；绿色：完成"
         : "Rows are ranks, columns parts. Orange: just came from the row above (the first from the "
           "last). Number: ranks added up. Green: complete.";
  const std::string lanes = zh ? "箭头：一条消息；绿色：完整结果；蓝色：自己的数据或部分和，交出后变浅"
                               : "Arrow: one message. Green: the result, whole. Blue: own data or a part of the sum, "
                                 "pale once it was passed on.";
  return paragraph(y, 13, 122, is_ring ? ring : lanes);
}

}  // namespace

std::string teach_schedule_svg(const Schedule& schedule, Language language) {
  const TeachWords& words = words_of(schedule.algorithm);
  const std::string title = words.title.in(language), about = words.about.in(language);
  const Drawing head = heading(title, result_text(schedule, language), about, problem_text(schedule, language));
  if (schedule.transfers.empty()) {
    return page(
        head.bottom + 40, title, about,
        head.svg + text_at(kSvgMargin, head.bottom + 14, 14, kInk, "start", teach_labels().one_rank.in(language)));
  }
  const bool is_ring = has_parts(schedule.algorithm);
  const Drawing drawing = is_ring ? draw_squares(schedule, language, head.bottom) : draw_lanes(schedule, head.bottom);
  return page(drawing.bottom + 54, title, about,
              head.svg + drawing.svg + key_at(drawing.bottom + 16, language, is_ring));
}

std::string teach_comparison_svg(const std::vector<Schedule>& all, Language language) {
  constexpr double kLeft = 330, kRight = 740, kRow = 44;
  const TeachLabels& labels = teach_labels();
  const std::string title = language == Language::kChinese ? "集合通信用时" : "What collectives cost";
  const std::string about = problem_text(all.front(), language);
  const Drawing head = heading(title, "", "", about);
  double longest_s = 1e-300, y = head.bottom + 20;
  for (const Schedule& schedule : all) longest_s = std::max(longest_s, schedule.time_s());
  std::string body = head.svg;
  for (const Schedule& schedule : all) {
    const double width = (kRight - kLeft) * schedule.time_s() / longest_s;
    const bool is_ring = has_parts(schedule.algorithm);
    body += text_at(kLeft - 14, y + 17, 14, kInk, "end", words_of(schedule.algorithm).title.in(language));
    body += rectangle(kLeft, y, std::max(1.0, width), 24, 3, filled(is_ring ? kFinal : kPartial, 0.85));
    body +=
        text_at(kLeft + width + 10, y + 12, 14, kInk, "start", time_text(schedule.time_s()), " font-weight=\"700\"");
    body += text_at(kLeft + width + 10, y + 26, 11, kMuted, "start",
                    cat(schedule.num_steps(), " ", labels.steps.in(language)));
    y += kRow;
  }
  return page(y + 8, title, about, body);
}

}  // namespace weft::cli
