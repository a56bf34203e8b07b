/* Copyright The Trellis Authors. SPDX-License-Identifier: Apache-2.0 */
// The map is one stop of the Tab key; the arrows move between hosts.
function focusHost(el) {
  for (const h of map.querySelectorAll('.host[tabindex="0"]')) h.tabIndex = -1;
  el.tabIndex = 0;
  el.focus();
  el.scrollIntoView({ block: 'nearest', inline: 'nearest' });
}

// neighbour is the nearest host in a direction, one to the side counting less than one off the line.
function neighbour(from, dx, dy) {
  const at = (el) => {
    const r = el.getBoundingClientRect();
    return { x: r.left + r.width / 2, y: r.top + r.height / 2 };
  };
  const here = at(from);
  let best = null, least = Infinity;
  for (const el of drawn.hosts) {
    const p = at(el), along = (p.x - here.x) * dx + (p.y - here.y) * dy, across = Math.abs((p.x - here.x) * dy) + Math.abs((p.y - here.y) * dx);
    if (along > 1 && along + 3 * across < least) {
      least = along + 3 * across;
      best = el;
    }
  }
  return best;
}

const arrows = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

map.addEventListener('keydown', (e) => {
  const host = e.target.closest('.host');
  if (!host) return;
  if (arrows[e.key]) {
    const next = neighbour(host, ...arrows[e.key]);
    if (next) focusHost(next);
  } else if (e.key === 'Enter' || e.key === ' ') {
    pickHost(host.domain);
  } else {
    return;
  }
  e.preventDefault();
});

function cycle(list, at) {
  return list.length ? list[(at + 1) % list.length] : undefined;
}

const keys = {
  '/': () => byId('search').focus(),
  n: nextHit,
  h: () => setHeat(!state.heat),
  t: toggleTheme,
  '?': toggleKeys,
  g: () => {
    const all = data.graphs.map((g) => graphKey(g)), next = cycle(all, all.indexOf(state.graph));
    if (next) showGraph(next);
  },
  w: () => {
    const next = (state.waiting + 1) % data.waiting.length;
    if (data.waiting.length) choose(graphKey(data.waiting[next]), next);
  },
  z: () => {
    const box = document.activeElement.closest('.dom');
    zoom(state.zoom || !box ? '' : box.dataset.path);
  },
};

document.addEventListener('keydown', (e) => {
  if (e.key === 'Escape') return clearAll();
  if (e.ctrlKey || e.metaKey || e.altKey || e.target.matches('input, select')) return;
  if (keys[e.key]) {
    e.preventDefault();
    keys[e.key]();
  }
});
