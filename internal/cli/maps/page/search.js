/* Copyright The Trellis Authors. SPDX-License-Identifier: Apache-2.0 */
// Search in names of domains, hosts, pods and graphs, and in states of hosts.
function matches(h, words) {
  const text = [h.path, h.name, h.state ?? '', ...podsOf(h).map((p) => podKey(p) + ' ' + (p.graph ? graphKey(p) + ' ' + p.service + '-' + p.replica : '') + ' ' + (p.state ?? ''))].join('\n').toLowerCase();
  return words.every((w) => text.includes(w));
}

function search(query) {
  state.query = query;
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  let hits = 0;
  for (const el of drawn.hosts) {
    const hit = words.length > 0 && matches(el.domain, words);
    el.classList.toggle('hit', hit);
    if (hit) hits++;
  }
  map.classList.toggle('searching', words.length > 0);
  byId('found').textContent = words.length ? plural(hits, 'host') : '';
}

// nextHit focuses the match after the one that has the focus.
function nextHit() {
  const hits = drawn.hosts.filter((el) => el.classList.contains('hit'));
  if (hits.length) focusHost(hits[(hits.indexOf(document.activeElement) + 1) % hits.length]);
}

byId('search').addEventListener('input', (e) => search(e.target.value));
byId('search').addEventListener('keydown', (e) => { if (e.key === 'Enter') nextHit(); });
