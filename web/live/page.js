// State comes by server-sent events. Text from the run is set as textContent only, never as markup.

const $ = id => document.getElementById(id);
const el = (name, text, className) => {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
};

// The token stands in a cookie by now; addresses end up in histories and screenshots.
if (new URLSearchParams(location.search).has('token')) history.replaceState(null, '', location.pathname);

// --- State -------------------------------------------------------------------------------------------------------

let state = null, clockOffset_s = 0;
const figure = (label, value, small) => {
  const box = el('div'), dd = el('dd', value);
  if (small) dd.append(el('div', small, 'small'));
  box.append(el('dt', label), dd);
  return box;
};
const ago = () => state.progress_unix_s > 0 ? `${duration(Date.now() / 1000 + clockOffset_s - state.progress_unix_s)} ago` : '';

const hasEnded = () => state !== null && ['finished', 'stopped', 'failed'].includes(state.status);

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
  if (known(l.step_ms)) boxes.push(figure('Step time', ms(l.step_ms), known(l.busy_ms_max) ? `busiest rank ${ms(l.busy_ms_max)}` : ''));
  if (known(l.mfu)) boxes.push(figure('Of peak (MFU)', percent(l.mfu), known(l.flops_per_s) ? `${count(l.flops_per_s).replace('B', 'G').replace(/([A-Z]?)$/, ' $1')}FLOP/s` : ''));
  else if (known(l.grad_norm)) boxes.push(figure('Gradient norm', loss(l.grad_norm)));
  const memory = known(l.device_bytes) && l.device_bytes > 0 ? l.device_bytes : l.rss_bytes;
  if (known(memory)) boxes.push(figure('Memory', bytes(memory), known(l.device_fragmentation) ? `of rank 0; ${percent(l.device_fragmentation)} of what it holds is unused` : 'of rank 0'));
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
  const words = state.slow.map(s => `${s.rank < 0 ? 'The link between ranks' : `Rank ${s.rank}`} is ${known(s.percent) ? `${fixed(s.percent, 1)} % ` : ''}slower than ${s.rank < 0 ? 'it was' : 'the others'}` +
    (s.phase && s.rank >= 0 ? ` ${s.phase === 'processor' ? 'by its' : 'in'} ${s.phase}` : '') + (s.where ? ` at ${s.where}` : '') + (known(s.ms) ? ` (${ms(s.ms)} a step)` : '') +
    (known(s.since_step) ? `, since step ${whole(s.since_step)}` : '') + '.');
  const missing = state.ranks.filter(r => r.health === 'silent').length;
  if (missing && state.status === 'running') words.push(`${missing} of ${state.world} ranks ${missing === 1 ? 'is' : 'are'} silent.`);
  if (state.num_bad_losses) words.push(`Steps whose loss was not a finite number: ${whole(state.num_bad_losses)}.`);
  if (known(state.latest.skipped_steps) && state.latest.skipped_steps > 0) words.push(`Steps skipped, for gradients that were not finite: ${whole(state.latest.skipped_steps)}.`);
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
  $('rank-detail').textContent = found ? rankText(found) : state.ranks.length ? 'Each tile: the time of a step, and the share of it that the rank waits. Point at one, or move to it with the Tab key.' : '';
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
    const share = known(r.exposed_comm_ms) && r.step_ms > 0 ? `${many ? '' : 'waits '}${fixed(100 * r.exposed_comm_ms / r.step_ms, 0)} %` : '';
    const slow = state.slow.find(s => s.rank === r.rank);
    const last = { good: share, waiting: share, silent: 'silent', slow: slow && known(slow.percent) ? `${many ? '' : 'slow '}+${fixed(slow.percent, 0)} %` : 'slow' }[r.health];
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
// A run that serves its own page takes it along when it ends: then nothing is wrong, and nothing is waited for.
const lost = is => {
  const ended = is && hasEnded();
  $('lost').hidden = !is || ended;
  $('ended').hidden = !ended;
  if (!ended) return;
  $('report').hidden = true;
  $('ended').textContent = 'The run has ended; its page is no longer served. ' +
    (state.has_report ? `Its report is ${state.folder}/report.html.` : `weft report ${state.folder} makes its report.`);
};
const connect = () => {
  if (source) source.close();
  source = new EventSource('/events');
  source.addEventListener('open', () => { heard_ms = Date.now(); lost(false); if (state) fetchCurves(); });
  source.addEventListener('state', event => {
    heard_ms = Date.now();
    lost(false);
    show(JSON.parse(event.data));
  });
  source.addEventListener('series', event => takeEnd(JSON.parse(event.data)));
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
  fetch('/api/state', { signal: AbortSignal.timeout(10000) }).then(answer => answer.ok ? answer.json() : Promise.reject(answer.status))
    .then(next => { lost(false); show(next); })
    .catch(() => { lost(true); connect(); });
}, 1000);
