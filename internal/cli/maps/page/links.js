/* Copyright The Trellis Authors. SPDX-License-Identifier: Apache-2.0 */
// Lines between the pods of each replica of the chosen graph. They run in the gaps between hosts, racks and the boxes around them, so that none
// crosses a name or a rack without a pod of the replica.
const maxLinks = 400, lanes = [0, 2, -2];

function drawLinks() {
  byId('links')?.remove();
  if (!state.graph) return;
  const svg = shape('svg', { id: 'links', 'aria-hidden': 'true' }), ruler = new Ruler();
  [...chosenReplicas().values()].slice(0, maxLinks).forEach((r, i) => {
    const g = shape('g', { 'data-replica': r.name });
    const stops = r.cells.map((cell) => ruler.stop(cell)).sort(inOrder), name = nameOn(r, stops[0]);
    if (name) stops[0].y += stops[0].height / 2; // lines begin below it
    for (let j = 1; j < stops.length; j++) g.append(shape('path', { d: polyline(ruler.way(stops[j - 1], stops[j], lanes[i % lanes.length] * ruler.gap / 8)) }));
    stops.forEach((s, j) => g.append(!j && name || shape('circle', { cx: s.x, cy: s.y, r: Math.min(2.5, s.height / 3) })));
    svg.append(g);
  });
  map.append(svg);
}

// chosenReplicas are the pods on the map by the replica that they are of.
function chosenReplicas() {
  const replicas = new Map();
  for (const { el, pod, host } of drawn.cells) {
    if (!pod.graph || graphKey(pod) !== state.graph) continue;
    const name = pod.service + '-' + pod.replica;
    if (!replicas.has(name)) replicas.set(name, { name, cells: [] });
    replicas.get(name).cells.push({ el, host });
  }
  return replicas;
}

// nameOn is the name of a replica on its first pod, if there is space for it.
function nameOn(r, s) {
  if (s.width < r.name.length * 6 + 8 || s.height < 11) return null;
  const text = shape('text', { x: s.x, y: s.y + 3.5 });
  text.textContent = r.name;
  return text;
}

// inOrder is that in which a replica's pods are linked: box by box, as they are read.
function inOrder(a, b) {
  for (let i = 0; i < Math.min(a.boxes.length, b.boxes.length); i++) {
    const p = a.boxes[i], q = b.boxes[i];
    if (p.el !== q.el) return p.top - q.top || p.left - q.left;
  }
  return a.column - b.column || a.y - b.y || a.x - b.x;
}

// Ruler measures the map, each box once. Positions are within the map.
class Ruler {
  constructor() {
    this.origin = map.getBoundingClientRect();
    this.known = new Map();
    this.gap = parseFloat(map.style.getPropertyValue('--gap'));
    this.row = parseFloat(map.style.getPropertyValue('--row'));
    this.pad = parseFloat(map.style.getPropertyValue('--pad'));
    this.hostGap = parseFloat(map.style.getPropertyValue('--host-gap'));
  }

  rect(el) {
    if (!this.known.has(el)) {
      const r = el.getBoundingClientRect(), { left: x, top: y } = this.origin;
      this.known.set(el, { el, left: r.left - x, right: r.right - x, top: r.top - y, bottom: r.bottom - y });
    }
    return this.known.get(el);
  }

  // stop is a pod on the map with the boxes around it, the broadest first.
  stop({ el, host }) {
    const r = this.rect(el), boxes = [];
    for (let box = host.closest('.dom'); box; box = box.parentElement.closest('.dom')) boxes.unshift(this.rect(box));
    const h = this.rect(host);
    return { x: (r.left + r.right) / 2, y: (r.top + r.bottom) / 2, width: r.right - r.left, height: r.bottom - r.top, host: h, column: h.left, boxes };
  }

  // way from one pod to the next: straight down within a column of hosts, otherwise below its host to the gap on its right, out to the box that
  // has both, and in to the other from the side that is nearer.
  way(a, b, lane) {
    let at = 0;
    while (at < a.boxes.length && at < b.boxes.length && a.boxes[at].el === b.boxes[at].el) at++;
    const rack = at === a.boxes.length;
    if (rack && a.column === b.column) {
      const y = b.host.top - this.row / 2;
      return a.x === b.x ? [[a.x, a.y], [b.x, b.y]] : [[a.x, a.y], [a.x, y], [b.x, y], [b.x, b.y]];
    }
    const left = rack ? b.column > a.column : b.boxes[at].left > a.boxes[at].left + 1;
    const out = this.out(a, at, lane), into = this.out(left ? mirrored(b, this) : b, at, lane).reverse(), from = out.at(-1), to = into[0];
    if (rack || Math.abs(from[0] - to[0]) < 1) return [...out, [from[0], to[1]], ...into];
    const y = a.boxes[at].bottom + this.gap / 2 + lane; // boxes of one row are of one height
    return [...out, [from[0], y], [to[0], y], ...into];
  }

  // out leads from a pod to the right of the box at this depth.
  out(s, depth, lane) {
    const below = s.host.bottom + this.row / 2;
    let x = s.host.right + Math.min(this.pad, this.hostGap) / 2 + lane / 2;
    const points = [[s.x, s.y], [s.x, below], [x, below]];
    for (let i = s.boxes.length - 1; i >= depth; i--) {
      const box = s.boxes[i], bottom = i === s.boxes.length - 1 ? below : s.boxes[i + 1].bottom + this.gap / 2 + lane;
      x = box.right + this.gap / 2 + lane;
      points.push([points.at(-1)[0], bottom], [x, bottom]);
    }
    return points;
  }
}

// mirrored is a pod whose way out is to the left.
function mirrored(s, ruler) {
  const right = s.host.left - Math.min(ruler.pad, ruler.hostGap);
  return { ...s, host: { ...s.host, right }, boxes: s.boxes.map((b) => ({ ...b, right: b.left - ruler.gap })) };
}

const polyline = (points) => points.map((p, i) => (i ? 'L' : 'M') + p[0].toFixed(1) + ' ' + p[1].toFixed(1)).join('');

function shape(tag, attributes) {
  const el = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) el.setAttribute(name, value);
  return el;
}
