#include "weft/monitor/report_assets_impl.h"

namespace weft::detail {

// Without it the page loses the read-out, the timeline, sorting and filtering; everything else stands in the markup. Every chart
// shares one cursor, found by step.
const std::string_view kReportScript = R"js(
const numberText = (v, digits) => v === null ? 'not a number' : v.toLocaleString('en', { maximumFractionDigits: digits });
(() => {
  const root = document.documentElement, group = document.querySelector('.switch');
  const speak = language => {
    root.dataset.lang = language;
    root.lang = language === 'zh' ? 'zh-Hans' : 'en';
    for (const button of group.children) button.setAttribute('aria-pressed', button.dataset.to === language);
  };
  group.hidden = false;
  group.addEventListener('click', event => { if (event.target.dataset.to) speak(event.target.dataset.to); });
  if ((navigator.language || '').startsWith('zh')) speak('zh');
})();
(() => {
  const data = JSON.parse(document.getElementById('points').textContent);
  const make = (name, parent) => parent.appendChild(document.createElementNS(parent.namespaceURI, name));
  const set = (element, attributes) => { for (const key in attributes) element.setAttribute(key, attributes[key]); };
  const charts = [...document.querySelectorAll('svg.chart')].flatMap(svg => {
    const figure = svg.closest('figure'), series = data.charts[figure.dataset.kind];
    if (!series || !series.some(s => s.y.length) || !svg.querySelector('.axis')) return [];
    const numbers = key => svg.dataset[key].split(' ').map(Number);
    const title = svg.querySelector('title');
    svg.setAttribute('aria-label', title.textContent);  // the browser's own tooltip would cover the read-out
    title.remove();
    const cursor = make('g', svg);
    cursor.setAttribute('class', 'cursor');
    cursor.style.display = 'none';
    return [{ svg, series, plot: numbers('plot'), x: numbers('x'), y: numbers('y'), log: 'logY' in svg.dataset, cursor,
      line: make('line', cursor), dots: series.map(s => s.dot ? make('circle', cursor) : null),
      output: figure.querySelector('output') }];
  });
  const nearest = (steps, x) => {
    let low = 0, high = steps.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (steps[middle] < x) low = middle + 1; else high = middle;
    }
    return low > 0 && x - steps[low - 1] < steps[low] - x ? low - 1 : low;
  };
  const invitation = 'Point at the curve to read a step.';
  const place = (c, step) => {
    const [left, top, right, bottom] = c.plot;
    const scale = c.log ? Math.log : v => v, [low, high] = c.y.map(scale);
    const words = [];
    let at = step;
    c.series.forEach((s, k) => {
      const steps = data.xs[s.x], i = nearest(steps, step), value = s.y[i];
      if (!steps.length) return;
      if (k === 0) at = steps[i];
      words.push(`${s.name} ${numberText(value, s.digits)}`);
      if (!c.dots[k]) return;
      const share = value === null ? 0 : Math.min(1, Math.max(0, (scale(value) - low) / (high - low)));
      const x = left + (steps[i] - c.x[0]) / (c.x[1] - c.x[0]) * (right - left);
      set(c.dots[k], { cx: x, cy: bottom - share * (bottom - top), r: value === null ? 0 : 4.5, class: c.dots.slice(0, k).some(Boolean) ? 'second' : '' });
    });
    const x = Math.min(right, Math.max(left, left + (at - c.x[0]) / (c.x[1] - c.x[0]) * (right - left)));
    set(c.line, { x1: x, x2: x, y1: top, y2: bottom });
    c.cursor.style.display = '';
    c.output.textContent = `Step ${numberText(at, 0)}: ${words.join(', ')}`;
  };
  const hide = () => charts.forEach(c => { c.cursor.style.display = 'none'; c.output.textContent = invitation; });
  hide();
  charts.forEach(c => {
    c.svg.addEventListener('pointermove', event => {
      const box = c.svg.getBoundingClientRect();
      const at = (event.clientX - box.left) / box.width * c.svg.viewBox.baseVal.width;
      const step = c.x[0] + (at - c.plot[0]) / (c.plot[2] - c.plot[0]) * (c.x[1] - c.x[0]);
      charts.forEach(other => place(other, step));
    });
    c.svg.addEventListener('pointerleave', hide);
  });
})();
for (const table of document.querySelectorAll('table.sortable')) {
  const body = table.tBodies[0];
  table.tHead.addEventListener('click', event => {
    const head = event.target.closest('th');
    if (!head) return;
    const down = head.getAttribute('aria-sort') !== 'descending', key = row => {
      const cell = row.cells[head.cellIndex];
      return 'value' in cell.dataset ? (cell.dataset.value === '' ? -Infinity : Number(cell.dataset.value)) : cell.textContent;
    };
    for (const other of head.parentNode.cells) other.removeAttribute('aria-sort');
    head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
    const rows = [...body.rows].sort((a, b) => {
      const x = key(a), y = key(b);
      return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1);
    });
    body.append(...rows);
  });
}
for (const table of document.querySelectorAll('table.settings')) {
  const part = table.closest('section'), filter = part.querySelector('.filter'), output = part.querySelector('output');
  const [search, defaults] = filter.querySelectorAll('input');
  const show = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const row of table.tBodies[0].rows) {
      const text = [...row.cells].map(cell => cell.textContent).join(' ').toLowerCase();
      // Who looks for a setting by name wants to find it, default or not.
      const folded = row.classList.contains('default') && !defaults.checked && !words.length;
      row.hidden = folded || !words.every(word => text.includes(word));
      count += row.hidden ? 0 : 1;
    }
    output.textContent = `${count} of ${table.tBodies[0].rows.length} settings`;
  };
  filter.hidden = false;
  search.addEventListener('input', show);
  defaults.addEventListener('change', show);
  show();
  addEventListener('beforeprint', () => { for (const row of table.tBodies[0].rows) row.hidden = false; });
  addEventListener('afterprint', show);
}
)js";

}  // namespace weft::detail
