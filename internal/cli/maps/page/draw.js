/* Copyright The Trellis Authors. SPDX-License-Identifier: Apache-2.0 */
// draw makes the boxes of what is zoomed to.
function draw() {
  const top = state.zoom ? find(state.zoom) : root();
  drawn.boxes.clear();
  drawn.hosts = [];
  drawn.cells = [];
  drawCrumbs(top);
  drawSums();
  drawn.top = top.node ? { ...top, node: false, children: [top] } : top;
  const box = drawDomain(drawn.top);
  map.replaceChildren();
  arrange(drawn.top, box);
  map.append(box);
  drawHeat();
}

const maxDots = 4; // of a host; of more, the fourth is a plus, and those of the chosen graph come first
const isRack = (d) => (d.children ?? []).some((c) => c.node);

// drawDomain makes the box of a domain and those in it; arrange gives them their names and places.
function drawDomain(d) {
  if (isRack(d)) return drawRack(d);
  const kids = make('div', 'kids');
  for (const child of d.children ?? []) kids.append(drawDomain(child));
  if (!d.children?.length) kids.append(make('p', 'none', 'no hosts'));
  return frame(d, 'dom', kids);
}

function drawRack(d) {
  const grid = make('div', 'hosts');
  grid.setAttribute('role', 'group');
  for (const h of d.children) grid.append(drawHost(h));
  return frame(d, 'dom rack', grid);
}

// frame is the box of a domain with its title.
function frame(d, classes, body) {
  const button = make('button', '', title(d));
  button.type = 'button';
  button.tabIndex = -1;
  const sum = make('span', 'sum');
  const box = make('section', classes, null, make('h3', '', null, button, sum), body);
  box.sum = sum;
  box.dataset.path = d.path;
  box.dataset.level = d.level ?? '';
  for (const key of ['used', 'free', 'total']) if (d.total !== undefined) box.dataset[key] = d[key];
  box.setAttribute('role', 'group');
  box.setAttribute('aria-label', [title(d), amountText(d)].filter(Boolean).join(': '));
  box.domain = d;
  drawn.boxes.set(d.path, box);
  return box;
}

// over is what pods use of a host beyond what it has.
const over = (h) => h.total === undefined ? 0 : Math.max(0, h.used - h.total);

const amountText = (d) => d.total === undefined ? '' : d.free + ' of ' + d.total + ' ' + unit() + ' free, ' + d.used + ' used' + (d.node && over(d) ? ', over-booked' : '');

// freeText is the one way in which amounts stand on the map: what is free, of all.
const freeText = (d) => d.total === undefined ? '' : d.free + ' of ' + d.total + ' free';

function drawHost(h) {
  const cells = make('span', 'cells'), dots = make('span', 'dots');
  const el = make('div', 'host', null, make('span', 'label'), cells, dots);
  el.tabIndex = -1;
  el.setAttribute('role', 'button');
  el.setAttribute('aria-label', [title(h), amountText(h), ...podsOf(h).map(podText)].filter(Boolean).join('; '));
  el.dataset.name = h.name;
  if (h.total !== undefined) el.dataset.total = h.total;
  if (h.state) {
    el.dataset.state = h.state;
    el.classList.add('out');
    if (h.state === 'not ready' || h.state === 'gone') el.classList.add('lost');
  }
  el.domain = h;
  let used = 0;
  for (const pod of podsOf(h)) {
    (pod.amount ? cells : dots).append(drawPod(el, pod, pod.amount ? 'run' : 'dot'));
    used += pod.amount ?? 0;
  }
  if (dots.childElementCount > maxDots) dots.append(make('i', 'more'));
  const rest = (h.total ?? 0) - used;
  if (rest > 0) cells.append(run(make('i', 'run free'), rest));
  if (over(h)) el.classList.add('over');
  if (!cells.childElementCount) cells.remove();
  drawn.hosts.push(el);
  drawn.boxes.set(h.path, el);
  return el;
}

function run(el, amount) {
  el.style.setProperty('--n', Math.min(amount, most));
  el.dataset.amount = amount;
  return el;
}

function drawPod(host, pod, kind) {
  const el = make('i', kind + ' ' + toneOf(pod));
  if (kind === 'run') run(el, pod.amount);
  if (pod.state === 'planned') el.classList.add('planned');
  if (pod.state === 'not ready') el.classList.add('sick');
  if (pod.state === 'terminating') el.classList.add('ending');
  el.dataset.pod = podKey(pod);
  if (pod.graph) el.dataset.graph = graphKey(pod);
  el.pod = pod;
  drawn.cells.push({ el, pod, host });
  return el;
}

// drawHeat shades the racks, and says on every domain what is free, or how much of that a gang can use.
function drawHeat() {
  map.classList.toggle('heated', state.heat);
  byId('heat').setAttribute('aria-pressed', state.heat);
  for (const box of drawn.boxes.values()) {
    const d = box.domain;
    if (d.node || d.total === undefined) continue;
    const room = roomIn(d, state.pod);
    for (let i = 0; i < heats; i++) box.classList.toggle('heat' + i, heatOf(room) === i);
    box.dataset.fits = room.fits;
    const free = box.tight ? d.free + ' free' : freeText(d), usable = box.tight ? room.fits + ' usable' : room.fits + ' of ' + room.free + ' usable';
    box.sum.textContent = !state.heat ? free : room.free ? usable : 'none free';
  }
}

// drawCaption explains the numbers of fragmentation, in the place of the legend.
function drawCaption() {
  map.parentElement.classList.toggle('heated', state.heat);
  const { fits, free } = roomIn(root(), state.pod);
  byId('example').textContent = '\u201c' + fits + ' of ' + free + ' usable\u201d: of ' + free + ' free ' + unit() + ', pods of ' + state.pod + ' can use ' + fits +
    '. The rest is left over on hosts that have capacity for no further pod.';
}

function drawCrumbs(top) {
  const nav = byId('crumbs'), crumbs = [];
  if (top !== root()) {
    const names = top.path.split('/');
    crumbs.push(['all', ''], ...names.slice(0, -1).map((n, i) => [n, names.slice(0, i + 1).join('/')]));
  }
  nav.hidden = !crumbs.length;
  nav.replaceChildren(...crumbs.map(([name, path]) => {
    const b = make('button', '', name + ' \u203a');
    b.type = 'button';
    b.onclick = () => zoom(path);
    return b;
  }), ...(crumbs.length ? [make('b', '', ' ' + title(top))] : []));
}

function drawSums() {
  byId('sums').textContent = data.sums[state.tree].text;
}
