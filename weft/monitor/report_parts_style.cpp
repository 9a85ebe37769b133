#include "weft/monitor/report_assets_impl.h"

namespace weft::detail {

// The parts of a step keep their colours in every picture; waiting is the one that warns.
const std::string_view kReportPartsStyle = R"css(
:root { --p0: #b08d2f; --p1: #2a8f8a; --p2: #2f6bb0; --p3: #cf4a2e; --p4: #7b5fb5; --p5: #c77ba8; --p6: #b9bcc2; }
@media (prefers-color-scheme: dark) {
  :root { --p0: #cfae5a; --p1: #4fb3ad; --p2: #5f97d8; --p3: #f07a5c; --p4: #a48ede; --p5: #dd9cc3; --p6: #6b727b; }
}
html:not([data-lang=zh]) [lang=zh], html[data-lang=zh] [lang=en] { display: none; }
.top { display: flex; justify-content: space-between; align-items: baseline; gap: 16px; }
.switch { margin: 0; font-size: 13px; }
button, select, input[type=search] { font: inherit; font-size: 14px; color: var(--ink); background: var(--card);
  border: 1px solid var(--hair); border-radius: 7px; padding: 3px 10px; min-height: 30px; }
.switch button { border-color: transparent; background: none; color: var(--soft); padding: 2px 8px; min-height: 0; }
.switch button[aria-pressed=true] { color: var(--ink); border-color: var(--hair); background: var(--card); }
button { cursor: pointer; } button:hover { border-color: var(--soft); }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
.state { font-weight: 600; color: var(--accent); margin-right: .5em; } .state.missed { color: var(--bad); }
.card > p { margin: 10px 0 0; max-width: 78ch; } .card > p.notes { font-size: 14px; }
.problem { border-left: 4px solid var(--bad); }
pre { margin: 14px 0 0; padding: 12px 14px; background: var(--paper); border-radius: 8px; font-size: 12.5px; line-height: 1.5;
  white-space: pre-wrap; overflow-wrap: anywhere; max-height: 320px; overflow-y: auto; }
code { font: 13px/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace; overflow-wrap: anywhere; }
ul.plain { margin: 10px 0 0; padding-left: 20px; }
.targets td, .targets th { text-align: left; white-space: normal; } .targets .value { font-weight: 620; white-space: nowrap; }
.targets td:nth-child(4) { white-space: nowrap; } .targets .how { color: var(--soft); font-size: 14px; } .targets tbody th { font-weight: 550; }
.mark span { display: inline-block; border-radius: 20px; padding: 0 10px; font-size: 13px; line-height: 22px; white-space: nowrap;
  font-weight: 600; }
html:not([data-lang=zh]) .mark [lang=zh], html[data-lang=zh] .mark [lang=en], .mark span:empty { display: none; }
.met .mark span { color: var(--good); background: color-mix(in srgb, var(--good) 14%, transparent); }
.missed .mark span { color: var(--bad); background: color-mix(in srgb, var(--bad) 14%, transparent); }
.unknown .mark span { color: var(--soft); background: color-mix(in srgb, var(--soft) 14%, transparent); }
.unknown .value { color: var(--soft); font-weight: 400; }
.fill-0 { background: var(--p0); } .fill-1 { background: var(--p1); } .fill-2 { background: var(--p2); }
.fill-3 { background: var(--p3); } .fill-4 { background: var(--p4); } .fill-5 { background: var(--p5); }
.fill-6 { background: var(--p6); }
.part-0 { fill: var(--p0); } .part-1 { fill: var(--p1); } .part-2 { fill: var(--p2); } .part-3 { fill: var(--p3); }
.part-4 { fill: var(--p4); } .part-5 { fill: var(--p5); } .part-6 { fill: var(--p6); }
svg.stack path { shape-rendering: crispEdges; } .largest { color: var(--soft); stroke-opacity: .55; }
.stackbar { display: flex; height: 26px; border-radius: 6px; overflow: hidden; } .stackbar i { display: block; min-width: 1px; }
.partkey { display: flex; flex-wrap: wrap; gap: 4px 20px; margin: 12px 0 18px; padding: 0; list-style: none; font-size: 14px;
  color: var(--soft); }
.partkey i { display: inline-block; width: 11px; height: 11px; border-radius: 3px; margin-right: 7px; }
.partkey b { color: var(--ink); font-weight: 600; }
.bars { margin: 14px 0 0; } .bars > div { display: grid; grid-template-columns: minmax(0, 260px) 1fr; gap: 0 16px; padding: 5px 0;
  align-items: center; }
.bars dt { color: var(--soft); font-size: 15px; } .bars dd { margin: 0; display: flex; align-items: center; gap: 10px; }
.bars i { height: 16px; border-radius: 4px; min-width: 2px; flex: 0 1 auto; } .bars b { font-weight: 600; white-space: nowrap; }
i.main { background: var(--accent); } i.weak { background: var(--p6); } i.good { background: var(--good); }
i.second { background: var(--second); }
.memory .pair { width: 40%; min-width: 110px; } .pair i { display: block; height: 7px; border-radius: 3px; margin: 2px 0; }
.total > * { font-weight: 600; }
.tall { max-height: 560px; overflow-y: auto; } .tall thead th { position: sticky; top: 0; background: var(--card); z-index: 1; }
.ranks { font-size: 14px; } .ranks td, .ranks th { padding: 5px 0 5px 18px; } .ranks th:first-child { padding-left: 6px; white-space: nowrap; }
.slow > * { background: color-mix(in srgb, var(--bad) 9%, transparent); } .ranks em { color: var(--bad); font-style: normal; font-weight: 600; }
.busy { background-image: linear-gradient(to left, color-mix(in srgb, var(--accent) 22%, transparent) var(--share), transparent 0);
  background-size: calc(100% - 18px) 100%; background-position: right; background-repeat: no-repeat; }
.sortable thead th { cursor: pointer; } .sortable thead th[aria-sort]::after { content: " ↓"; }
.sortable thead th[aria-sort=ascending]::after { content: " ↑"; }
.flag { border-left: 3px solid var(--bad); padding-left: 12px; } .flag b { color: var(--bad); }
.advice { list-style: none; margin: 12px 0 0; padding: 0; } .advice li { padding: 10px 0; border-top: 1px solid var(--hair); }
.advice p { margin: 0; } .advice .fix { color: var(--soft); margin-top: 2px; } .advice b { margin-right: 6px; }
.advice .error b { color: var(--bad); } .advice .warning b { color: var(--second); } .advice .advice b { color: var(--accent); }
.filter { display: flex; flex-wrap: wrap; gap: 10px 20px; align-items: center; margin-top: 12px; } .filter[hidden] { display: none; }
.filter input[type=search] { flex: 1 1 200px; max-width: 360px; min-width: 0; } .filter label { font-size: 14px; color: var(--soft); }
.settings td, .settings th { text-align: left; white-space: normal; overflow-wrap: anywhere; vertical-align: top; padding-top: 5px; padding-bottom: 5px; }
.settings td:last-child { color: var(--soft); font-size: 14px; } .settings .default { color: var(--soft); }
.tools { display: flex; flex-wrap: wrap; gap: 8px 10px; align-items: center; font-size: 14px; color: var(--soft); }
.lanes { max-height: 620px; overflow-y: auto; overflow-x: hidden; } canvas { display: block; width: 100%; }
.lanes canvas { touch-action: pan-y; cursor: crosshair; } .timeline output { min-height: 21px; }
.same td { color: var(--soft); } .changed { font-weight: 600; } .worse { color: var(--bad); } .better { color: var(--good); }
.sides { display: grid; grid-template-columns: minmax(60px, max-content) 1fr; gap: 10px 16px; align-items: center; margin-top: 14px; }
.swatch { display: inline-block; width: 11px; height: 11px; border-radius: 3px; margin-right: 8px; }
.sides b { overflow-wrap: anywhere; } .dot-a { color: var(--accent); } .dot-b { color: var(--second); }
@media (max-width: 640px) {
  .bars > div { grid-template-columns: 1fr; } .targets thead { display: none; }
  .targets tr { display: grid; grid-template-columns: 1fr auto; gap: 0 12px; border-top: 1px solid var(--hair); padding: 10px 0; }
  .targets tr > * { border: 0; padding: 0; } .targets .mark { order: 2; text-align: right; } .targets tbody th { order: 1; }
  .targets .value { order: 3; } .targets td:nth-child(4) { order: 4; text-align: right; color: var(--soft); font-size: 14px; }
  .targets .how { order: 5; grid-column: 1 / -1; }
  tbody th:first-child { min-width: 92px; } .memory .pair, .memory thead th:nth-child(2) { display: none; }
  .compared { font-size: 13.5px; } .compared td, .compared th { padding-left: 8px; }
  .compared th:first-child { padding-left: 0; } .compared tbody th:first-child { min-width: 74px; }
  .compared thead th { white-space: normal; overflow-wrap: anywhere; }
  .compared thead th:last-child, .settings thead th { overflow-wrap: normal; }
  .tools { width: 100%; } .settings td:last-child { min-width: 90px; }
}
@media print {
  :root { --p0: #b08d2f; --p1: #2a8f8a; --p2: #2f6bb0; --p3: #cf4a2e; --p4: #7b5fb5; --p5: #c77ba8; --p6: #b9bcc2; }
  * { -webkit-print-color-adjust: exact; print-color-adjust: exact; }
  .switch, .tools, .filter { display: none; } .tall, .lanes, pre { max-height: none; overflow: visible; }
}
)css";

}  // namespace weft::detail
