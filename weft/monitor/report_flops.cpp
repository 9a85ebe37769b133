#include <algorithm>

#include "weft/base/text.h"
#include "weft/monitor/html.h"
#include "weft/monitor/numbers.h"
#include "weft/monitor/report_html_impl.h"

namespace weft::detail {
namespace {

constexpr size_t kMaxFlopsRows = 80;

std::string flop_text(double flops) { return is_drawable(flops) ? cat(significant_text(flops * 1e-9, 4), " G") : ""; }

double total_of(const FlopsRow& row) {
  double out = 0;
  for (const double part : {row.forward, row.backward, row.recomputed}) out += is_drawable(part) ? part : 0;
  return out;
}

// So deep that the table stays readable; the file has the rest.
int64_t depth_shown(const std::vector<FlopsRow>& modules) {
  int64_t depth = 0;
  for (const FlopsRow& row : modules) depth = std::max(depth, row.depth);
  const auto num_rows = [&] {
    return std::ranges::count_if(modules, [&](const FlopsRow& row) { return row.depth <= depth; });
  };
  while (depth > 1 && num_rows() > static_cast<std::ptrdiff_t>(kMaxFlopsRows)) --depth;
  return depth;
}

std::string cell(const std::string& text) { return cat("<td>", text, "</td>"); }

std::string module_row(const FlopsRow& row, const std::string& name, double total) {
  const double share = total > 0 ? 100 * total_of(row) / total : 0;
  const bool has_parameters = row.num_parameters >= 0 && row.num_parameters < 1e18;
  return cat("<tr><th scope=\"row\" style=\"padding-left:", fixed_text(1.2 * static_cast<double>(row.depth), 1),
             "em\"><code>", escape_html(name), "</code></th>", cell(escape_html(row.type)),
             cell(has_parameters ? grouped_text(static_cast<int64_t>(row.num_parameters)) : ""),
             cell(flop_text(row.forward)), cell(flop_text(row.backward)), cell(flop_text(row.recomputed)),
             "<td class=\"busy\" style=\"--share:", fixed_text(std::clamp(share, 0.0, 100.0), 1), "%\">",
             fixed_text(share, 1), " %</td>", cell(ms_text(row.ms)), "</tr>\n");
}

std::string last_name(const std::string& name) { return name.empty() ? "(model)" : name.substr(name.rfind('.') + 1); }

}  // namespace

std::string flops_section(const RunFiles& run) {
  if (!run.flops || run.flops->modules.empty()) return "";
  const RunFlops& flops = *run.flops;
  const int64_t depth = depth_shown(flops.modules);
  std::string rows;
  size_t num_rows = 0, num_left_out = 0;
  for (const FlopsRow& row : flops.modules) {
    const bool is_shown = row.depth <= depth && num_rows < kMaxFlopsRows;
    if (is_shown) rows += module_row(row, last_name(row.name), flops.total);
    ++(is_shown ? num_rows : num_left_out);
  }
  if (total_of(flops.elsewhere) > 0) rows += module_row(flops.elsewhere, "(elsewhere)", flops.total);
  std::string head;
  for (const Words& words :
       {Words{"module", "模块"}, Words{"type", "类型"}, Words{"parameters", "参数"}, Words{"forward", "前向"},
        Words{"backward", "反向"}, Words{"computed again", "重算"}, Words{"share", "占比"}, Words{"time", "时间"}})
    head += cat("<th scope=\"col\">", bilingual(words), "</th>");
  const std::string count = grouped_text(static_cast<int64_t>(num_left_out)), step = grouped_text(flops.step);
  const bool is_cut = num_left_out > 0;
  return card({"FLOPs by module", "各模块的浮点运算"},
              cat("<div class=\"scroll tall\"><table class=\"ranks\">\n<thead><tr>", head, "</tr></thead>\n<tbody>\n",
                  rows, "</tbody></table></div>\n<p class=\"notes\">",
                  bilingual({cat("Of step ", step, " on rank 0, ", flop_text(flops.total), "FLOP in all.",
                                 is_cut ? cat(" ", count, " deeper modules are in flops.json.") : ""),
                             cat("rank 0 第 ", step, " 步，共 ", flop_text(flops.total), "FLOP。",
                                 is_cut ? cat("另有 ", count, " 个更深的模块见 flops.json。") : "")}),
                  "</p>"));
}

}  // namespace weft::detail
