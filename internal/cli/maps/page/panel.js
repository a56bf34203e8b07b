/* Copyright The Trellis Authors. SPDX-License-Identifier: Apache-2.0 */
// The lists beside the map.
function card(classes, pressed, choose, ...children) {
  const b = make('button', 'card ' + classes, null, ...children);
  b.type = 'button';
  b.setAttribute('aria-pressed', pressed);
  b.onclick = choose;
  return make('li', '', null, b);
}

function fill(id, items, none) {
  const section = byId(id);
  section.hidden = !items.length && !none;
  section.querySelector('ul').replaceChildren(...(items.length ? items : [make('li', 'none', none)]));
}

function drawPanel() {
  fill('waiting', data.waiting.map(waitingCard), 'Nothing waits.');
  fill('planned', (data.planned ?? []).map(plannedCard));
  fill('graphs', data.graphs.map(graphCard), 'No DynamoGraphDeployments.');
  fill('notes', (data.notes ?? []).map((n) => make('li', 'soft', n)));
}

function status(g) {
  if ((data.planned ?? []).some((p) => graphKey(p) === graphKey(g))) return make('span', 'soft', 'planned');
  return make('span', g.ready ? 'soft' : 'bad', g.ready ? 'ready' : 'not ready');
}

function graphCard(g) {
  const key = graphKey(g);
  const { pods, amount } = sums.get(g.tree + ' ' + key) ?? { pods: 0, amount: 0 };
  const facts = [plural(pods, 'pod')];
  if (data.resource) facts.push(amount + ' ' + unit());
  if (g.domain) facts.push('in ' + g.domain);
  const head = make('span', 'head', null, make('i', 'swatch ' + toneOfKey(key)), make('b', '', graphName(g)), status(g));
  const li = card('graph', state.graph === key, () => pickGraph(key), head, make('small', '', facts.join(' \u00b7 ')), ...(state.graph === key ? g.constraints ?? [] : []).map((c) => make('small', '', c)));
  li.firstChild.dataset.graph = key;
  return li;
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

function waitingCard(w, i) {
  const open = state.waiting === i;
  const who = [graphName(w), gangs(w)].filter(Boolean).join(': ');
  const head = make('span', 'head', null, make('i', 'swatch ' + toneOf(w)), make('b', '', who), make('span', 'soft', w.planned ? 'plan' : age(w.since)));
  const parts = [head, make('small', 'bad', w.reason || 'Waiting'), make('p', 'why', w.message)];
  if (open && w.operator) parts.push(make('p', '', 'The operator says: ' + w.operator));
  if (open && w.freeing?.length) {
    parts.push(make('p', '', (w.freeingDomain ? 'Easiest to free is ' + w.freeingDomain + '.' : 'Easiest to free:') + ' These hosts take no pod now:'));
    const list = w.freeing.map((h) => make('li', '', null, make('b', '', h.name), ' ' + h.reason, ...(h.pods ?? []).map((p) => make('div', 'soft', 'used by ' + p.pod + ' (' + p.amount + ')')), ...(h.remedy ? [make('div', '', null, make('code', '', h.remedy))] : [])));
    if (w.freeingMore) list.push(make('li', 'soft', 'and ' + w.freeingMore + ' more'));
    parts.push(make('ul', '', null, ...list));
  }
  return card('wait', open, () => pickWaiting(i), ...parts);
}

function drawLegend() {
  const row = (term, text) => [make('dt', '', null, term), make('dd', '', text)];
  const keys = (names) => make('span', '', null, ...names.flatMap((n) => [make('kbd', '', n), ' ']));
  byId('legend').replaceChildren(make('h2', '', 'Colours'), make('dl', '', null,
    ...row(make('i', 'swatch c0'), 'pod of a graph, a cell per ' + (unit() === 'GPUs' ? 'GPU' : unit())),
    ...row(make('i', 'dot c0'), 'pod that asks for none'),
    ...row(make('i', 'swatch other'), 'pod of nobody here'),
    ...row(make('i', 'swatch blank'), 'free'),
    ...row(make('i', 'swatch plan'), 'planned'),
    ...row(make('i', 'swatch hatch'), 'host is cordoned'),
    ...row(make('i', 'swatch hatch lost'), 'host is not ready, or gone'),
    ...row(make('span', 'heats', null, ...[1, 2, 3, 4].map((n) => make('i', 'heat' + n))), 'fragmentation: free, and no gang fits')),
  make('h2', '', 'Keys'), make('dl', '', null,
    ...row(keys(['\u2190', '\u2191', '\u2192', '\u2193']), 'move between hosts'),
    ...row(keys(['Enter']), 'link the replicas of the pod\u2019s graph'),
    ...row(keys(['g', 'w']), 'next graph, next that waits'),
    ...row(keys(['/', 'n']), 'search, next match'),
    ...row(keys(['h']), 'fragmentation'),
    ...row(keys(['z']), 'zoom into the rack, or out'),
    ...row(keys(['t', '?']), 'light or dark, this'),
    ...row(keys(['Esc']), 'clear')));
}
