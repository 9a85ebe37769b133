#include "weft/monitor/report_assets_impl.h"

namespace weft::detail {

// Spans on a canvas, a lane for each track of each rank. Ten thousand of them are drawn anew at each movement, which is what a
// canvas does well and a tree of elements does not.
const std::string_view kTimelineScript = R"js(
(() => {
  const part = document.getElementById('timeline');
  if (!part) return;
  const data = JSON.parse(part.querySelector('.data').textContent);
  const canvas = part.querySelector('canvas.spans'), ruler = part.querySelector('canvas.ruler'), output = part.querySelector('output');
  const stepSelect = part.querySelector('.steps'), rankSelect = part.querySelector('.which');
  const colours = { forward: '--p1', backward: '--p2', optimizer: '--p4', bucket: '--p6', reduce: '--p5', gather: '--p0', exposed_wait: '--p3',
    data: '--soft', disk: '--second', step: '--hair', other: '--p6' };
  const NAME = 3, CATEGORY = 4;
  const lanesOf = new Map();
  data.spans.forEach(s => { if (!lanesOf.has(s[0])) lanesOf.set(s[0], []); lanesOf.get(s[0]).push(s); });
  // Longer ones first, so that what nests inside is drawn on top.
  for (const spans of lanesOf.values()) spans.sort((a, b) => a[1] - b[1] || b[2] - a[2]);
  const ranks = [...new Set(data.rows.map(r => r[0]))].sort((a, b) => a - b);
  let first = Infinity, last = -Infinity;
  for (const s of data.spans) { first = Math.min(first, s[1]); last = Math.max(last, s[2]); }
  if (!(last > first)) last = first + 1;
  let home = [first, last], view = [first, last], lanes = [], laneHeight = 20, drag = null, hovered = null;
  const label = () => canvas.clientWidth < 500 ? 64 : 118;
  const option = (select, value, text) => select.add(new Option(text, value));
  option(stepSelect, -1, 'all');
  data.steps.forEach((s, i) => option(stepSelect, i, s[0].toLocaleString('en')));
  option(rankSelect, '', `all ${ranks.length}`);
  ranks.forEach(r => option(rankSelect, r, `rank ${r}`));
  const layOut = () => {
    const only = rankSelect.value;
    lanes = data.rows.map((r, i) => ({ rank: r[0], track: data.names[r[1]], spans: lanesOf.get(i) || [] }))
      .filter(l => l.spans.length && (only === '' || String(l.rank) === only)).sort((a, b) => a.rank - b.rank);
    laneHeight = lanes.length <= 24 ? 20 : lanes.length <= 96 ? 12 : 8;
  };
  const gap = i => lanes[i].rank === (lanes[i - 1] || lanes[i]).rank ? 0 : laneHeight > 10 ? 6 : 2;
  const place = () => { let y = 4; lanes.forEach((l, i) => { y += i ? gap(i) : 0; l.y = y; y += laneHeight; }); return y + 4; };
  const fit = (c, width, height) => {
    const ratio = devicePixelRatio || 1;
    c.width = Math.round(width * ratio); c.height = Math.round(height * ratio);
    c.style.height = `${height}px`;
    const context = c.getContext('2d');
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    return context;
  };
  const toX = (t, width) => label() + (t - view[0]) / (view[1] - view[0]) * (width - label());
  const toTime = (x, width) => view[0] + (x - label()) / (width - label()) * (view[1] - view[0]);
  const timeText = (ns, span) => span < 2e4 ? `${ns.toFixed(0)} ns` : span < 2e7 ? `${(ns / 1e3).toFixed(span < 2e6 ? 1 : 0)} µs`
    : `${(ns / 1e6).toFixed(span < 2e8 ? 1 : 0)} ms`;
  const style = name => getComputedStyle(part).getPropertyValue(name).trim();
  const drawRuler = width => {
    const context = fit(ruler, width, 24), span = view[1] - view[0], rough = span / Math.max(2, (width - label()) / 90);
    const power = 10 ** Math.floor(Math.log10(rough)), step = [1, 2, 5, 10].map(f => f * power).find(d => d >= rough);
    context.fillStyle = style('--soft'); context.font = '12px system-ui, sans-serif'; context.textAlign = 'center';
    for (let t = Math.ceil((view[0] - home[0]) / step) * step; t <= view[1] - home[0]; t += step) {
      const x = toX(t + home[0], width);
      context.fillText(timeText(t, span), Math.min(width - 24, Math.max(label() + 18, x)), 14);
      context.fillRect(x, 19, 1, 5);
    }
  };
  const draw = () => {
    const height = place(), width = canvas.clientWidth;
    if (!width) return;
    const context = fit(canvas, width, height), paint = {};
    for (const key in colours) paint[key] = style(colours[key]);
    drawRuler(width);
    context.textBaseline = 'middle'; context.font = `${Math.min(12, laneHeight - 1)}px system-ui, sans-serif`;
    context.save();
    context.beginPath(); context.rect(label(), 0, width - label(), height); context.clip();
    context.fillStyle = style('--hair');
    data.steps.forEach(s => { for (const t of [s[1], s[2]]) context.fillRect(toX(t, width), 0, 1, height); });
    lanes.forEach(lane => {
      let drawnTo = -1, drawnColour = '';
      for (const s of lane.spans) {
        if (s[2] < view[0] || s[1] > view[1]) continue;
        const x = toX(s[1], width), right = Math.max(x + 1, toX(s[2], width)), colour = paint[data.names[s[CATEGORY]]] || paint.other;
        if (right <= drawnTo && right - x < 1.5 && colour === drawnColour) continue;  // nothing of it would be seen
        context.fillStyle = colour;
        context.fillRect(x, lane.y, right - x, laneHeight - 2);
        if (s === hovered) { context.strokeStyle = style('--ink'); context.lineWidth = 2; context.strokeRect(x, lane.y + 1, right - x, laneHeight - 4); }
        if (right - x > 46 && laneHeight >= 18) {
          context.fillStyle = '#fff';
          if (data.names[s[CATEGORY]] === 'step') context.fillStyle = style('--soft');
          const room = Math.floor((Math.min(right, width) - Math.max(x, label()) - 8) / 6.5), name = data.names[s[NAME]];
          if (room > 3) context.fillText(name.length > room ? name.slice(0, room - 1) + '…' : name, Math.max(x, label()) + 4, lane.y + laneHeight / 2 - .5);
        }
        drawnTo = right; drawnColour = colour;
      }
    });
    if (drag) {
      context.fillStyle = style('--ink'); context.globalAlpha = .12;
      context.fillRect(Math.min(drag.from, drag.to), 0, Math.abs(drag.to - drag.from), height);
      context.globalAlpha = 1;
    }
    context.restore();
    context.textAlign = 'left';
    lanes.forEach((lane, i) => {
      const isFirst = i === 0 || lanes[i - 1].rank !== lane.rank, y = lane.y + laneHeight / 2 - 1;
      if (isFirst) {
        context.fillStyle = style('--ink'); context.font = `600 ${laneHeight < 10 ? 10 : 12}px system-ui, sans-serif`;
        const wide = laneHeight >= 12, often = laneHeight >= 10 || (lanes.length / ranks.length) * laneHeight >= 11;
        if (often || lane.rank % 4 === 0) context.fillText(wide && label() > 100 ? `rank ${lane.rank}` : `${lane.rank}`, 2, y);
      }
      if (laneHeight >= 12) {
        context.fillStyle = style('--soft'); context.font = `${laneHeight >= 18 ? 12 : 10}px system-ui, sans-serif`;
        const name = lane.track === 'exposed wait' ? 'wait' : lane.track;
        context.fillText(name.slice(0, 9), label() > 100 ? 56 : 18, y);
      }
    });
    canvas.dataset.view = view.join(' ');
    canvas.dataset.lanes = lanes.length;
  };
  let queued = false;
  const redraw = () => { if (!queued) { queued = true; requestAnimationFrame(() => { queued = false; draw(); }); } };
  const look = (low, high) => {
    const least = 50, most = last - first, width = Math.min(most, Math.max(least, high - low));
    low = Math.min(last - width, Math.max(first, (low + high) / 2 - width / 2));
    view = [low, low + width];
    redraw();
  };
  const zoom = (factor, at) => look(at - (at - view[0]) * factor, at + (view[1] - at) * factor);
  const move = share => look(view[0] + (view[1] - view[0]) * share, view[1] + (view[1] - view[0]) * share);
  const middle = () => (view[0] + view[1]) / 2;
  const reset = () => look(home[0], home[1]);
  const choose = () => {
    const s = data.steps[stepSelect.value];
    home = s ? [s[1], s[2]] : [first, last];
    reset();
  };
  const spanAt = (x, y) => {
    const lane = lanes.find(l => y >= l.y && y < l.y + laneHeight);
    if (!lane || x < label()) return null;
    const t = toTime(x, canvas.clientWidth), slack = (view[1] - view[0]) / canvas.clientWidth;
    let found = null;
    for (const s of lane.spans) {
      if (s[1] > t + slack) break;
      if (s[2] >= t - slack && (!found || s[2] - s[1] <= found[2] - found[1])) found = s;
    }
    return found && { lane, span: found };
  };
  const bytesText = b => b < 1024 ? `${b} B` : b < 1 << 20 ? `${(b / 1024).toFixed(1)} KiB` : `${(b / 1048576).toFixed(1)} MiB`;
  const read = (x, y) => {
    const hit = spanAt(x, y);
    if ((hit && hit.span) !== hovered) { hovered = hit && hit.span; redraw(); }
    if (!hit) { output.textContent = '\u00a0'; return; }
    const s = hit.span, extra = (s[5] >= 0 ? `, bucket ${s[5]}` : '') + (s[6] >= 0 ? `, ${bytesText(s[6])}` : '');
    output.textContent = `Rank ${hit.lane.rank}, ${hit.lane.track}: ${data.names[s[NAME]]}${extra}, ` +
      `${((s[2] - s[1]) / 1e6).toFixed(3)} ms, from ${((s[1] - home[0]) / 1e6).toFixed(3)} ms`;
  };
  const at = event => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
  canvas.addEventListener('wheel', event => {
    event.preventDefault();
    const [x] = at(event), [by, side] = [event.deltaY, event.shiftKey ? event.deltaY : event.deltaX];
    if (Math.abs(side) > Math.abs(by) || event.shiftKey) move(Math.sign(side) * .1);
    else zoom(by > 0 ? 1.25 : .8, toTime(Math.max(label(), x), canvas.clientWidth));
  }, { passive: false });
  canvas.addEventListener('pointerdown', event => {
    const [x] = at(event);
    if (event.button || x < label()) return;
    drag = { from: x, to: x };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener('pointermove', event => {
    const [x, y] = at(event);
    if (drag) { drag.to = Math.max(label(), x); redraw(); } else read(x, y);
  });
  const drop = event => {
    if (!drag) return;
    const width = canvas.clientWidth, [from, to] = [Math.min(drag.from, drag.to), Math.max(drag.from, drag.to)];
    drag = null;
    if (event.type === 'pointerup' && to - from > 4) look(toTime(from, width), toTime(to, width)); else redraw();
  };
  canvas.addEventListener('pointerup', drop);
  canvas.addEventListener('pointercancel', drop);
  canvas.addEventListener('pointerleave', () => { if (!drag) { hovered = null; output.textContent = '\u00a0'; redraw(); } });
  canvas.addEventListener('dblclick', reset);
  canvas.addEventListener('keydown', event => {
    const acts = { '+': () => zoom(.7, middle()), '=': () => zoom(.7, middle()), '-': () => zoom(1.4, middle()), 0: reset, Home: reset,
      Escape: reset, ArrowLeft: () => move(-.15), ArrowRight: () => move(.15) };
    if (!acts[event.key] || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    acts[event.key]();
  });
  part.querySelector('.in').addEventListener('click', () => zoom(.6, middle()));
  part.querySelector('.out').addEventListener('click', () => zoom(1.6, middle()));
  part.querySelector('.reset').addEventListener('click', reset);
  stepSelect.addEventListener('change', choose);
  rankSelect.addEventListener('change', () => { layOut(); redraw(); });
  const key = part.querySelector('.partkey'), seen = new Set(data.spans.map(s => data.names[s[CATEGORY]]));
  for (const name of Object.keys(colours).filter(n => seen.has(n) && n !== 'step')) {
    const item = key.appendChild(document.createElement('li')), swatch = item.appendChild(document.createElement('i'));
    swatch.style.background = `var(${colours[name]})`;
    item.append(name.replace('_', ' '));
  }
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
  addEventListener('beforeprint', draw);
  new ResizeObserver(redraw).observe(canvas);
  layOut();
  if (data.steps.length) stepSelect.value = data.steps.length - 1;
  choose();
})();
)js";

}  // namespace weft::detail
