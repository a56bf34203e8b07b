/* Copyright The Trellis Authors. SPDX-License-Identifier: Apache-2.0 */
// The lists beside the map.
function card(classes, pressed, choose, ...children) {
  const b = make('button', 'card ' + classes, null, ...children);
  b.type = 'button';
  b.setAttribute('aria-pressed', pressed);
  b.onclick = choose;
  return make('li', '', null, b);
}

// fill puts a list into its section, with the number of its entries beside the heading.
function fill(id, items, none) {
  const section = byId(id);
  section.hidden = !items.length && !none;
  section.querySelector('.count').textContent = items.length;
  section.querySelector('ul').replaceChildren(...(items.length ? items : [make('li', 'none', none)]));
}

function drawPanel() {
  fill('graphs', data.graphs.map(graphCard), 'No DynamoGraphDeployments.');
  fill('waiting', data.waiting.map(waitingCard), 'Nothing waits.');
  fill('planned', (data.planned ?? []).map(plannedCard));
  fill('notes', (data.notes ?? []).map((n) => make('li', 'soft', n)));
  byId('waiting').classList.toggle('some', data.waiting.length > 0);
}

const waits = (g) => Boolean(g.waiting) || data.waiting.some((w) => graphKey(w) === graphKey(g));
const isPlanned = (g) => (data.planned ?? []).some((p) => graphKey(p) === graphKey(g));

function status(g) {
  if (isPlanned(g)) return make('span', 'soft', 'planned');
  if (waits(g)) return make('span', 'bad', 'waits');
  return make('span', g.ready ? 'soft' : 'bad', g.ready ? 'ready' : 'not ready');
}

const amounts = ({ pods, amount }) => plural(pods, 'pod') + (amount ? ', ' + amount + ' ' + unit() : '');

// graphFacts says what a graph has, what it asks for beyond that, and where.
function graphFacts(g) {
  const has = sums.get(g.tree + ' ' + graphKey(g)) ?? { pods: 0, amount: 0 }, asks = asksOf(g), facts = [];
  if (has.pods) facts.push(amounts(has));
  if (asks.pods) facts.push('asks for ' + amounts(asks));
  if (!facts.length) facts.push('no pods yet');
  if (g.domain) facts.push('in ' + g.domain);
  return facts.join(' \u00b7 ');
}

const maxGraphName = 26;

// middle leaves out what is in the middle of a long name: names differ at their ends.
const middle = (name) => name.length > maxGraphName ? name.slice(0, maxGraphName - 12) + '\u2026' + name.slice(-11) : name;

function graphCard(g) {
  const key = graphKey(g), open = state.graph === key;
  const by = g.tree !== state.tree ? [make('small', '', data.trees[g.tree].topology || 'no topology')] : [];
  const head = make('span', 'head', null, make('i', 'swatch ' + toneOfKey(key)), make('b', '', open ? graphName(g) : middle(graphName(g))), ...by, status(g));
  const parts = [head, make('small', '', graphFacts(g))];
  if (open) parts.push(...[...(g.constraints ?? []), ...transferLines(g)].map((c) => make('small', '', c)), replicaList(g));
  const li = card('graph', open, () => pickGraph(key), ...parts);
  li.firstChild.dataset.graph = key;
  li.firstChild.title = graphName(g);
  return li;
}

// transferLines says in which domains a graph has prefill and decode replicas.
function transferLines(g) {
  return (g.kvTransfer?.domains ?? []).map((d) =>
    `${d.domain || 'in no ' + g.kvTransfer.level}: ${d.prefill} prefill, ${d.decode} decode`);
}

const maxReplicas = 40;

// replicaList says where each replica of a graph is.
function replicaList(g) {
  const all = replicasOf(g), list = make('ul', 'replicas');
  for (const r of all.slice(0, maxReplicas)) list.append(make('li', '', null, make('b', '', r.name), make('span', 'soft', r.path.join('/') || 'across domains')));
  if (all.length > maxReplicas) list.append(make('li', 'soft', 'and ' + (all.length - maxReplicas) + ' more'));
  return list;
}

function plannedCard(p) {
  const key = graphKey(p);
  const head = make('span', 'head', null, make('i', 'swatch planned ' + toneOfKey(key)), make('b', '', graphName(p)));
  const facts = [p.placed + ' of ' + plural(p.replicas, 'replica') + ' placed'];
  if (p.domain) facts.push('in ' + p.domain);
  return card('plan', state.graph === key, () => pickGraph(key), head, make('small', '', facts.join(' \u00b7 ')));
}

const gangs = (w) => (w.who ?? []).map((g) => g.service + '-' + ranges(g.replicas)).join(', ');

function ranges(list) {
  const out = [];
  for (let i = 0; i < list.length;) {
    let j = i;
    while (j + 1 < list.length && list[j + 1] === list[j] + 1) j++;
    out.push(i === j ? list[i] : list[i] + (j === i + 1 ? ',' : '..') + list[j]);
    i = j + 1;
  }
  return out.join(',');
}

function age(since) {
  if (!since) return '';
  let s = Math.max(0, ((data.taken ? new Date(data.taken) : new Date()) - new Date(since)) / 1000);
  for (const [unit, size] of [['s', 60], ['m', 60], ['h', 48]]) {
    if (s < size) return Math.floor(s) + unit;
    s /= size === 48 ? 24 : size;
  }
  return Math.floor(s) + 'd';
}

// thatFit names the replicas that fit once hosts are freed: all of what waits only if all do.
function thatFit(w) {
  if (!w.freeingFits) return 'It fits';
  const one = w.freeingFits.length === 1 && w.freeingFits[0].replicas.length === 1;
  return 'Only ' + gangs({ who: w.freeingFits }) + (one ? ' fits' : ' fit');
}

function waitingCard(w, i) {
  const open = state.waiting === i;
  const who = [graphName(w), gangs(w)].filter(Boolean).join(': ');
  const head = make('span', 'head', null, make('i', 'swatch ' + toneOf(w)), make('b', '', who), make('small', '', w.planned ? 'plan' : age(w.since)));
  const parts = [head, make('small', 'bad', w.reason || 'Waiting'), make('p', 'why', w.message)];
  if (open && w.operator) parts.push(make('p', '', 'The operator says: ' + w.operator));
  if (open && w.freeing?.length) {
    parts.push(make('p', '', (w.freeingDomain ? 'Easiest to free is ' + w.freeingDomain + '.' : '') + ' ' + thatFit(w) + ' once these hosts are freed:'));
    const list = w.freeing.map((h) => make('li', '', null, make('b', '', h.name), ' ' + h.reason, ...(h.pods ?? []).map((p) => make('div', 'soft', 'used by ' + p.pod + ' (' + p.amount + ')')), ...(h.remedy ? [make('div', '', null, make('code', '', h.remedy))] : [])));
    if (w.freeingMore) list.push(make('li', 'soft', 'and ' + w.freeingMore + ' more'));
    parts.push(make('ul', '', null, ...list));
  }
  const li = card('wait', open, () => pickWaiting(i), ...parts);
  li.firstChild.dataset.graph = graphKey(w);
  return li;
}

// drawLegend says what colours and numbers mean.
function drawLegend() {
  const what = unit() === 'GPUs' ? 'GPU' : unit();
  const rows = [
    [make('i', 'swatch c0'), what + ' of a graph\u2019s pod'],
    [make('i', 'dot c0'), 'pod of a graph that takes none'],
    [make('i', 'swatch other'), 'other pods'],
    [make('i', 'swatch blank'), 'free'],
    [make('i', 'swatch hatch'), 'host is cordoned or tainted'],
    [make('i', 'swatch hatch lost'), 'host is not ready, or gone'],
    [make('i', 'swatch c0 sick'), 'pod is not ready'],
  ];
  if (data.sums.some((s) => s.overbooked)) rows.push([make('i', 'swatch other over'), 'host is over-booked: pods ask for more than it has']);
  if (data.planned?.length) rows.push([make('i', 'swatch plan'), 'planned']);
  if (data.resource) rows.push([make('b', '', '3 of 8 free'), '3 of the 8 ' + unit() + ' of a domain are free, on hosts that take pods']);
  byId('legend').replaceChildren(...rows.map(([mark, text]) => make('li', '', null, mark, text)));
}

function drawKeys() {
  const row = (names, text) => [make('dt', '', null, ...names.flatMap((n) => [make('kbd', '', n), ' '])), make('dd', '', text)];
  byId('keys').replaceChildren(make('h2', '', 'Keys'), make('dl', '', null,
    ...row(['\u2190', '\u2191', '\u2192', '\u2193'], 'move between hosts'),
    ...row(['Enter'], 'choose the graph of the host\u2019s pod'),
    ...row(['g', 'w'], 'next graph, next that waits'),
    ...row(['/', 'n'], 'search, next match'),
    ...row(['h'], 'fragmentation'),
    ...row(['z'], 'zoom into the rack, or out'),
    ...row(['t', '?'], 'light or dark, this'),
    ...row(['Esc'], 'clear')));
}
