/* Copyright The Trellis Authors. SPDX-License-Identifier: Apache-2.0 */
// Lines between the pods of each replica of the chosen graph, and between its replicas.
const maxLinks = 400, maxNames = 40;

function drawLinks() {
  byId('links')?.remove();
  if (!state.graph) return;
  const replicas = new Map();
  const origin = map.getBoundingClientRect();
  for (const { el, pod } of drawn.cells) {
    if (!pod.graph || graphKey(pod) !== state.graph) continue;
    const r = el.getBoundingClientRect();
    const key = pod.service + '-' + pod.replica;
    if (!replicas.has(key)) replicas.set(key, { name: key, service: pod.service, points: [] });
    replicas.get(key).points.push({ x: r.left + r.width / 2 - origin.left, y: r.top + r.height / 2 - origin.top, w: r.width });
  }
  if (!replicas.size || drawn.cells.length === 0) return;
  const svg = shape('svg', { id: 'links', 'aria-hidden': 'true' });
  const services = new Map();
  let lines = 0;
  for (const r of replicas.values()) {
    r.points.sort((a, b) => a.y - b.y || a.x - b.x);
    r.x = r.points.reduce((s, p) => s + p.x, 0) / r.points.length;
    r.y = r.points.reduce((s, p) => s + p.y, 0) / r.points.length;
    if (!services.has(r.service)) services.set(r.service, []);
    services.get(r.service).push(r);
    if (++lines < maxLinks) svg.append(shape('path', { d: polyline(r.points), 'data-replica': r.name }));
    for (const p of r.points) if (++lines < maxLinks) svg.append(shape('circle', { cx: p.x, cy: p.y, r: 2.5 }));
  }
  for (const list of services.values()) {
    list.sort((a, b) => a.y - b.y || a.x - b.x);
    if (list.length > 1 && ++lines < maxLinks) svg.append(shape('path', { class: 'between', d: polyline(list) }));
  }
  if (replicas.size <= maxNames) nameReplicas(svg, [...replicas.values()]);
  map.append(svg);
}

// nameReplicas writes names beside the replicas, those at one place below one another.
function nameReplicas(svg, list) {
  const taken = [];
  for (const r of list.sort((a, b) => a.y - b.y || a.x - b.x)) {
    const first = r.points[0];
    const at = { x: first.x + 7, y: r.y + 4 };
    while (taken.some((t) => Math.abs(t.y - at.y) < 12 && Math.abs(t.x - at.x) < r.name.length * 7)) at.y += 12;
    taken.push(at);
    const text = shape('text', at);
    text.textContent = r.name;
    svg.append(text);
  }
}

const polyline = (points) => points.map((p, i) => (i ? 'L' : 'M') + p.x.toFixed(1) + ' ' + p.y.toFixed(1)).join('');

function shape(tag, attributes) {
  const el = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) el.setAttribute(name, value);
  return el;
}
