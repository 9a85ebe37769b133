// The live page. State comes by server-sent events; curves are fetched from the last known step on.
// Text from the run is set as textContent only, never as markup.
'use strict';
(() => {
  const $ = id => document.getElementById(id);
  const el = (name, text, className) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    return made;
  };

  // The token stands in a cookie by now; addresses end up in histories and screenshots.
  if (new URLSearchParams(location.search).has('token')) history.replaceState(null, '', location.pathname);

  // --- Numbers as people read them ---------------------------------------------------------------------------------

  const fixed = (v, digits) => v.toLocaleString('en', { minimumFractionDigits: digits, maximumFractionDigits: digits });
  const known = v => typeof v === 'number' && Number.isFinite(v);
  const whole = v => known(v) ? Math.round(v).toLocaleString('en') : '\u2013';
  const count = v => {
    if (!known(v)) return '\u2013';
    for (const [size, letter] of [[1e12, 'T'], [1e9, 'B'], [1e6, 'M'], [1e3, 'K']])
      if (Math.abs(v) >= size * .9995) return fixed(v / size, Math.abs(v) >= 100 * size ? 0 : 1) + letter;
    return fixed(v, Math.abs(v) < 10 && v !== Math.round(v) ? 1 : 0);
  };
  const loss = v => !known(v) ? 'not a number' : v === 0 || (Math.abs(v) >= .01 && Math.abs(v) < 1e4) ? fixed(v, 3) : v.toPrecision(3);
  const bytes = v => {
    if (!known(v)) return '\u2013';
    for (const [size, unit] of [[2 ** 40, 'TiB'], [2 ** 30, 'GiB'], [2 ** 20, 'MiB'], [2 ** 10, 'KiB']])
      if (v >= size) return `${fixed(v / size, v >= 100 * size ? 0 : 1)} ${unit}`;
    return `${v} B`;
  };
  const ms = v => !known(v) ? '\u2013' : v >= 10000 ? `${fixed(v / 1000, 1)} s` : `${fixed(v, v < 10 ? 2 : v < 100 ? 1 : 0)} ms`;
  // Ticks: as many digits as tell them apart, no more.
  const tick = v => known(v) ? Number(v.toPrecision(4)).toLocaleString('en', { maximumSignificantDigits: 4 }) : '';
  const tickCount = v => count(v).replace(/\.0([KMBT]?)$/, '$1');
  const tickMs = v => v >= 10000 ? `${tick(v / 1000)} s` : `${tick(v)} ms`;
  const tickBytes = v => bytes(v).replace('.0 ', ' ');
  const percent = v => known(v) ? `${fixed(v * 100, 1)} %` : '\u2013';
  const duration = s => s < 60 ? `${Math.max(0, Math.round(s))} s` : s < 3600 ? `${Math.floor(s / 60)} min ${Math.round(s % 60)} s`
    : s < 86400 ? `${Math.floor(s / 3600)} h ${Math.floor(s / 60) % 60} min` : `${Math.floor(s / 86400)} d ${Math.floor(s / 3600) % 24} h`;

  // --- The curves as this page holds them --------------------------------------------------------------------------

  const curves = { step: [], columns: {}, stride: 1, epoch: -1 };
  const empty = () => { curves.step = []; curves.columns = {}; };
  const column = (name, edge = 'mean') => {
    const found = curves.columns[name];
    return found ? found[edge] || found.mean : null;
  };
  const take = got => {
    if (curves.step.length) {  // the first bin that came is our last one, grown
      curves.step.pop();
      for (const c of Object.values(curves.columns)) for (const values of Object.values(c)) values.pop();
    }
    const before = curves.step.length, added = got.step.length;
    const nulls = n => new Array(n).fill(null);
    curves.step.push(...got.step);
    for (const name of new Set([...Object.keys(curves.columns), ...Object.keys(got.columns)])) {
      const ours = curves.columns[name] ||= {}, theirs = got.columns[name] || {};
      for (const edge of new Set([...Object.keys(ours), ...Object.keys(theirs)])) {
        ours[edge] ||= nulls(before);
        ours[edge].push(...(theirs[edge] || theirs.mean || nulls(added)));
      }
    }
  };

  let fetching = false, wanted = false;
  const fetchCurves = async () => {
    if (fetching) { wanted = true; return; }
    fetching = true;
    try {
      do {
        wanted = false;
        const from = curves.step.length ? curves.step[curves.step.length - 1] : 0;
        const answer = await fetch(`/api/series?from=${from}`);
        if (!answer.ok) throw new Error(answer.status);
        const got = await answer.json();
        if (got.epoch !== curves.epoch || got.stride !== curves.stride) {
          const whole = from === 0;
          empty();
          curves.epoch = got.epoch;
          curves.stride = got.stride;
          if (!whole) { wanted = true; continue; }
        }
        take(got);
        drawCharts();
      } while (wanted);
    } catch (problem) {
      setTimeout(fetchCurves, 3000);
    } finally {
      fetching = false;
    }
  };

  // --- Arithmetic for charts ---------------------------------------------------------------------------------------

  const smooth = values => {
    if (!values || values.length < 20) return values;
    const half = Math.max(2, Math.round(values.length / 50)), out = new Array(values.length);
    let sum = 0, n = 0;
    const add = (v, sign) => { if (v !== null) { sum += sign * v; n += sign; } };
    let low = 0, high = -1;
    for (let i = 0; i < values.length; i++) {
      const reach = Math.min(half, i);  // keeps the steep first descent
      while (high < Math.min(values.length - 1, i + reach)) add(values[++high], 1);
      while (low < i - reach) add(values[low++], -1);
      out[i] = values[i] === null || n === 0 ? null : sum / n;
    }
    return out;
  };
  // A few spikes must not press the curve flat: what 99.5 % of the points stay under, and all of it when that is near.
  const rangeOf = (lists, fromZero) => {
    const all = [].concat(...lists.filter(Boolean).map(l => l.filter(v => v !== null))).sort((a, b) => a - b);
    if (!all.length) return [0, 1];
    let low = all[0], high = all[Math.floor((all.length - 1) * .995)];
    const top = all[all.length - 1];
    if (top <= high + .5 * (high - low)) high = top;
    if (fromZero) low = Math.min(0, low);
    const pad = (high - low || Math.abs(high) || 1) * .05;
    return [fromZero && low === 0 ? 0 : low - pad, high + pad];
  };
  const ratio = (a, b, scale) => a && b ? a.map((v, i) => v === null || !b[i] ? null : scale * v / b[i]) : null;
  const sumOf = names => {
    const lists = names.map(n => column(n)).filter(Boolean);
    return lists.length ? curves.step.map((_, i) => lists.reduce((s, l) => s + (l[i] || 0), 0)) : null;
  };

  const PARTS = [['data_ms', 'data', '--c3'], ['forward_ms', 'forward', '--c2'], ['backward_ms', 'backward', '--c1'],
    ['optimizer_ms', 'optimizer', '--c4'], ['checkpoint_ms', 'saving', '--c5'], ['other_ms', 'other', '--c6']];

  // Each gives lines {name, values, colour, width, fill, band} or nothing while the run records no such thing.
  const noisy = (name, values, low, high) => {
    const lines = [];
    if (low && high && curves.stride > 1) {
      lines.push({ name: 'highest', values: high, colour: '--accent', width: 0, quiet: true });
      lines.push({ name: 'lowest', values: low, colour: '--accent', width: 0, quiet: true, bandTo: 1 });
    } else {
      lines.push({ name: 'each step', values, colour: '--accent', width: 1, alpha: .35 });
    }
    lines.push({ name: curves.step.length < 20 ? name : 'smoothed', values: smooth(values), colour: '--accent', width: 2.25 });
    return lines;
  };
  const CHARTS = [
    { id: 'loss', title: 'Loss', full: true, height: 300, format: loss, axis: tick,
      lines: () => { const v = column('loss'); return v && noisy('loss', v, column('loss', 'min'), column('loss', 'max')); },
      range: () => rangeOf([column('loss'), column('loss', 'max')], false) },
    { id: 'rate', title: () => column('tokens_per_s') ? 'Tokens per second' : 'Samples per second', format: count, axis: tickCount, fromZero: true,
      lines: () => {
        const name = column('tokens_per_s') ? 'tokens_per_s' : 'samples_per_s', v = column(name);
        return v && noisy('rate', v, column(name, 'min'), column(name, 'max'));
      } },
    { id: 'parts', title: 'Where a step goes', format: ms, axis: tickMs, fromZero: true, stacked: true,
      lines: () => {
        const present = PARTS.filter(([c]) => column(c) && column(c).some(v => v > 0));
        let sum = curves.step.map(() => 0);
        const lines = present.map(([c, name, colour]) => {
          const values = column(c);
          sum = sum.map((s, i) => s + (values[i] || 0));
          return { name, values: sum, own: values, colour, width: 1, fill: true };
        });
        return lines.length ? lines.reverse() : null;  // the tallest first, so that the others are painted over it
      } },
    { id: 'comm', title: 'Waiting for communication', format: v => `${fixed(v, 1)} %`, axis: v => `${tick(v)} %`, fromZero: true,
      target: 20, unit: 'of computing',
      lines: () => {
        const wait = column('exposed_comm_ms'), step = column('step_ms');
        if (!wait || !step) return null;
        const idle = sumOf(['exposed_comm_ms', 'data_ms', 'checkpoint_ms']);
        return noisy('share', ratio(wait, step.map((v, i) => v === null ? null : Math.max(v - idle[i], v * .01)), 100));
      } },
    { id: 'memory', title: 'Memory of rank 0', format: bytes, axis: tickBytes, fromZero: true, binary: true,
      lines: () => {
        const lines = [['rss_bytes', 'resident', '--c2'], ['device_bytes', 'device, allocated', '--c1'], ['device_reserved_bytes', 'device, reserved', '--c4']]
          .filter(([c]) => column(c) && column(c).some(v => v > 0)).map(([c, name, colour]) => ({ name, values: column(c, 'max'), colour, width: 2 }));
        return lines.length ? lines : null;
      } },
    { id: 'use', title: 'Utilisation', format: v => `${fixed(v, 1)} %`, axis: v => `${fixed(v, 0)} %`, fromZero: true,
      lines: () => {
        const gpu = column('gpu_percent'), mfu = column('mfu'), lines = [];
        if (gpu) lines.push({ name: 'GPU', values: smooth(gpu), colour: '--c1', width: 2 });
        if (mfu) lines.push({ name: 'of peak (MFU)', values: smooth(mfu.map(v => v === null ? null : 100 * v)), colour: '--c4', width: 2 });
        return lines.length ? lines : null;
      },
      range: () => [0, 100] },
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
    const bands = [];
    lines.forEach((line, i) => { if (line.bandTo) bands.push({ series: [line.bandTo, i + 1], fill: withAlpha(css('--accent'), .18) }); });
    const options = {
      width: plot.clientWidth, height: heightOf(spec), legend: { show: false }, bands,
      cursor: { sync: { key: 'weft' }, y: false, drag: { x: true, y: false }, points: { size: 7 } },
      scales: {
        x: { time: false },
        y: { range: () => rangeOfChart(chart) },
      },
      axes: [
        { ...axis, values: (u, splits) => splits.map(v => Number.isInteger(v) ? tickCount(v) : ''), grid: { show: false }, size: 30 },
        { ...axis, values: (u, splits) => splits.map(spec.axis), size: 62, gap: 6, ...(spec.binary ? { splits: binarySplits } : {}) },
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
    const shape = JSON.stringify(lines.map(line => [line.name, line.colour]));
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
  const drawCharts = () => {
    if (!curves.step.length) {
      for (const chart of charts.values()) { if (chart.u) chart.u.destroy(); chart.figure.remove(); }
      charts.clear();
      return;
    }
    for (const spec of CHARTS) {
      const lines = spec.lines();
      if (!lines) continue;
      if (!charts.has(spec.id)) charts.set(spec.id, makeFigure(spec));
      const chart = charts.get(spec.id);
      chart.lines = lines;
      draw(chart);
    }
  };
  const redrawAll = () => { for (const chart of charts.values()) { chart.shape = ''; draw(chart); } };
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redrawAll);
  // A window moved to another screen has another density of pixels; uPlot watches that by itself.

  // --- State -------------------------------------------------------------------------------------------------------

  let state = null, clockOffset_s = 0;
  const figure = (label, value, small) => {
    const box = el('div'), dd = el('dd', value);
    if (small) dd.append(el('div', small, 'small'));
    box.append(el('dt', label), dd);
    return box;
  };
  const ago = () => state.progress_unix_s > 0 ? `${duration(Date.now() / 1000 + clockOffset_s - state.progress_unix_s)} ago` : '';

  const showHeader = () => {
    $('name').textContent = state.name;
    const pill = $('status'), bad = state.stalled || state.status === 'failed';
    pill.textContent = state.stalled ? 'stands still' : state.status;
    pill.className = 'pill' + (bad ? ' bad' : state.status === 'running' ? ' running' : '');
    const f = state.facts, words = [];
    if (known(f.params)) words.push(`${count(f.params)} parameters`);
    if (state.world) words.push(`${whole(state.world)} rank${state.world === 1 ? '' : 's'}`);
    if (known(f.stage)) words.push(`ZeRO stage ${f.stage}`);
    if (state.words.device) words.push(`on ${state.words.device}`);
    if (state.words.data) words.push(`data ${state.words.data}`);
    $('about').textContent = words.join(', ');
    $('note').textContent = state.stalled ? `The run ${state.status_note}.` : state.status_note;
    $('note').hidden = !state.status_note;
    $('note').className = state.stalled ? 'bad' : 'soft';
    $('report').hidden = !state.has_report;
    document.title = state.step === null ? `${state.name} \u2013 weft` : `${loss(state.latest.loss)} at ${whole(state.step)} \u2013 ${state.name}`;
  };
  const showFigures = () => {
    const l = state.latest, boxes = [figure('Step', whole(state.step), state.step === null ? '' : ago())];
    if ('loss' in l) boxes.push(figure('Loss', known(l.loss) ? loss(l.loss) : 'NaN', known(l.lr) ? `learning rate ${Number(l.lr.toPrecision(3))}` : ''));
    if (known(l.tokens_per_s)) boxes.push(figure('Tokens per second', count(l.tokens_per_s), known(l.samples_per_s) ? `${count(l.samples_per_s)} samples/s` : ''));
    else if (known(l.samples_per_s)) boxes.push(figure('Samples per second', count(l.samples_per_s)));
    if (known(l.step_ms)) boxes.push(figure('Step time', ms(l.step_ms), known(l.step_ms_max) ? `slowest rank ${ms(l.step_ms_max)}` : ''));
    if (known(l.mfu)) boxes.push(figure('Of peak (MFU)', percent(l.mfu), known(l.flops_per_s) ? `${count(l.flops_per_s).replace('B', 'G').replace(/([A-Z]?)$/, ' $1')}FLOP/s` : ''));
    else if (known(l.grad_norm)) boxes.push(figure('Gradient norm', loss(l.grad_norm)));
    const memory = known(l.device_bytes) && l.device_bytes > 0 ? l.device_bytes : l.rss_bytes;
    if (known(memory)) boxes.push(figure('Memory', bytes(memory), 'of rank 0'));
    $('figures').replaceChildren(...boxes);
    $('figures').hidden = state.step === null;
  };
  const verdictTile = v => {
    const tile = el('div', undefined, `card verdict ${v.judgement}`), row = el('div', undefined, 'row'), meter = el('div', undefined, 'meter');
    const mark = { good: '\u2713 on target', bad: '\u2717 off target', unknown: 'not known' }[v.judgement];
    row.append(el('span', percent(v.share), 'value'), el('span', mark, 'mark'));
    const fill = el('div', undefined, 'fill'), tick = el('div', undefined, 'tick');
    fill.style.width = `${Math.min(100, Math.max(0, 100 * (v.share || 0)))}%`;
    tick.style.left = `${100 * v.target}%`;
    meter.append(fill, tick);
    meter.setAttribute('aria-hidden', 'true');
    tile.append(el('h2', v.label), row, meter, el('div', `target ${v.wants_more ? 'above' : 'below'} ${fixed(100 * v.target, 0)} %; ${v.note}`, 'soft'));
    return tile;
  };
  const showWarnings = () => {
    const words = state.slow.map(s => `Rank ${s.rank} is ${known(s.percent) ? `${fixed(s.percent, 1)} % ` : ''}slower than the others` +
      (s.phase ? ` in ${s.phase}` : '') + (s.where ? ` at ${s.where}` : '') + (known(s.ms) ? ` (${ms(s.ms)} a step)` : '') +
      (known(s.since_step) ? `, since step ${whole(s.since_step)}` : '') + '.');
    const missing = state.ranks.filter(r => r.health === 'silent').length;
    if (missing && state.status === 'running') words.push(`${missing} of ${state.world} ranks ${missing === 1 ? 'is' : 'are'} silent.`);
    if (state.num_bad_losses) words.push(`Steps whose loss was not a finite number: ${whole(state.num_bad_losses)}.`);
    if (known(state.latest.skipped_steps) && state.latest.skipped_steps > 0) words.push(`Steps skipped by the loss scaler: ${whole(state.latest.skipped_steps)}.`);
    words.push(...state.notes);
    $('warnings').hidden = !words.length;
    $('warning-list').replaceChildren(...words.map(w => el('li', w)));
  };

  // --- Ranks -------------------------------------------------------------------------------------------------------

  const HEALTH = { good: ['good', '--accent'], waiting: ['waits for others', '--c3'], slow: ['slow', '--bad'], silent: ['silent', '--soft'] };
  let shownRank = null;
  const rankText = r => {
    const parts = [['step', r.step_ms], ['computing', r.busy_ms], ['waiting', r.exposed_comm_ms], ['data', r.data_ms], ['forward', r.forward_ms],
      ['backward', r.backward_ms], ['optimizer', r.optimizer_ms]].filter(([, v]) => known(v)).map(([n, v]) => `${n} ${ms(v)}`);
    if (known(r.rss_bytes)) parts.push(`resident ${bytes(r.rss_bytes)}`);
    if (known(r.device_bytes) && r.device_bytes > 0) parts.push(`device ${bytes(r.device_bytes)}`);
    if (known(r.gpu_percent)) parts.push(`GPU ${fixed(r.gpu_percent, 0)} %`);
    if (known(r.cpu_percent)) parts.push(`CPU ${fixed(r.cpu_percent, 0)} %`);
    return `Rank ${r.rank}${r.host ? ` on ${r.host}` : ''}: ${r.why || HEALTH[r.health][0]}. ${parts.join(', ')}`;
  };
  const showRankDetail = () => {
    const found = state.ranks.find(r => r.rank === shownRank);
    $('rank-detail').textContent = found ? rankText(found) : state.ranks.length ? 'Point at a rank, or move to it with the Tab key.' : '';
  };
  // Tiles are kept from state to state: a focused one must not vanish under the reader.
  const showRanks = () => {
    $('ranks').hidden = !state.ranks.length;
    const list = $('tiles'), many = state.ranks.length > 24;
    list.className = many ? 'many' : '';
    while (list.children.length > state.ranks.length) list.lastChild.remove();
    state.ranks.forEach((r, i) => {
      let tile = list.children[i];
      if (!tile) {
        tile = el('li');
        tile.tabIndex = 0;
        tile.append(el('b'), el('span'), el('span'));
        const show = () => { shownRank = state.ranks[i] ? state.ranks[i].rank : null; showRankDetail(); };
        tile.addEventListener('pointerenter', show);
        tile.addEventListener('focus', show);
        list.append(tile);
      }
      const share = known(r.exposed_comm_ms) && r.step_ms > 0 ? `waits ${fixed(100 * r.exposed_comm_ms / r.step_ms, 0)} %` : '';
      const slow = state.slow.find(s => s.rank === r.rank);
      const last = { good: share, waiting: share, silent: 'silent', slow: slow && known(slow.percent) ? `slow +${fixed(slow.percent, 0)} %` : 'slow' }[r.health];
      tile.className = r.health;
      tile.children[0].textContent = many ? `${r.rank}` : `rank ${r.rank}`;
      tile.children[1].textContent = ms(r.step_ms);
      tile.children[2].textContent = last;
      tile.setAttribute('aria-label', rankText(r));
    });
    const counts = Object.keys(HEALTH).map(h => [h, state.ranks.filter(r => r.health === h).length]).filter(([, n]) => n);
    $('rank-key').replaceChildren(...counts.map(([h, n]) => {
      const entry = el('li'), swatch = el('i');
      swatch.style.background = css(HEALTH[h][1]);
      entry.append(swatch, `${n} ${HEALTH[h][0]}`);
      return entry;
    }));
    $('ranks-title').textContent = state.ranks_step ? `Ranks, around step ${whole(state.ranks_step)}` : 'Ranks';
    showRankDetail();
  };
  let logShown = '';
  const showLog = () => {
    const list = $('log'), key = JSON.stringify(state.log);
    $('log-card').hidden = !state.log.length;
    if (key === logShown) return;
    logShown = key;
    const atEnd = list.scrollHeight - list.scrollTop - list.clientHeight < 40;
    list.replaceChildren(...state.log.map(line => el('li', line.text, line.tone === 'plain' ? '' : line.tone)));
    const loud = state.log.filter(line => line.tone !== 'plain').length;
    $('log-count').textContent = loud ? `${loud} of the last ${state.log.length} lines are warnings or errors` : `last ${state.log.length} lines`;
    if (atEnd) list.scrollTop = list.scrollHeight;
  };

  const show = next => {
    const before = state;
    state = next;
    clockOffset_s = state.now_unix_s - Date.now() / 1000;
    showHeader();
    showFigures();
    $('verdicts').replaceChildren(...state.verdicts.map(verdictTile));
    $('verdicts').hidden = state.step === null;
    showWarnings();
    showRanks();
    showLog();
    if (!before || before.num_rows !== state.num_rows || before.epoch !== state.epoch) fetchCurves();
  };

  // --- Connection --------------------------------------------------------------------------------------------------

  let source = null, heard_ms = Date.now();
  const lost = is => { $('lost').hidden = !is; };
  const connect = () => {
    if (source) source.close();
    source = new EventSource('/events');
    source.addEventListener('open', () => { heard_ms = Date.now(); lost(false); if (state) fetchCurves(); });
    source.addEventListener('state', event => {
      heard_ms = Date.now();
      lost(false);
      show(JSON.parse(event.data));
    });
    source.addEventListener('error', () => {
      lost(true);
      if (source.readyState === EventSource.CLOSED) setTimeout(connect, 3000);  // refused: the browser does not try again
    });
  };
  connect();
  // A tunnel can die without a word. Comments of the server do not reach scripts, so a silence is looked into.
  setInterval(() => {
    if (!state) return;
    const small = $('figures').querySelector('.small');
    if (small && state.step !== null) small.textContent = ago();
    if (Date.now() - heard_ms < 30000 || source.readyState === EventSource.CONNECTING) return;
    heard_ms = Date.now();
    fetch('/api/state', { signal: AbortSignal.timeout(10000) }).then(answer => answer.ok ? lost(false) : Promise.reject(answer.status))
      .catch(() => { lost(true); connect(); });
  }, 1000);
})();
