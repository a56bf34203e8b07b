/* Copyright The Trellis Authors. SPDX-License-Identifier: Apache-2.0 */
// What the reader can choose, and how it shows.

// pickGraph chooses a graph, or none when it is the one that is chosen.
function pickGraph(key) {
  if (state.graph === key) choose('', -1);
  else showGraph(key);
}

// showGraph shows a graph with the first of what it waits for.
function showGraph(key) {
  choose(key, data.waiting.findIndex((w) => graphKey(w) === key));
}

function pickHost(h) {
  const pod = podsOf(h).find((p) => p.graph);
  if (pod) pickGraph(graphKey(pod));
}

function pickWaiting(i) {
  if (state.waiting === i) choose('', -1);
  else choose(graphKey(data.waiting[i]), i);
}

// choose shows a graph and what it waits for, in its topology. A part of the map that was zoomed to gives way to the whole, which has all of it.
function choose(key, waiting) {
  state.graph = key;
  state.waiting = waiting;
  const w = data.waiting[waiting], tree = (w ?? data.graphs.find((g) => graphKey(g) === key))?.tree ?? state.tree;
  if (w) byId('waiting').open = true;
  if (tree !== state.tree || w && state.zoom) showTree(tree);
  else show();
  if (w) map.querySelector('.target, .host.blocks')?.scrollIntoView({ block: 'nearest' });
  if (!narrow.matches) for (const card of document.querySelectorAll('aside .card[aria-pressed="true"]')) card.scrollIntoView({ block: 'nearest' });
}

// blameOf is the reason that has the hosts to free: the one chosen, or that of the gang which it follows.
function blameOf(w) {
  return w.freeing?.length ? w : data.waiting.find((o) => graphKey(o) === graphKey(w) && o.freeing?.length) ?? w;
}

// show marks what is chosen, on the map and in the lists.
function show() {
  const w = data.waiting[state.waiting], blame = w && w.tree === state.tree ? blameOf(w) : undefined;
  const blockers = new Map((blame?.freeing ?? []).map((h) => [h.name, h]));
  const culprits = new Set([...blockers.values()].flatMap((h) => (h.pods ?? []).map((p) => h.name + ' ' + p.pod)));
  const path = blame && (blame.freeingDomain || blame.closest?.domain);
  for (const [at, box] of drawn.boxes) box.classList.toggle('target', at === path);
  for (const el of drawn.hosts) {
    el.blocks = blockers.get(el.domain.name);
    el.classList.toggle('blocks', Boolean(el.blocks));
  }
  for (const { el, pod, host } of drawn.cells) {
    el.classList.toggle('on', Boolean(state.graph) && pod.graph !== undefined && graphKey(pod) === state.graph);
    el.classList.toggle('blocks', culprits.has(host.domain.name + ' ' + podKey(pod)));
  }
  map.classList.toggle('picked', Boolean(state.graph));
  drawWhy(blame, drawn.boxes.get(path));
  drawPanel();
  drawLinks();
  remember();
}

// drawWhy writes onto the framed domain what it lacks.
function drawWhy(w, box) {
  byId('why')?.remove();
  if (!w || !box) return;
  const c = w.closest, parts = c ? [title(box.domain) + ' holds ' + c.holds + ' of ' + plural(c.of, 'pod')] : [];
  if (w.freeing?.length) parts.push(plural(w.freeing.length + (w.freeingMore ?? 0), 'host') + ' blocked');
  else if (c?.excluded?.length) parts.push(...c.excluded.map((e) => plural(e.hosts, 'host') + ' ' + e.reason));
  else if (c?.hosts) parts.push('has ' + plural(c.hosts, 'host'));
  const tag = make('div', '', parts.join(' \u00b7 ') || w.reason);
  tag.id = 'why';
  map.append(tag);
  const at = box.getBoundingClientRect(), origin = map.getBoundingClientRect();
  tag.style.left = Math.max(0, Math.min(at.left - origin.left, origin.width - tag.offsetWidth)) + 'px';
  tag.style.top = at.top - origin.top + 'px';
}

function showTree(i) {
  state.tree = i;
  state.zoom = '';
  byId('trees').value = i;
  redraw();
}

function zoom(path) {
  state.zoom = path;
  redraw();
}

function setHeat(on) {
  state.heat = on;
  drawCaption();
  drawHeat();
}

function clearAll() {
  byId('search').value = '';
  Object.assign(state, { graph: '', waiting: -1, query: '' });
  if (state.zoom) state.zoom = '';
  redraw();
}

const isDark = () => getComputedStyle(document.documentElement).colorScheme === 'dark';

function toggleTheme() {
  document.documentElement.dataset.theme = isDark() ? 'light' : 'dark';
  nameTheme();
}

// nameTheme names the button by what it does, for those who do not see its icon.
function nameTheme() {
  const name = 'Switch to ' + (isDark() ? 'light' : 'dark') + ' theme';
  byId('theme').setAttribute('aria-label', name);
  byId('theme').title = name + ' (t)';
  byId('theme').classList.toggle('dark', isDark());
}

function toggleKeys() {
  const keys = byId('keys');
  keys.hidden = !keys.hidden;
  byId('help').setAttribute('aria-expanded', !keys.hidden);
}

// remember keeps the chosen graph in the address, so that a link shows it again.
function remember() {
  const hash = state.graph ? '#' + encodeURI(state.graph) : '';
  if (hash !== location.hash) history.replaceState(null, '', hash || location.pathname + location.search);
}

function redraw() {
  const focus = document.activeElement?.dataset?.name;
  draw();
  search(state.query);
  const host = drawn.hosts.find((el) => el.dataset.name === focus) ?? drawn.hosts[0];
  if (host) host.tabIndex = 0;
  if (host && focus) host.focus({ preventScroll: true });
  show();
}

function drawChoices() {
  const trees = byId('trees');
  trees.hidden = data.trees.length < 2;
  trees.replaceChildren(...data.trees.map((t, i) => new Option((t.topology || 'cluster') + ': ' + t.levels.join(' > '), i)));
  trees.value = state.tree;
  const largest = Math.max(1, ...data.trees.flatMap((t) => hostsOf(t.cluster).map((h) => h.total ?? 0)));
  const sizes = new Set([data.pod, largest]);
  for (let n = 1; n <= largest && n <= 64; n *= 2) sizes.add(n);
  byId('size').replaceChildren(...[...sizes].filter((n) => n > 0).sort((a, b) => a - b).map((n) => new Option(n + ' ' + (n === 1 && unit() === 'GPUs' ? 'GPU' : unit()), n)));
  byId('size').value = state.pod;
  byId('heat').hidden = !data.resource;
  byId('stamp').textContent = data.taken ? (data.live ? 'As of ' : 'Read ') + new Date(data.taken).toLocaleString() : '';
  document.title = 'Trellis map' + (data.trees[0].topology ? ': ' + data.trees.map((t) => t.topology).join(', ') : '');
}

// openLink chooses the graph that an address leads to.
function openLink(hash) {
  const key = decodeURI(hash.slice(1));
  if (key !== state.graph && data.graphs.some((g) => graphKey(g) === key)) showGraph(key);
}

function begin() {
  prepare();
  drawChoices();
  drawLegend();
  drawCaption();
  redraw();
}

// follow takes over what the server pushes; what the reader chose stays.
function follow() {
  const source = new EventSource('events');
  source.onmessage = (e) => {
    const w = data.waiting[state.waiting];
    data = JSON.parse(e.data);
    state.waiting = w ? data.waiting.findIndex((o) => graphKey(o) === graphKey(w) && gangs(o) === gangs(w)) : -1;
    byId('stamp').classList.remove('lost');
    begin();
  };
  source.onerror = () => {
    byId('stamp').classList.add('lost');
    byId('stamp').textContent = 'Not connected: kubectl trellis map has ended, or cannot be reached. What is shown may be old.';
  };
}

map.addEventListener('click', (e) => {
  const cell = e.target.closest('.run, .dot'), host = e.target.closest('.host'), name = e.target.closest('.dom > h3 > button');
  if (name) return zoom(name.closest('.dom').dataset.path === state.zoom ? '' : name.closest('.dom').dataset.path);
  if (host) focusHost(host);
  if (cell?.pod?.graph) pickGraph(graphKey(cell.pod));
});
byId('trees').onchange = (e) => {
  state.waiting = -1;
  showTree(Number(e.target.value));
};
byId('size').onchange = (e) => {
  state.pod = Number(e.target.value);
  drawCaption();
  drawHeat();
};
byId('heat').onclick = () => setHeat(!state.heat);
byId('theme').onclick = toggleTheme;
byId('help').onclick = toggleKeys;
addEventListener('resize', rearrange);
addEventListener('hashchange', () => openLink(location.hash));
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', nameTheme);

nameTheme();
drawKeys();
byId('waiting').open = !narrow.matches;
const link = location.hash;
begin();
openLink(link);
if (data.live) follow();
