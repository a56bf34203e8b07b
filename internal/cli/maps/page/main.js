/* Copyright The Trellis Authors. SPDX-License-Identifier: Apache-2.0 */
// What the reader can choose, and how it shows.
function pickGraph(key) {
  state.graph = state.graph === key ? '' : key;
  state.waiting = -1;
  const g = data.graphs.find((g) => graphKey(g) === state.graph);
  if (g && g.tree !== state.tree) showTree(g.tree);
  show();
}

function pickHost(h) {
  const pod = podsOf(h).find((p) => p.graph);
  if (pod) pickGraph(graphKey(pod));
}

function pickWaiting(i) {
  state.waiting = state.waiting === i ? -1 : i;
  state.graph = '';
  const w = data.waiting[state.waiting];
  if (w && (w.tree !== state.tree || state.zoom)) showTree(w.tree);
  show();
  if (w) map.querySelector('.target, .host.blocks')?.scrollIntoView({ block: 'nearest' });
}

// show marks what is chosen, on the map and in the lists.
function show() {
  const w = data.waiting[state.waiting];
  const blockers = new Set((w?.freeing ?? []).map((h) => h.name));
  const culprits = new Set((w?.freeing ?? []).flatMap((h) => (h.pods ?? []).map((p) => h.name + ' ' + p.pod)));
  const path = w ? w.freeingDomain || w.closest?.domain || '' : '';
  for (const [at, box] of drawn.boxes) box.classList.toggle('target', Boolean(w) && path !== '' && at === path);
  for (const el of drawn.hosts) el.classList.toggle('blocks', blockers.has(el.domain.name));
  for (const { el, pod, host } of drawn.cells) {
    el.classList.toggle('on', Boolean(state.graph) && pod.graph !== undefined && graphKey(pod) === state.graph);
    el.classList.toggle('blocks', culprits.has(host.domain.name + ' ' + podKey(pod)));
  }
  map.classList.toggle('picked', Boolean(state.graph));
  map.classList.toggle('blaming', blockers.size > 0);
  drawPanel();
  drawLinks();
  remember();
}

function showTree(i) {
  state.tree = i;
  state.zoom = '';
  redraw();
}

function zoom(path) {
  state.zoom = path;
  redraw();
}

function setHeat(on) {
  state.heat = on;
  drawHeat();
  drawLinks();
}

function clearAll() {
  byId('search').value = '';
  Object.assign(state, { graph: '', waiting: -1, query: '' });
  if (state.zoom) state.zoom = '';
  redraw();
}

function toggleTheme() {
  const dark = getComputedStyle(document.documentElement).colorScheme === 'dark';
  document.documentElement.dataset.theme = dark ? 'light' : 'dark';
}

function toggleLegend() {
  const legend = byId('legend');
  legend.hidden = !legend.hidden;
  byId('help').setAttribute('aria-expanded', !legend.hidden);
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
  byId('size').replaceChildren(...[...sizes].filter((n) => n > 0).sort((a, b) => a - b).map((n) => new Option(n, n)));
  byId('size').value = state.pod;
  byId('heat').hidden = !data.resource;
  byId('stamp').textContent = data.taken ? (data.live ? 'As of ' : 'Read ') + new Date(data.taken).toLocaleString() : '';
  document.title = 'Trellis map' + (data.trees[0].topology ? ': ' + data.trees[0].topology : '');
}

function begin() {
  prepare();
  drawChoices();
  drawLegend();
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
byId('trees').onchange = (e) => showTree(Number(e.target.value));
byId('size').onchange = (e) => { state.pod = Number(e.target.value); drawHeat(); };
byId('heat').onclick = () => setHeat(!state.heat);
byId('theme').onclick = toggleTheme;
byId('help').onclick = toggleLegend;
addEventListener('resize', drawLinks);

const wanted = decodeURI(location.hash.slice(1));
if (data.graphs.some((g) => graphKey(g) === wanted)) state.graph = wanted;
begin();
if (data.live) follow();
