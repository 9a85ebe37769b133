'use strict';
// Numbers as people read them. Of the live page, whose scripts share one scope; see page.html for their order.

const fixed = (v, digits) => v.toLocaleString('en', { minimumFractionDigits: digits, maximumFractionDigits: digits });
const known = v => typeof v === 'number' && Number.isFinite(v);
const whole = v => known(v) ? Math.round(v).toLocaleString('en') : '\u2013';
const count = v => {
  if (!known(v)) return '\u2013';
  if (Math.abs(v) >= 1e18) return v.toPrecision(3);  // as digits it would be wider than the page
  for (const [size, letter] of [[1e12, 'T'], [1e9, 'B'], [1e6, 'M'], [1e3, 'K']])
    if (Math.abs(v) >= size * .9995) return fixed(v / size, Math.abs(v) >= 100 * size ? 0 : 1) + letter;
  return fixed(v, Math.abs(v) < 10 && v !== Math.round(v) ? 1 : 0);
};
const loss = v => !known(v) ? 'not a number' : v === 0 || (Math.abs(v) >= .01 && Math.abs(v) < 1e4) ? fixed(v, 3) : v.toPrecision(3);
const bytes = v => {
  if (!known(v)) return '\u2013';
  if (v >= 1e18) return `${v.toPrecision(3)} B`;
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
