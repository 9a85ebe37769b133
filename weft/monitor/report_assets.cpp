#include "weft/monitor/report_assets_impl.h"

namespace weft::detail {

// One accent; everything else is ink on paper. Contrast of text is at least 4.5 to 1 in both schemes.
const std::string_view kReportStyle = R"css(
:root {
  color-scheme: light dark;
  --paper: #faf9f6; --card: #ffffff; --ink: #1d2126; --soft: #5c636d; --hair: #e7e4dd; --accent: #0b6b66;
    --second: #a3470a; --bad: #b3261e; --good: #1a6e34;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #131619; --card: #1a1e22; --ink: #e9e7e2; --soft: #a2a9b2; --hair: #2d3338; --accent: #5fc9be;
      --second: #ffab70; --bad: #ff8a80; --good: #7fd59a;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body {
  margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto,
  "Helvetica Neue", "Noto Sans", "Liberation Sans", Arial, sans-serif; font-variant-numeric: tabular-nums;
}
main { max-width: 1080px; margin: 0 auto; padding: clamp(28px, 6vw, 72px) clamp(16px, 4vw, 48px) 48px; }
header { margin-bottom: clamp(28px, 5vw, 48px); }
.brand { margin: 0 0 10px; color: var(--accent); font-size: 13px; font-weight: 600; letter-spacing: .04em; }
h1 { margin: 0; font-size: clamp(26px, 4.6vw, 40px); line-height: 1.15; font-weight: 650; letter-spacing: -.02em;
  overflow-wrap: anywhere; text-wrap: balance; }
.subtitle { margin: 12px 0 0; max-width: 68ch; text-wrap: pretty; color: var(--soft); font-size: 17px;
  overflow-wrap: anywhere; }
h2 { margin: 0; font-size: 17px; line-height: 1.3; font-weight: 620; letter-spacing: -.005em; overflow-wrap: anywhere; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(160px, 1fr)); margin: 0 0 40px;
  border-top: 1px solid var(--hair); border-bottom: 1px solid var(--hair); }
.figures > div { padding: 20px 20px 20px 0; }
.figures dt { color: var(--soft); font-size: 14px; }
.figures dd { margin: 2px 0 0; font-size: 30px; line-height: 1.2; font-weight: 600; letter-spacing: -.02em; }
.figures .note { font-size: 13px; line-height: 1.45; font-weight: 400; letter-spacing: 0; color: var(--soft);
  margin-top: 4px; }
.card { background: var(--card); border: 1px solid var(--hair); border-radius: 12px; padding: 24px; margin: 0 0 20px; }
figure.card { padding-bottom: 16px; }
.head { display: flex; flex-wrap: wrap; justify-content: space-between; align-items: baseline; gap: 4px 24px;
  margin-bottom: 14px; }
.key { display: flex; flex-wrap: wrap; gap: 4px 18px; margin: 0; padding: 0; list-style: none; color: var(--soft);
  font-size: 14px; }
.key svg { width: 22px; height: 10px; margin-right: 7px; overflow: visible; }
.key .faint { opacity: .6; }
output { display: block; color: var(--soft); font-size: 14px; line-height: 21px; margin-top: 6px;
  } output:empty { display: none; }
.notes { margin: 6px 0 0; color: var(--soft); font-size: 14px; }
.wide { display: block; } .narrow { display: none; }
svg.chart { display: block; width: 100%; height: auto; overflow: visible; font-family: inherit; touch-action: pan-y; }
.chart .grid line { stroke: var(--hair); stroke-opacity: 1; }
.chart .axis text { fill: var(--soft); }
.chart .base, .chart .notch { stroke: var(--soft); stroke-opacity: .6; }
.faint { color: var(--accent); opacity: .3; } .faint path { stroke-width: 1; }
.line { color: var(--accent); } .line path { stroke-width: 2.25; stroke-linecap: round; }
.other { color: var(--second); } .other path { stroke-width: 2.25; stroke-linecap: round; }
.line .value, .other .value { stroke: none; } .chart .value { font-weight: 650; }
.dots { color: var(--ink); } .dots path { stroke-width: 1; stroke-opacity: .4; }
.dots circle { fill: var(--card); stroke-width: 1.75; }
.reference { color: var(--soft); } .reference line { stroke: var(--soft); stroke-width: 1.25; }
.reference text { fill: var(--ink); stroke: var(--card); stroke-width: 5; stroke-linejoin: round;
  stroke-dasharray: none; paint-order: stroke; }
.gaps line { stroke: var(--bad); } .empty { fill: var(--soft); font-size: 15px; }
.cursor { pointer-events: none; } .cursor line { stroke: var(--ink); stroke-opacity: .45; }
.cursor circle { fill: var(--accent); stroke: var(--card); stroke-width: 2; } .cursor circle.second { fill: var(--second); }
.facts { columns: 2 340px; column-gap: 20px; } .facts .card { display: inline-block; vertical-align: top; width: 100%;
  break-inside: avoid; }
.facts dl { margin: 12px 0 0; }
.facts dl div { display: flex; flex-wrap: wrap; justify-content: space-between; gap: 0 20px; padding: 8px 0;
  border-top: 1px solid var(--hair); }
.facts dl div:last-child { padding-bottom: 0; }
.facts dt { color: var(--soft); overflow-wrap: anywhere; }
.facts dd { margin: 0 0 0 auto; text-align: right; overflow-wrap: anywhere; }
.facts table tr:last-child > * { padding-bottom: 0; }
.scroll { overflow-x: auto; }
table { width: 100%; border-collapse: collapse; font-size: 15px; margin-top: 12px; }
th, td { padding: 8px 0 8px 20px; text-align: right; border-top: 1px solid var(--hair); white-space: nowrap; }
th:first-child, td:first-child { padding-left: 0; text-align: left; white-space: normal; overflow-wrap: anywhere;
  font-weight: inherit; }
thead th { color: var(--soft); font-weight: 500; border-top: 0; }
summary { cursor: pointer; font-size: 17px; font-weight: 620; }
summary:focus-visible { outline: 2px solid var(--accent); outline-offset: 4px; border-radius: 4px; }
footer { margin-top: 32px; color: var(--soft); font-size: 13px; }
@media (max-width: 860px) { .wide .chart { font-size: 16px; } }
@media (max-width: 640px) {
  .wide { display: none; } .narrow { display: block; }
  .card { padding: 18px 16px; border-radius: 10px; }
  .figures { grid-template-columns: 1fr 1fr; margin-bottom: 28px; } .figures > div { padding: 14px 12px 14px 0; }
  .figures dd { font-size: 24px; }
  th, td { padding-left: 12px; }
}
@media print {
  :root { --paper: #fff; --card: #fff; --ink: #000; --soft: #444; --hair: #ccc; --accent: #0b6b66; --second: #a3470a;
    --bad: #b3261e; --good: #1a6e34; color-scheme: light; }
  main { max-width: none; padding: 0; } body { font-size: 11pt; }
  .card, .figures { break-inside: avoid; } output { display: none; }
}
)css";

}  // namespace weft::detail
