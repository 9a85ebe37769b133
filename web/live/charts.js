// Which charts there are, and drawing them with uPlot.

const PARTS = [['data_ms', 'data', '--c3'], ['forward_ms', 'forward', '--c2'], ['backward_ms', 'backward', '--c1'],
  ['exposed_comm_ms', 'waiting', '--c5'], ['optimizer_ms', 'optimizer', '--c4'], ['checkpoint_ms', 'saving', '--c7'], ['other_ms', 'other', '--c6']];

// As the report has it: waits lie inside the other parts and are taken out of them, first of what is in no part, which is where
// the engine waits for gradients; a save inside the step is in no other part.
const partsOf = () => {
  const out = {};
  for (const [c] of PARTS) if (column(c)) out[c] = [...column(c)];
  if (!out.forward_ms || !out.backward_ms) return {};
  const take = (from, i, most) => {
    const taken = Math.min(most, (out[from] && out[from][i]) || 0);
    if (taken > 0) out[from][i] -= taken;
    return taken;
  };
  curves.step.forEach((_, i) => {
    let wait = (out.exposed_comm_ms && out.exposed_comm_ms[i]) || 0;
    for (const from of ['other_ms', 'backward_ms', 'forward_ms', 'optimizer_ms']) wait -= take(from, i, wait);
    take('other_ms', i, (out.checkpoint_ms && out.checkpoint_ms[i]) || 0);
  });
  return out;
};

// Each gives lines {name, values, colour, width, fill, band} or nothing while the run records no such thing.
const noisy = (name, values, low, high) => {
  const lines = [];
  if (low && high && curves.stride > 1) {
    lines.push({ name: 'highest', values: high, colour: '--accent', width: 0, quiet: true });
    lines.push({ name: 'lowest', values: low, colour: '--accent', width: 0, quiet: true, bandTo: 1 });
    lines.push({ name: 'mean', values, colour: '--accent', width: 0, quiet: true });
  } else {
    lines.push({ name: curves.stride > 1 ? `every ${curves.stride} steps` : 'each step', values, colour: '--accent', width: 1, alpha: .35 });
  }
  lines.push({ name: curves.step.length < 20 ? name : 'smoothed', values: smooth(values), colour: '--accent', width: 2.25 });
  return lines;
};
// As in the report: a loss that falls from eleven to two spends most of a run in the lowest tenth of a plain axis.
const lossEnds = () => {
  const values = column('loss').filter(v => v !== null), low = column('loss', 'min').filter(v => v !== null);
  const sorted = [...values].sort((a, b) => a - b);
  return { low: low.reduce((a, b) => Math.min(a, b), Infinity), high: Math.max(values[0], sorted[Math.floor((sorted.length - 1) * .995)]) };
};
const isLogLoss = () => { const { low, high } = lossEnds(); return low > 0 && high / low > 3; };
const rangeOfLoss = () => {
  const { low, high } = lossEnds();
  if (!(high >= low)) return [0, 1];
  const pad = (high - low || Math.abs(high) || 1) * .05;
  return isLogLoss() ? [low * .95, high * 1.05] : [low - pad, high + pad];
};
// Where there is no GPU, as the target has it: processor time of the rank over its threads, or over one core where they are not known.
const cpuUse = () => {
  const cpu = column('gpu_percent') || state.words.device === 'cuda' ? null : column('cpu_percent'), threads = state.facts.threads;
  return cpu && cpu.map(v => v === null ? null : known(threads) && threads > 0 ? Math.min(100, v / threads) : v);
};
const CHARTS = [
  { id: 'loss', title: () => isLogLoss() ? 'Loss, logarithmic scale' : 'Loss', full: true, height: 300, format: loss, axis: tick, log: () => isLogLoss(),
    lines: () => { const v = column('loss'); return v && noisy('loss', v, column('loss', 'min'), column('loss', 'max')); },
    range: () => rangeOfLoss() },
  { id: 'rate', title: () => column('tokens_per_s') ? 'Tokens per second' : 'Samples per second', format: count, axis: tickCount, fromZero: true,
    lines: () => {
      const name = column('tokens_per_s') ? 'tokens_per_s' : 'samples_per_s', v = column(name);
      return v && noisy('rate', v, column(name, 'min'), column(name, 'max'));
    } },
  { id: 'parts', title: 'Where a step goes', format: ms, axis: tickMs, fromZero: true, stacked: true,
    lines: () => {
      const parts = partsOf(), present = PARTS.filter(([c]) => parts[c] && parts[c].some(v => v > 0));
      let sum = curves.step.map(() => 0);
      const lines = present.map(([c, name, colour]) => {
        const values = parts[c];
        sum = sum.map((s, i) => s + (values[i] || 0));
        return { name, values: sum, own: values, colour, width: 1, fill: true };
      });
      return lines.length ? lines.reverse() : null;  // the tallest first, so that the others are painted over it
    } },
  { id: 'comm', title: 'Waiting for communication', format: v => `${fixed(v, 1)} %`, axis: v => `${tick(v)} %`, fromZero: true,
    target: 20, unit: 'of computing',
    lines: () => {
      const parts = partsOf(), wait = parts.exposed_comm_ms;
      if (!wait) return null;
      return noisy('share', ratio(wait, wait.map((_, i) => ['forward_ms', 'backward_ms', 'optimizer_ms'].reduce((sum, c) => sum + ((parts[c] && parts[c][i]) || 0), 0)), 100));
    } },
  { id: 'memory', title: 'Memory of rank 0', format: bytes, axis: tickBytes, fromZero: true, binary: true,
    lines: () => {
      const lines = [['rss_bytes', 'resident', '--c2'], ['device_bytes', 'device, allocated', '--c1'], ['device_reserved_bytes', 'device, reserved', '--c4']]
        .filter(([c]) => column(c) && column(c).some(v => v > 0)).map(([c, name, colour]) => ({ name, values: column(c, 'max'), colour, width: 2 }));
      return lines.length ? lines : null;
    } },
  { id: 'use', title: () => column('gpu_percent') || cpuUse() ? 'Utilisation' : 'Share of peak (MFU)', format: v => `${fixed(v, 1)} %`, axis: v => `${fixed(v, 0)} %`, fromZero: true,
    lines: () => {
      const gpu = column('gpu_percent'), mfu = column('mfu'), lines = [];
      if (gpu) lines.push({ name: 'GPU', values: smooth(gpu), colour: '--c1', width: 2 });
      if (cpuUse()) lines.push({ name: 'CPU', values: smooth(cpuUse()), colour: '--c1', width: 2 });
      if (mfu) lines.push({ name: 'of peak (MFU)', values: smooth(mfu.map(v => v === null ? null : 100 * v)), colour: '--c4', width: 2 });
      return lines.length ? lines : null;
    },
    range: () => [0, Math.max(100, ...smooth(cpuUse() || []))] },
  { id: 'norm', title: 'Gradient norm', format: loss, axis: tick, fromZero: true,
    lines: () => { const v = column('grad_norm'); return v && noisy('norm', v, column('grad_norm', 'min'), column('grad_norm', 'max')); } },
];

// --- Charts ------------------------------------------------------------------------------------------------------

const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const withAlpha = (colour, alpha) => colour + Math.round(alpha * 255).toString(16).padStart(2, '0');
const charts = new Map();
const INVITATION = 'Point at the curve, or focus it and use the arrow keys.';

const makeFigure = spec => {
  const figure = el('figure', undefined, 'card' + (spec.full ? ' full' : ''));
  const head = el('div', undefined, 'head'), plot = el('div', undefined, 'plot'), output = el('output');
  const title = el('h2'), key = el('ul', undefined, 'key');
  head.append(title, key);
  plot.tabIndex = 0;
  plot.setAttribute('role', 'img');
  output.textContent = INVITATION;
  figure.append(head, plot, output);
  // In the order of CHARTS, whenever it appears.
  const later = CHARTS.slice(CHARTS.indexOf(spec) + 1).map(s => charts.get(s.id)).find(Boolean);
  $('charts').insertBefore(figure, later ? later.figure : null);
  const chart = { spec, figure, plot, output, title, key, u: null, shape: '', zoomed: false, lines: [] };
  plot.addEventListener('keydown', event => moveByKey(chart, event));
  plot.addEventListener('blur', () => { if (chart.u) chart.u.setCursor({ left: -10, top: -10 }); });
  new ResizeObserver(() => { if (chart.u) chart.u.setSize({ width: plot.clientWidth, height: heightOf(spec) }); }).observe(plot);
  return chart;
};
const heightOf = spec => (spec.height || 220) * (innerWidth < 640 ? .8 : 1);

const readOut = (chart, i) => {
  if (i === null || i === undefined || curves.step[i] === undefined) { chart.output.textContent = INVITATION; return; }
  const shown = chart.lines.filter(line => !line.quiet || curves.stride > 1).map(line => {
    const value = (line.own || line.values)[i];
    return `${line.name} ${known(value) ? chart.spec.format(value) : '\u2013'}`;
  });
  if (chart.spec.stacked) shown.reverse();
  const first = i > 0 ? curves.step[i - 1] + 1 : curves.step[i];
  const steps = curves.stride > 1 && first < curves.step[i] ? `Steps ${whole(first)}\u2013${whole(curves.step[i])}` : `Step ${whole(curves.step[i])}`;
  chart.output.textContent = `${steps}: ${shown.join(', ')}`;
};
const moveByKey = (chart, event) => {
  const n = curves.step.length, move = { ArrowLeft: -1, ArrowRight: 1, PageUp: -Math.ceil(n / 10), PageDown: Math.ceil(n / 10), Home: -n, End: n }[event.key];
  if (event.key === 'Escape') { chart.zoomed = false; draw(chart); return; }
  if (!move || !chart.u || !n) return;
  event.preventDefault();
  const at = chart.u.cursor.idx ?? (move > 0 ? -1 : n);
  const i = Math.min(n - 1, Math.max(0, at + move));
  chart.u.setCursor({ left: chart.u.valToPos(curves.step[i], 'x'), top: chart.u.over.clientHeight / 2 });
};

const drawTarget = (u, target) => {
  const y = u.valToPos(target, 'y', true), { left, width, top, height } = u.bbox;
  if (y < top || y > top + height) return;
  const c = u.ctx;
  c.save();
  c.strokeStyle = css('--soft');
  c.setLineDash([4 * devicePixelRatio, 4 * devicePixelRatio]);
  c.lineWidth = 1.25 * devicePixelRatio;
  c.beginPath();
  c.moveTo(left, y);
  c.lineTo(left + width, y);
  c.stroke();
  c.font = `${12 * devicePixelRatio}px system-ui, sans-serif`;
  c.textAlign = 'right';
  c.strokeStyle = css('--card');  // a rim, so that it can be read over the curve
  c.lineWidth = 5 * devicePixelRatio;
  c.lineJoin = 'round';
  c.setLineDash([]);
  const words = `target below ${target} %`, above = y - 6 * devicePixelRatio;
  c.strokeText(words, left + width, above);
  c.fillStyle = css('--ink');
  c.fillText(words, left + width, above);
  c.restore();
};

const binarySplits = (u, axis, low, high) => {
  const step = 2 ** Math.ceil(Math.log2((high - low) / 5 || 1)), out = [];
  for (let v = Math.ceil(low / step) * step; v <= high; v += step) out.push(v);
  return out;
};

// 1, 2, 3, 5 and 7 times powers of ten, where a range of a few doublings would have none but one.
const logSplits = (u, axis, low, high) => {
  const out = [];
  for (let power = 10 ** Math.floor(Math.log10(low)); power <= high; power *= 10)
    for (const m of [1, 2, 3, 5, 7]) if (m * power >= low && m * power <= high) out.push(m * power);
  return out;
};
const rangeOfChart = ({ spec, lines }) => {
  if (spec.range) return spec.range();
  const [low, high] = rangeOf(lines.map(line => line.values), spec.fromZero);
  // A target far above the curve would press the curve flat; it is left out then.
  return [low, spec.target && high > spec.target * .4 ? Math.max(high, spec.target * 1.15) : high];
};
const makePlot = (chart, data) => {
  const { spec, plot, lines } = chart;
  const font = '12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';
  const axis = { stroke: css('--soft'), font, grid: { stroke: css('--hair'), width: 1 }, ticks: { show: false } };
  const bands = [], isLog = spec.log && spec.log();
  lines.forEach((line, i) => { if (line.bandTo) bands.push({ series: [line.bandTo, i + 1], fill: withAlpha(css('--accent'), .18) }); });
  const options = {
    width: plot.clientWidth, height: heightOf(spec), legend: { show: false }, bands,
    cursor: { sync: { key: 'weft' }, y: false, drag: { x: true, y: false }, points: { size: 7 } },
    scales: {
      x: { time: false },
      y: { range: () => rangeOfChart(chart), ...(isLog ? { distr: 3, log: 10 } : {}) },
    },
    axes: [
      { ...axis, values: (u, splits) => splits.map(v => Number.isInteger(v) ? tickCount(v) : ''), grid: { show: false }, size: 30 },
      { ...axis, values: (u, splits) => splits.map(spec.axis), size: 62, gap: 6, ...(isLog ? { splits: logSplits, filter: (u, splits) => splits } : spec.binary ? { splits: binarySplits } : {}) },
    ],
    series: [{}, ...lines.map(line => ({
      label: line.name, width: line.width, points: { show: curves.step.length < 2 }, spanGaps: false,
      stroke: withAlpha(css(line.colour), line.alpha || 1), fill: line.fill ? withAlpha(css(line.colour), 1) : undefined,
    }))],
    hooks: {
      setCursor: [u => readOut(chart, u.cursor.idx)],
      setSelect: [u => { if (u.select.width > 0) chart.zoomed = true; }],
      draw: spec.target ? [u => drawTarget(u, spec.target)] : [],
    },
  };
  const u = new uPlot(options, data, plot);
  u.over.addEventListener('dblclick', () => { chart.zoomed = false; });
  return u;
};

const keyEntry = line => {
  const entry = el('li'), swatch = el('i', undefined, line.fill ? '' : 'line');
  swatch.style.background = withAlpha(css(line.colour), line.alpha || 1);
  entry.append(swatch, line.name);
  return entry;
};
const drawKey = chart => {
  const { key, lines, spec } = chart;
  const entries = (spec.stacked ? [...lines].reverse() : lines).filter(line => !line.quiet).map(keyEntry);
  if (lines.some(line => line.quiet)) {
    const entry = el('li'), swatch = el('i');
    swatch.style.background = withAlpha(css('--accent'), .25);
    entry.append(swatch, 'lowest to highest');
    entries.unshift(entry);
  }
  key.replaceChildren(...(entries.length > 1 ? entries : []));
};

const draw = chart => {
  const { spec, plot, lines } = chart;
  if (!plot.clientWidth) return;
  const data = [curves.step, ...lines.map(line => line.values)];
  const shape = JSON.stringify([lines.map(line => [line.name, line.colour]), spec.log && spec.log()]);
  if (!chart.u || shape !== chart.shape) {
    if (chart.u) chart.u.destroy();
    chart.shape = shape;
    chart.zoomed = false;
    chart.u = makePlot(chart, data);
    drawKey(chart);
  } else {
    chart.u.setData(data, !chart.zoomed);
  }
  const title = typeof spec.title === 'function' ? spec.title() : spec.title;
  chart.title.textContent = spec.unit ? `${title}, ${spec.unit}` : title;
  const last = lines[lines.length - 1].values.findLast(v => v !== null);
  plot.setAttribute('aria-label', `${chart.title.textContent}, by step; now ${known(last) ? spec.format(last) : 'unknown'}`);
};
const drop = chart => {
  if (chart.u) chart.u.destroy();
  chart.figure.remove();
  charts.delete(chart.spec.id);
};
let epochDrawn = null;
const drawCharts = () => {
  if (epochDrawn !== curves.epoch) for (const chart of charts.values()) chart.zoomed = false;  // to steps of another run
  epochDrawn = curves.epoch;
  for (const spec of CHARTS) {
    const lines = curves.step.length ? spec.lines() : null;
    if (!lines) {
      if (charts.has(spec.id)) drop(charts.get(spec.id));
      continue;
    }
    if (!charts.has(spec.id)) charts.set(spec.id, makeFigure(spec));
    const chart = charts.get(spec.id);
    chart.lines = lines;
    draw(chart);
  }
};
const redrawAll = () => { for (const chart of charts.values()) { chart.shape = ''; draw(chart); } };
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redrawAll);
// A window moved to another screen has another density of pixels; uPlot watches that by itself.
