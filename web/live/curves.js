// The curves as the page holds them, fetched from the last known step on, and the arithmetic on them.

const curves = { step: [], columns: {}, stride: 1, epoch: -1 };
const empty = () => { curves.step = []; curves.columns = {}; };
const column = (name, edge = 'mean') => {
  const found = curves.columns[name];
  return found ? found[edge] || found.mean : null;
};
const take = got => {
  if (!got.step.length) return;
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

// The end of the curves of a run that takes its page along; what is ours already is left out. Nothing where there is a gap between.
const takeEnd = got => {
  const last = curves.step.at(-1), i = got.step.findIndex(step => step >= last);
  if (got.epoch !== curves.epoch || got.stride !== curves.stride || i < 0 || got.step[i] - last >= got.stride) return;
  const columns = {};
  for (const [name, edges] of Object.entries(got.columns)) {
    columns[name] = {};
    for (const [edge, values] of Object.entries(edges)) columns[name][edge] = values.slice(i);
  }
  take({ ...got, step: got.step.slice(i), columns });
  drawCharts();
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
      if ((curves.step.at(-1) ?? 0) !== from) { wanted = true; continue; }
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
    // Without a connection whoever serves there next is asked when it is found.
    setTimeout(() => { if (source.readyState === EventSource.OPEN) fetchCurves(); }, 3000);
  } finally {
    fetching = false;
  }
};

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
