// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"fmt"
	"io"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/internal/cli/maps"
	"github.com/trellis-k8s/trellis/test/testutil/worlds"
)

// screens are the windows of a wall screen and of a laptop.
var screens = map[string]look{"1600x1000": {1600, 1000, false}, "1600x1000-dark": {1600, 1000, true}, "1280x800": {1280, 800, false}}

// leftOver is the share of the width, in percent, that the map does not fill, and the height in pixels that needs scrolling.
const leftOver = `(() => {
  const main = document.querySelector('main'), style = getComputedStyle(main), box = map.querySelector('.dom').getBoundingClientRect();
  const width = main.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
  return [Math.round(100 * (width - box.width) / width), main.scrollHeight - main.clientHeight];
})()`

// strayTexts lists texts that leave their box or overlap another one, and labels of hosts that are cut.
const strayTexts = `(() => {
  const out = [], at = (el) => el.getBoundingClientRect(), seen = (el) => el.checkVisibility() && el.textContent;
  for (const el of [...map.querySelectorAll('.label, .dom > h3 > button, .sum')].filter(seen)) {
    const r = at(el), box = at(el.closest('.dom'));
    if (r.left < box.left || r.right > box.right + 0.5 || r.top < box.top - 0.5 || r.bottom > box.bottom + 0.5) out.push(el.textContent + ' leaves ' + el.closest('.dom').dataset.path);
    if (el.className === 'label' && el.scrollWidth > el.clientWidth) out.push(el.textContent + ' is cut in ' + el.closest('.dom').dataset.path);
  }
  for (const h of map.querySelectorAll('h3')) {
    const [name, sum] = h.children;
    if (seen(name) && seen(sum) && at(name).right > at(sum).left + 0.5) out.push(name.textContent + ' runs into ' + sum.textContent);
  }
  for (const host of map.querySelectorAll('.host')) {
    const [label, cells] = host.children;
    if (seen(label) && cells && at(label).right > at(cells).left + 0.5) out.push(label.textContent + ' runs into its cells');
  }
  return out;
})()`

// barWidths are the distinct widths of hosts' cells, by the hosts' capacity.
const barWidths = `(() => {
  const out = {};
  for (const host of map.querySelectorAll('.host')) {
    const list = out[host.dataset.total] ??= [], width = Math.round(10 * host.querySelector('.cells').getBoundingClientRect().width) / 10;
    if (!list.some((n) => Math.abs(n - width) < 0.6)) list.push(width);
  }
  return out;
})()`

// TestWall: maps of clusters for a wall fit every screen and fill its width, their header adds up, and no text leaves its box.
func TestWall(t *testing.T) {
	browser := start(t)
	for _, hosts := range []int{64, 400, 2000} {
		_, m := build(t, fmt.Sprintf("wall-%d", hosts))
		url := write(t, m)
		for window, l := range screens {
			t.Run(fmt.Sprintf("%d/%s", hosts, window), func(t *testing.T) {
				p := open(t, browser, url, l)
				p.shot(fmt.Sprintf("wall-%d-%s", hosts, window))
				if left := js[[]int](p, leftOver); left[0] > 4 || left[0] < 0 || left[1] > 0 {
					t.Errorf("%d%% of the width is left over, and %d pixels have to be scrolled to", left[0], left[1])
				}
				want(p, "hosts", `map.querySelectorAll('.host').length`, hosts)
				want(p, "header", `byId('sums').textContent`, m.Sums[0].Text)
				want(p, "texts that stray", strayTexts, []string{})
				want(p, "off the grid", offGrid, []string{})
				for gpus, widths := range js[map[string][]float64](p, barWidths) {
					if len(widths) != 1 {
						t.Errorf("the bars of hosts of %s GPUs are %v wide", gpus, widths)
					}
				}
			})
		}
	}
}

// TestOverbooked: a host with more pods than GPUs is marked, and does not change the cells of other hosts.
func TestOverbooked(t *testing.T) {
	browser := start(t)
	b, m := build(t, "wall-64")
	with := open(t, browser, write(t, m), wide)
	want(with, "hosts that are marked", `[...map.querySelectorAll('.host.over')].map((e) => e.dataset.name)`, []string{b.Nodes[worlds.WallOverbooked].Name})
	b.Pods = slices.DeleteFunc(b.Pods, func(p *corev1.Pod) bool { return p.Spec.NodeName == b.Nodes[worlds.WallOverbooked].Name })
	without, err := maps.Build(maps.SourceOf(b.World), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	p := open(t, browser, write(t, without), wide)
	const cell = `bestLayout(drawn.top, { width: 900, height: 600 }).cell` // the legends differ in height
	want(p, "width of cells", cell, js[float64](with, cell))
	want(p, "hosts that are marked", `map.querySelectorAll('.host.over').length`, 0)
}
