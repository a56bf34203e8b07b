// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/emulation"
)

// filled is the share in percent of the space for the map that the outermost box takes: of the window right of the lists and below the
// header, without the elements below the map.
const filled = `(() => {
  const main = document.querySelector('main').getBoundingClientRect(), box = map.querySelector('.dom').getBoundingClientRect();
  const below = [...document.querySelector('main').children].slice([...document.querySelector('main').children].indexOf(map) + 1).reduce((n, e) => n + e.offsetHeight, 0);
  return Math.round(100 * box.width * box.height / (main.width * (innerHeight - main.top - below)));
})()`

// cellSize is the area of a host's cells.
const cellSize = `(() => {
  const r = map.querySelector('.cells').getBoundingClientRect();
  return r.width * r.height;
})()`

// TestFills: the map fills its window, and fills it again after a resize.
func TestFills(t *testing.T) {
	browser := start(t)
	for name, least := range map[string]int{"8": 50, "64": 80, "96": 80, "demo": 80, "2000": 80} {
		t.Run(name, func(t *testing.T) {
			_, m := build(t, name)
			p := open(t, browser, write(t, m), look{1400, 900, false})
			for i := range m.Trees {
				readTree(p, i)
				if got := js[int](p, filled); got < least {
					t.Errorf("tree %d: the map takes %d%% of the space, want %d%%", i, got, least)
				}
				want(p, "scrolling", `document.querySelector('main').scrollHeight - document.querySelector('main').clientHeight`, 0)
			}
			before := js[float64](p, cellSize)
			p.run(emulation.SetDeviceMetricsOverride(1900, 1200, 1, false))
			p.do(`dispatchEvent(new Event('resize'))`)                                               // the browser's own event comes later
			if after := js[float64](p, cellSize); after < before || after == before && name != "8" { // with 8 hosts, cells have their maximum size
				t.Errorf("in a larger window the cells of a host are %.0f square pixels, before %.0f", after, before)
			}
			for _, width := range []int64{400, 700, 1000} {
				p.run(emulation.SetDeviceMetricsOverride(width, 800, 1, false))
				p.do(`dispatchEvent(new Event('resize'))`)
				wholePage(p, len(m.Graphs))
			}
		})
	}
}

// offGrid lists boxes off the grid: racks of different widths, boxes that begin in no column or leave their row, and hosts, cells or dots
// that leave their rack.
const offGrid = `(() => {
  const out = [], at = (el) => el.getBoundingClientRect(), near = (a, b) => Math.abs(a - b) < 0.6;
  const racks = [...map.querySelectorAll('.rack')], width = at(racks[0]).width;
  for (const r of racks) {
    if (!near(at(r).width, width)) out.push(r.dataset.path + ' is ' + at(r).width + ' wide, another ' + width);
    for (const el of r.querySelectorAll('.host, .cells, .dots')) {
      if (at(el).right > at(r).right || at(el).bottom > at(r).bottom) out.push(r.dataset.path + ': ' + el.className + ' leaves it');
    }
  }
  for (const kids of map.querySelectorAll('.kids')) {
    const list = [...kids.children].filter((e) => e.domain), first = at(list[0]), step = first.width + parseFloat(map.style.getPropertyValue('--gap'));
    for (const el of list) {
      const columns = (at(el).left - first.left) / step;
      if (!near(columns, Math.round(columns))) out.push(el.dataset.path + ' is in column ' + columns);
      for (const other of list) if (near(at(el).top, at(other).top) && !near(at(el).bottom, at(other).bottom)) out.push(el.dataset.path + ' is of another height than ' + other.dataset.path);
    }
  }
  return out;
})()`

// TestGrid: boxes are on a grid, whichever pods are in them.
func TestGrid(t *testing.T) {
	browser := start(t)
	for _, name := range []string{"8", "64", "96", "demo", "2000"} {
		_, m := build(t, name)
		for window, l := range map[string]look{"1400x900": {1400, 900, false}, "400x800": {400, 800, false}} {
			t.Run(name+"/"+window, func(t *testing.T) {
				p := open(t, browser, write(t, m), l)
				for i := range m.Trees {
					readTree(p, i)
					want(p, fmt.Sprintf("off the grid of tree %d", i), offGrid, []string{})
				}
			})
		}
	}
}

// crossed lists elements that the links of the selected graph must not cross but do: names, amounts, and racks without a pod of the
// replica.
const crossed = `(() => {
  const out = new Set(), rects = (list) => list.map((el) => ({ el, r: el.getBoundingClientRect() }));
  const names = rects([...map.querySelectorAll('.label, h3 > button, .sum')].filter((el) => el.checkVisibility() && el.textContent));
  const racks = rects([...map.querySelectorAll('.rack')]);
  const origin = map.getBoundingClientRect();
  for (const g of document.querySelectorAll('#links [data-replica]')) {
    const own = new Set([...map.querySelectorAll('.on')].filter((el) => el.pod.service + '-' + el.pod.replica === g.dataset.replica).map((el) => el.closest('.rack')));
    for (const path of [g, ...g.querySelectorAll('path')].filter((e) => e.tagName === 'path')) {
      for (let at = 0; at <= path.getTotalLength(); at += 2) {
        const p = path.getPointAtLength(at), x = p.x + origin.left, y = p.y + origin.top;
        const inside = ({ r }) => x > r.left && x < r.right && y > r.top + 0.5 && y < r.bottom - 0.5;
        for (const { el } of names.filter(inside)) out.add(g.dataset.replica + ' crosses the text ' + el.textContent + ' of ' + el.closest('.dom').dataset.path);
        for (const { el } of racks.filter(inside)) if (!own.has(el)) out.add(g.dataset.replica + ' crosses ' + el.dataset.path);
      }
    }
  }
  return [...out];
})()`

// unlinked lists the replicas of the selected graph whose number of lines is not the number of their pods minus one.
const unlinked = `(() => {
  const pods = {};
  for (const el of map.querySelectorAll('.on')) (pods[el.pod.service + '-' + el.pod.replica] ??= []).push(el);
  return Object.keys(pods).filter((name) => document.querySelectorAll('#links [data-replica="' + name + '"] path').length !== pods[name].length - 1);
})()`

// TestLinks: the lines of a graph link all pods of each replica, and cross no name and no rack of other replicas.
func TestLinks(t *testing.T) {
	browser := start(t)
	for _, name := range []string{"96", "64", "demo", "2000"} {
		_, m := build(t, name)
		for window, l := range map[string]look{"1400x900": {1400, 900, false}, "400x800": {400, 800, false}} {
			t.Run(name+"/"+window, func(t *testing.T) {
				p := open(t, browser, write(t, m), l)
				linked := 0
				for _, g := range m.Graphs {
					p.do(fmt.Sprintf(`pickGraph(%q)`, g.Namespace+"/"+g.Name))
					want(p, g.Name+" crosses", crossed, []string{})
					want(p, g.Name+": replicas with a pod that no line reaches", unlinked, []string{})
					linked += js[int](p, `document.querySelectorAll('#links path').length`)
				}
				if linked < 10 {
					t.Errorf("only %d lines are drawn", linked)
				}
			})
		}
	}
}
