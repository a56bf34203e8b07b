/* Copyright The Trellis Authors. SPDX-License-Identifier: Apache-2.0 */
'use strict';
// What is drawn (data), what the reader chose (state), and what is on the page of it (drawn).
let data = JSON.parse(document.getElementById('data').textContent);
const state = { tree: 0, zoom: '', graph: '', waiting: -1, heat: false, pod: data.pod, query: '' };
const drawn = { top: null, boxes: new Map(), hosts: [], cells: [] };
const colours = new Map(); // of graphs, kept when the data changes
const foldAbove = 500, widest = 32, maxLabel = 18, tones = 10, looks = ['', 'stripes', 'dotted'], heats = 5, most = 1e6;

const byId = (id) => document.getElementById(id);
const map = byId('map');
const narrow = matchMedia('(max-width: 980px)');

// make returns an element with classes, text and children; no markup is ever parsed.
function make(tag, classes, text, ...children) {
  const el = document.createElement(tag);
  if (classes) el.className = classes;
  if (text !== undefined && text !== null) el.textContent = text;
  el.append(...children);
  return el;
}

const graphKey = (o) => o.namespace + '/' + (o.graph ?? o.name);
const podKey = (p) => p.namespace + '/' + p.name;
const unit = () => (data.resource || '').endsWith('/gpu') ? 'GPUs' : data.resource || 'pods';
const root = () => data.trees[state.tree].cluster;
const manyNamespaces = () => new Set(data.graphs.map((g) => g.namespace)).size > 1;
const graphName = (o) => (manyNamespaces() ? graphKey(o) : o.graph ?? o.name);

// colour of a graph: the lowest number that no other graph has.
function colour(key) {
  if (!colours.has(key)) {
    const taken = new Set(colours.values());
    let n = 0;
    while (taken.has(n)) n++;
    colours.set(key, n);
  }
  return colours.get(key);
}

// toneOf is how a pod is coloured, or whatever else has the name of a graph.
const toneOf = (pod) => pod.graph ? toneOfKey(graphKey(pod)) : 'other';

function toneOfKey(key) {
  const n = colour(key);
  return ('c' + n % tones + ' ' + looks[Math.floor(n / tones) % looks.length]).trim();
}

// sums are the pods and the amount of each graph in its tree.
const sums = new Map();

function count(key, amount) {
  const sum = sums.get(key) ?? { pods: 0, amount: 0 };
  sums.set(key, { pods: sum.pods + 1, amount: sum.amount + amount });
}

// prepare gives every domain its path and every graph its colour.
function prepare() {
  const alive = new Set(data.graphs.map((g) => graphKey(g)));
  for (const key of colours.keys()) if (!alive.has(key)) colours.delete(key);
  for (const g of data.graphs) colour(graphKey(g));
  const walk = (d, path) => {
    d.path = path;
    for (const child of d.children ?? []) walk(child, (path ? path + '/' : '') + child.name);
  };
  for (const t of data.trees) walk(t.cluster, '');
  sums.clear();
  data.trees.forEach((t, i) => hostsOf(t.cluster).forEach((h) => (h.pods ?? []).forEach((p) => count(i + ' ' + graphKey(p), p.amount ?? 0))));
  if (state.tree >= data.trees.length) state.tree = 0;
}

// asksOf is what a graph asks for beyond the pods that have a node: its pods without one, or what its replicas need when they have no pods yet.
function asksOf(g) {
  const sum = { pods: 0, amount: 0 };
  for (const p of g.waiting?.pods ?? []) {
    sum.pods++;
    sum.amount += p.amount ?? 0;
  }
  if (sum.pods) return sum;
  for (const w of data.waiting.filter((w) => graphKey(w) === graphKey(g))) {
    const replicas = (w.who ?? []).reduce((n, who) => n + who.replicas.length, 0);
    for (const need of w.need ?? []) {
      sum.pods += replicas * need.pods;
      sum.amount += replicas * need.pods * (need.requests?.[data.resource] ?? 0);
    }
  }
  return sum;
}

// replicasOf are the replicas of a graph that have nodes, with the narrowest domain that holds all of their pods.
function replicasOf(g) {
  const out = new Map();
  for (const h of hostsOf(data.trees[g.tree].cluster)) {
    for (const p of h.pods ?? []) {
      if (graphKey(p) !== graphKey(g)) continue;
      const name = p.service + '-' + p.replica, path = h.path.split('/').slice(0, -1), r = out.get(name);
      if (!r) {
        out.set(name, { name, service: p.service, replica: p.replica, pods: 1, path });
        continue;
      }
      r.pods++;
      const end = r.path.findIndex((part, i) => part !== path[i]);
      if (end >= 0) r.path = r.path.slice(0, end);
    }
  }
  return [...out.values()].sort((a, b) => a.service.localeCompare(b.service) || a.replica - b.replica);
}

function title(d) {
  if (d.node) return d.state ? d.name + ' (' + d.state + ')' : d.name;
  if (d.name === '' && d.level) return d.state === 'unknown' ? '(' + d.level + ' unknown)' : '(no ' + d.level + ' label)';
  return !d.level || d.name.startsWith(d.level) ? d.name || 'cluster' : d.level + ' ' + d.name;
}

function hostsOf(d, out = []) {
  if (d.node) out.push(d);
  for (const child of d.children ?? []) hostsOf(child, out);
  return out;
}

const podsOf = (host) => [...(host.pods ?? []), ...(host.foreign ?? [])];

// roomIn is what is free, and how much of it a gang of pods of this size finds.
function roomIn(d, pod) {
  const sum = { fits: 0, free: 0 };
  for (const h of hostsOf(d)) {
    sum.free += h.free ?? 0;
    if (pod > 0) sum.fits += Math.floor((h.free ?? 0) / pod) * pod;
  }
  return sum;
}

const heatOf = (room) => room.free ? Math.ceil((room.free - room.fits) * (heats - 1) / room.free) : 0;

// find returns the domain or host of a path, as far down as there is one.
function find(path) {
  let d = root();
  for (const name of path ? path.split('/') : []) {
    const child = (d.children ?? []).find((c) => c.name === name);
    if (!child) break;
    d = child;
  }
  return d;
}

const plural = (n, word) => n + ' ' + word + (n === 1 ? '' : 's');

// shortNames leaves out what names begin and end with in common, but for the last word of it when words are to stay.
function shortNames(names, keepWord = true) {
  if (names.length < 2) return names;
  let prefix = names[0], suffix = names[0];
  for (const n of names) {
    while (!n.startsWith(prefix)) prefix = prefix.slice(0, -1);
    while (!n.endsWith(suffix)) suffix = suffix.slice(1);
  }
  prefix = prefix.slice(0, Math.max(prefix.lastIndexOf('-'), prefix.lastIndexOf('.')) + 1);
  const word = prefix.slice(0, -1);
  if (keepWord) prefix = prefix.slice(0, Math.max(word.lastIndexOf('-'), word.lastIndexOf('.')) + 1);
  const dot = suffix.indexOf('.');
  const cut = dot < 0 ? 0 : suffix.length - dot;
  return names.map((n) => n.slice(prefix.length, Math.max(prefix.length + 1, n.length - cut)));
}

// labels are the names of the hosts of a rack as they stand on the map. Long ones have letters for words (zone-0-rack-2-host-7 is z0-r2-h7) where
// they still differ, and otherwise keep their ends.
function labels(hosts, words = true) {
  let names = shortNames(hosts.map((h) => h.name), words);
  if (names.some((n) => n.length > maxLabel)) {
    const brief = names.map((n) => n.replace(/([a-z])[a-z]*-(?=[0-9])/g, '$1'));
    if (new Set(brief).size === new Set(names).size) names = brief;
  }
  return names.map((n) => (n.length > maxLabel ? '\u2026' + n.slice(1 - maxLabel) : n));
}
