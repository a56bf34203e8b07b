/* Copyright The Trellis Authors. SPDX-License-Identifier: Apache-2.0 */
// Where boxes go: all domains of a level have one width and stand on a grid, in as many columns as let the cells be largest in the window. Every
// width and height is a sum of what is below, in pixels, so that nothing has to be drawn to be measured.
const named = { title: 22, rackTitle: 22, font: 12, pad: 7, gap: 8, hostGap: 12, row: 2, border: 2, slots: 2, dot: 9, step: 1, letter: 6.7, cell: [5, 96], bar: [11, 48] };
const tight = { title: 17, rackTitle: 16, font: 11, pad: 4, gap: 4, hostGap: 6, row: 1, border: 2, slots: 1, dot: 5, step: 0.5, letter: 5.5, cell: [4, 96], bar: [9, 48] };
const plain = { title: 18, rackTitle: 13, font: 12, pad: 4, gap: 4, hostGap: 4, row: 1, border: 0, slots: 1, dot: 3, step: 0.25, letter: 0, cell: [2, 12], bar: [3, 12] };
const maxLayouts = 2000, columnCost = 0.9, maxSpare = 24;

// outline is the tree of boxes with no more than a layout needs. Equal parts are one object, so that each is measured once.
function outline(d, depth, seen) {
  const rack = isRack(d), kids = rack ? [] : (d.children ?? []).map((c) => outline(c, depth + 1, seen));
  const key = depth + (rack ? ' ' + d.children.length : '(' + kids.map((k) => k.id).join() + ')');
  if (!seen.has(key)) seen.set(key, { id: seen.size, depth, rack, kids, hosts: rack ? d.children.length : 0 });
  return seen.get(key);
}

// usual is the number of cells that three hosts in four do not exceed. The others have narrower cells, so that a few large hosts do not shrink all.
// Pods beyond the capacity of a host are drawn within it.
function usual(hosts) {
  const sizes = hosts.map(sizeOf).filter(Boolean).sort((a, b) => a - b);
  return sizes.length ? Math.min(widest, sizes[Math.ceil(sizes.length * 0.75) - 1]) : 0;
}

const sizeOf = (h) => h.total || h.used || 0;

// facts are the sizes that all hosts of a map have in common, with the length of names at each scale.
function facts(top) {
  const hosts = hostsOf(top), racks = [];
  const walk = (d) => (isRack(d) ? racks.push(d) : (d.children ?? []).forEach(walk));
  walk(top);
  const longest = (names) => names.reduce((n, name) => Math.max(n, name.length), 1);
  return {
    cells: usual(hosts),
    label: new Map([[named, longest(racks.flatMap((d) => labels(d.children)))], [tight, longest(racks.flatMap((d) => labels(d.children, false)))], [plain, 0]]),
    dots: hosts.reduce((n, h) => Math.max(n, podsOf(h).filter((p) => !p.amount).length), 0),
  };
}

// choices are the numbers of columns for so many boxes: of those that make as many rows, the fewest.
function choices(n) {
  const list = [];
  for (let rows = 1; rows <= n; rows++) {
    const columns = Math.ceil(n / rows);
    if (list.at(-1) !== columns) list.push(columns);
  }
  return list.length ? list : [1];
}

// grids are the columns of every depth, the hosts of a rack last.
function grids(seen) {
  const most = [];
  let rackDepth = 0;
  for (const o of seen.values()) if (o.rack) rackDepth = Math.max(rackDepth, o.depth);
  for (const o of seen.values()) {
    const at = o.rack ? rackDepth : o.depth;
    if (!o.rack || o.depth === rackDepth) most[at] = Math.max(most[at] ?? 1, o.rack ? o.hosts : o.kids.length);
  }
  const levels = Array.from(most, (n) => choices(n ?? 1));
  while (levels.reduce((n, l) => n * l.length, 1) > maxLayouts) { // leave out every other choice of the level that has most
    const longest = levels.reduce((a, b) => (b.length > a.length ? b : a));
    longest.splice(0, longest.length, ...longest.filter((_, i) => i % 2 === 0));
  }
  return levels.reduce((all, level) => all.flatMap((columns) => level.map((n) => [...columns, n])), [[]]);
}

// Layout is one choice of columns, with the sizes that follow from it.
class Layout {
  constructor(g, f, columns) {
    Object.assign(this, { g, f, columns, cell: 0, bar: g.bar[0], spare: 0 });
  }

  // slot holds the dots of a host: two above one another and two beside one another, or one on the smallest hosts.
  get dot() { return this.g === plain ? Math.max(2, Math.min(4, this.bar)) : Math.max(4, Math.min(this.g.dot, Math.floor(this.bar / 2) - 1)); }
  get slots() { return Math.min(this.g.slots, Math.ceil(this.f.dots / 2)); }
  get slot() { return this.slots && this.slots * (this.g.dot + 2) + 1; }
  get label() { return this.g.letter && Math.ceil(this.f.label.get(this.g) * this.g.letter) + 6 + this.spare; }
  get host() { return this.label + (this.f.cells ? this.f.cells * this.cell + this.g.border : 0) + this.slot; }
  get edge() { return 2 * (this.g.pad + 1); }

  // width of a box at a depth.
  width(depth) {
    const n = this.columns[depth];
    if (depth === this.columns.length - 1) return n * this.host + (n - 1) * this.g.hostGap + this.edge;
    return n * this.width(depth + 1) + (n - 1) * this.g.gap + this.edge;
  }

  // hostColumns of a rack; one that lacks a level is as wide as what is around the racks beside it, and has as many as fit.
  hostColumns(o) {
    if (o.depth === this.columns.length - 1) return this.columns[o.depth];
    return Math.max(1, Math.floor((this.width(o.depth) - this.edge + this.g.hostGap) / (this.host + this.g.hostGap)));
  }

  height(o, memo = new Map()) {
    if (memo.has(o)) return memo.get(o);
    let sum = (o.rack ? this.g.rackTitle : this.g.title) + this.g.pad + 2;
    if (o.rack) {
      const rows = Math.ceil(o.hosts / this.hostColumns(o));
      sum += rows * (this.bar + this.g.row) - this.g.row;
    } else {
      const n = this.columns[o.depth];
      for (let i = 0; i < o.kids.length; i += n) {
        sum += Math.max(...o.kids.slice(i, i + n).map((k) => this.height(k, memo))) + (i ? this.g.gap : 0);
      }
    }
    memo.set(o, sum);
    return sum;
  }

  // fit makes cells and bars as large as the space allows, and finds whether that is too narrow, and how much too low.
  fit(top, space) {
    const cells = this.f.cells * this.columns.reduce((a, b) => a * b, 1);
    const step = this.g.step, round = (n) => Math.floor(n / step) * step;
    this.cell = cells ? Math.min(this.g.cell[1], round((space.width - this.width(0)) / cells)) : this.g.cell[0];
    this.narrow = this.cell < this.g.cell[0] || this.width(0) > space.width;
    this.cell = Math.max(this.cell, this.g.cell[0]);
    const low = this.height(top);
    this.bar++;
    const more = this.height(top) - low;
    this.bar = Math.max(this.g.bar[0], Math.min(this.g.bar[1], this.g.bar[0] + round((space.height - low) / Math.max(1, more))));
    while (this.bar > this.g.bar[0] && this.height(top) > space.height) this.bar -= step;
    this.over = Math.max(0, this.height(top) - space.height);
    return this;
  }

  // shape bounds how much wider than high cells are, and higher than wide. It gives the width that is left to the names, or to the cells.
  shape(space) {
    if (this.f.cells) this.bar = Math.min(this.bar, Math.max(this.g.bar[0], Math.round(this.cell * 2)));
    this.cell = Math.min(this.cell, Math.max(this.g.cell[0], Math.round(this.bar * 3)));
    const left = space.width - this.width(0), hosts = this.columns.reduce((a, b) => a * b, 1);
    if (left > 0 && this.g.letter) this.spare = Math.min(maxSpare, Math.floor(left / hosts));
    if (left > 0 && !this.g.letter && this.f.cells) this.cell += left / hosts / this.f.cells;
    return this;
  }

  // better compares two: what fits comes first, by the size of the cells, then what needs least scrolling.
  better(o) {
    if (this.narrow !== o.narrow) return o.narrow;
    if (this.narrow) return this.width(0) < o.width(0);
    if (!this.over !== !o.over) return !this.over;
    if (this.over && this.over !== o.over) return this.over < o.over;
    return this.size() > o.size();
  }

  size() {
    const size = this.f.cells ? Math.min(this.cell, this.bar) + (this.cell + this.bar) / 100 : this.bar;
    return size * columnCost ** (this.columns.at(-1) - 1);
  }
}

// bestLayout of what is below a domain in so much space: with full names, with short ones, or without any where that is the only way to show it whole.
function bestLayout(top, space) {
  const seen = new Map(), f = facts(top), whole = outline(top, 0, seen), columns = grids(seen);
  let best = null;
  for (const g of hostsOf(top).length > foldAbove ? [plain] : narrow.matches ? [named] : [named, tight, plain]) {
    const one = columns.map((list) => new Layout(g, f, list).fit(whole, space)).reduce((a, b) => (b.better(a) ? b : a));
    if (!best || best.narrow || best.over) best = one;
    if (!best.narrow && !best.over) break;
  }
  return best.shape(space);
}

// space is what is left for the map of the window; on a narrow one the page scrolls.
function space() {
  const main = map.parentElement, style = getComputedStyle(main);
  const width = main.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
  if (narrow.matches) return { width, height: innerHeight * 0.8 };
  let height = main.clientHeight - parseFloat(style.paddingTop) - parseFloat(style.paddingBottom);
  for (const el of main.children) if (el !== map && !el.hidden) height -= el.offsetHeight + 8;
  return { width, height };
}

// rearrange fits the map to a window that has changed.
function rearrange() {
  arrange(drawn.top, map.querySelector('.dom'));
  drawHeat();
  show();
}

// arrange gives every box its place. Where the map does not fit, a scroll bar takes some of the width.
function arrange(top, box) {
  const room = space();
  let l = bestLayout(top, room);
  if (l.over && !narrow.matches) l = bestLayout(top, { ...room, width: room.width - 16 });
  map.classList.toggle('fold', l.g === plain);
  for (const [name, px] of [['cell', l.cell], ['bar', l.bar], ['label', l.label], ['letters', l.g.letter / 0.61], ['font', l.g.font], ['dot', l.dot], ['row', l.g.row],
    ['gap', l.g.gap], ['host-gap', l.g.hostGap], ['pad', l.g.pad], ['title', l.g.title], ['rack-title', l.g.rackTitle]]) map.style.setProperty('--' + name, px + 'px');
  map.style.setProperty('--slots', l.slots);
  const walk = (el, depth) => {
    const body = el.lastElementChild, names = namesIn(el.domain, l, depth);
    const name = textWidth(el.querySelector('h3 > button').textContent, l.g) + l.edge + 8;
    el.tight = l.width(depth) < name + textWidth(freeText(el.domain), l.g);
    el.classList.toggle('bare', l.width(depth) < name + textWidth(el.domain.free + ' free', l.g));
    if (el.classList.contains('rack')) {
      const n = l.hostColumns({ depth }), hosts = body.childElementCount;
      body.style.gridTemplateColumns = `repeat(${Math.min(n, hosts)}, ${l.host}px)`;
      body.style.gridTemplateRows = `repeat(${Math.ceil(hosts / n)}, ${l.bar}px)`;
      [...body.children].forEach((host, i) => fitHost(host, names[i], l));
      return;
    }
    if (!el.domain.children?.length) return;
    body.style.gridTemplateColumns = `repeat(${l.columns[depth]}, ${l.width(depth + 1)}px)`;
    [...body.children].forEach((kid, i) => {
      kid.querySelector('h3 > button').textContent = names[i];
      walk(kid, depth + 1);
    });
  };
  box.style.width = l.width(0) + 'px';
  walk(box, 0);
}

// namesIn are the names of what is in a domain, as short as the scale and the width ask for.
function namesIn(d, l, depth) {
  const children = d.children ?? [];
  if (isRack(d)) return labels(children, l.g === named);
  const full = children.map(title);
  if (l.g === named || !children.every(isRack)) return full;
  if (l.g === tight && full.every((name, i) => textWidth(name + children[i].free + ' free', l.g) + l.edge + 8 <= l.width(depth + 1))) return full;
  return shortNames(children.map((c) => c.name), false).map((name, i) => (children[i].name && name) || full[i]);
}

// fitHost names a host and gives its cells their share of the width.
function fitHost(el, name, l) {
  el.firstElementChild.textContent = name;
  const cells = el.querySelector('.cells'), size = sizeOf(el.domain), share = Math.min(size, l.f.cells) / Math.max(size, el.domain.used ?? 0);
  if (!cells) return;
  cells.style.setProperty('--share', share);
  cells.classList.toggle('plain', l.cell * share < 4);
}

// textWidth is how wide a bold text is in a title.
const ruler = document.createElement('canvas').getContext('2d');
function textWidth(text, g) {
  ruler.font = '600 ' + g.font + 'px ' + getComputedStyle(document.body).fontFamily;
  return Math.ceil(ruler.measureText(text).width);
}
