/* Copyright The Trellis Authors. SPDX-License-Identifier: Apache-2.0 */
// What the mouse or the focus is on, in words.
const tip = byId('tip');

function podText(p) {
  if (!p.graph) return p.namespace + '/' + p.name + amountOf(p);
  const role = p.role && p.role !== 'main' ? ' ' + p.role + (p.role === 'worker' ? ' ' + p.index : '') : '';
  return graphName({ namespace: p.namespace, name: p.graph }) + ': ' + p.service + '-' + p.replica + role + amountOf(p) + (p.state ? ', ' + p.state : '');
}

const amountOf = (p) => p.amount ? ', ' + p.amount + ' ' + unit() : '';

function tipLines(target) {
  const cell = target.closest('.run, .dot'), host = target.closest('.host'), box = target.closest('.dom');
  if (cell?.pod) return [podText(cell.pod), 'pod ' + podKey(cell.pod), 'on ' + title(host.domain)];
  if (host) return [title(host.domain), host.blocks ? 'takes no pod of what waits: ' + host.blocks.reason : '', amountText(host.domain), ...podsOf(host.domain).slice(0, 12).map(podText)];
  if (box && target.closest('h3')) {
    const d = box.domain, room = roomIn(d, state.pod);
    const lines = [d.path || title(d), plural(hostsOf(d).length, 'host'), amountText(d)];
    if (d.total !== undefined) lines.push('pods of ' + state.pod + ' can use ' + room.fits + ' of the ' + room.free + ' free ' + unit());
    return lines;
  }
  return [];
}

function showTip(target, x, y) {
  const lines = tipLines(target).filter(Boolean);
  tip.hidden = !lines.length;
  if (tip.hidden) return;
  tip.replaceChildren(...lines.map((l) => make('div', '', l)));
  const w = tip.offsetWidth, h = tip.offsetHeight;
  tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - w - 8)) + 'px';
  tip.style.top = Math.max(4, y + 18 + h > innerHeight ? y - h - 10 : y + 18) + 'px';
}

map.addEventListener('pointermove', (e) => showTip(e.target, e.clientX, e.clientY));
map.addEventListener('pointerleave', () => { tip.hidden = true; });
map.addEventListener('focusin', (e) => {
  if (!e.target.matches(':focus-visible')) return;
  const r = e.target.getBoundingClientRect();
  showTip(e.target, r.left, r.bottom - 12);
});
map.addEventListener('focusout', () => { tip.hidden = true; });
