/* Copyright The Trellis Authors. SPDX-License-Identifier: Apache-2.0 */
// draw makes the boxes of what is zoomed to.
function draw() {
  const top = state.zoom ? find(state.zoom) : root();
  drawn.boxes.clear();
  drawn.hosts = [];
  drawn.cells = [];
  const n = hostsOf(top).length;
  map.classList.toggle('fold', n > foldAbove);
  map.classList.toggle('few', n <= fewHosts);
  const box = top.node ? drawRack({ ...top, node: false, children: [top] }) : drawDomain(top);
  map.replaceChildren(box);
  drawHeat();
  drawCrumbs(top);
  drawSums();
}

const isRack = (d) => (d.children ?? []).some((c) => c.node);

function drawDomain(d, name) {
  if (isRack(d)) return drawRack(d, name);
  const kids = make('div', 'kids'), children = d.children ?? [];
  const folded = map.classList.contains('fold') && children.every(isRack) ? shortNames(children.map((c) => c.name), false) : [];
  children.forEach((child, i) => kids.append(drawDomain(child, folded[i])));
  if (!d.children?.length) kids.append(make('p', 'none', 'no hosts'));
  return frame(d, 'dom', kids, name);
}

function drawRack(d, name) {
  const list = d.children, names = shortNames(list.map((h) => h.name));
  const grid = make('div', 'hosts');
  grid.setAttribute('role', 'group');
  const label = Math.min(18, Math.max(3, ...names.map((n) => n.length)));
  const cells = Math.max(0, ...list.map((h) => h.total ?? 0));
  grid.style.setProperty('--label', (label * 6.5 + 2) + 'px');
  grid.style.setProperty('--host', (label * 6.5 + 30 + Math.min(cells, 32) * 11) + 'px');
  if (list.length > 20) grid.classList.add('many');
  list.forEach((h, i) => grid.append(drawHost(h, names[i])));
  const box = frame(d, 'dom rack', grid, name);
  box.style.setProperty('--folded', Math.max(32, Math.min(cells, 32) * 4 + 2) + 'px');
  return box;
}

// frame is the box of a domain with its title; name is a shorter one where there is little room.
function frame(d, classes, body, name) {
  const button = make('button', '', name || title(d));
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

const amountText = (d) => d.total === undefined ? '' : d.used + ' of ' + d.total + ' ' + unit() + ' used, ' + d.free + ' free';

function drawHost(h, name) {
  const cells = make('span', 'cells'), dots = make('span', 'dots');
  const el = make('div', 'host', null, make('span', 'label', name), cells, dots);
  el.tabIndex = -1;
  el.setAttribute('role', 'button');
  el.setAttribute('aria-label', [title(h), amountText(h), ...podsOf(h).map(podText)].filter(Boolean).join('; '));
  el.dataset.name = h.name;
  if (h.state) {
    el.dataset.state = h.state;
    el.classList.add('out');
    if (h.state !== 'cordoned') el.classList.add('lost');
  }
  el.domain = h;
  const maxDots = map.classList.contains('fold') ? 3 : 6;
  let used = 0, left = 0;
  for (const pod of podsOf(h)) {
    if (pod.amount) {
      cells.append(drawPod(el, pod, 'run'));
      used += pod.amount;
    } else if (dots.childElementCount < maxDots) {
      dots.append(drawPod(el, pod, 'dot'));
    } else {
      left++;
    }
  }
  if (left) dots.append(make('span', 'more', '+' + left));
  const rest = (h.total ?? 0) - used;
  if (rest > 0) cells.append(run(make('i', 'run free'), rest));
  if ((h.total ?? 0) > 32) {
    cells.classList.add('plain');
    cells.style.setProperty('--cell', (map.classList.contains('fold') ? 128 : 256) / h.total + 'px');
  }
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

// drawHeat shades the racks, and says on every domain what is used, or how much of what is free a gang finds.
function drawHeat() {
  map.classList.toggle('heated', state.heat);
  byId('heat').setAttribute('aria-pressed', state.heat);
  byId('sizes').hidden = !state.heat;
  for (const box of drawn.boxes.values()) {
    const d = box.domain;
    if (d.node || d.total === undefined) continue;
    const room = roomIn(d, state.pod);
    for (let i = 0; i < heats; i++) box.classList.toggle('heat' + i, heatOf(room) === i);
    box.dataset.fits = room.fits;
    const use = box.classList.contains('rack') ? d.used + '/' + d.total : d.free + ' of ' + d.total + ' free';
    const fit = room.free ? 'fits ' + room.fits + '/' + room.free : 'none free';
    box.sum.textContent = state.heat ? fit : use;
  }
}

function drawCrumbs(top) {
  const nav = byId('crumbs'), crumbs = [];
  if (top !== root()) {
    const names = top.path.split('/');
    crumbs.push(['all', ''], ...names.slice(0, -1).map((n, i) => [n, names.slice(0, i + 1).join('/')]));
  }
  nav.replaceChildren(...crumbs.map(([name, path]) => {
    const b = make('button', '', name + ' \u203a');
    b.type = 'button';
    b.onclick = () => zoom(path);
    return b;
  }), ...(crumbs.length ? [make('b', '', ' ' + title(top))] : []));
}

function drawSums() {
  const d = root(), n = hostsOf(d).length;
  const out = hostsOf(d).reduce((sum, h) => sum + (h.state && h.total ? Math.max(0, h.total - h.used) : 0), 0);
  const parts = [plural(n, 'host')];
  if (d.total !== undefined) parts.push(d.total + ' ' + unit(), d.used + ' used', d.free + ' free');
  const planned = hostsOf(d).flatMap(podsOf).reduce((sum, p) => sum + (p.state === 'planned' ? p.amount ?? 0 : 0), 0);
  if (planned) parts[2] += ' (' + planned + ' of them planned)';
  if (out) parts.push(out + ' unavailable');
  byId('sums').textContent = parts.join(' \u00b7 ');
}
