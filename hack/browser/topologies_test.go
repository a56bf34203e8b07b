// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/trellis-k8s/trellis/internal/cli/explain"
	"github.com/trellis-k8s/trellis/internal/cli/maps"
	"github.com/trellis-k8s/trellis/internal/cli/text"
)

// shown is the drawn topology, from its outermost box, and the topology in the selector.
const shown = `map.querySelector('.dom > h3 > button').textContent + ' ' + byId('trees').selectedOptions[0].textContent.split(':')[0]`

// TestTopologies: selecting a graph of another topology in any way draws that topology, and updates the selector.
func TestTopologies(t *testing.T) {
	browser := start(t)
	_, m := build(t, "96")
	if len(m.Trees) != 2 {
		t.Fatalf("this world has %d topologies", len(m.Trees))
	}
	url := write(t, m)
	for name, choose := range map[string]func(p *page){
		"waiting": func(p *page) { p.run(chromedp.Click(`#waiting [data-graph="team-b/huge"]`, chromedp.ByQuery)) },
		"graph":   func(p *page) { p.run(chromedp.Click(`#graphs [data-graph="team-b/huge"]`, chromedp.ByQuery)) },
		"key":     func(p *page) { p.run(chromedp.KeyEvent("w"), chromedp.KeyEvent("w"), chromedp.KeyEvent("w")) },
		"link": func(p *page) {
			p.run(chromedp.Evaluate(`location.hash = '#team-b/huge'`, nil), chromedp.WaitVisible(`#why`, chromedp.ByQuery))
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := open(t, browser, url, wide)
			want(p, "at first", shown, "datacenter datacenter")
			choose(p)
			huge(p)
			p.run(chromedp.KeyEvent(kb.Escape))
			want(p, "after Escape", `state.graph + document.querySelectorAll('.target, #why').length + location.hash`, "0")
			want(p, "topology after Escape", shown, "power power")
			p.run(chromedp.Click(`#graphs [data-graph="team-a/chat"]`, chromedp.ByQuery))
			want(p, "back", shown, "datacenter datacenter")
			p.do(`pickWaiting(0); const list = byId('trees'); list.value = 1; list.onchange({ target: list });`)
			want(p, "by the selector", shown, "power power")
			want(p, "frames of the other topology", `document.querySelectorAll('.target, .blocks, #why').length`, 0)
		})
	}
	huge(open(t, browser, url+"#team-b/huge", wide))
}

// huge checks that the page shows team-b/huge, which waits for a PDU.
func huge(p *page) {
	p.Helper()
	want(p, "topology", shown, "power power")
	want(p, "address", `decodeURI(location.hash)`, "#team-b/huge")
	want(p, "cards", `[...document.querySelectorAll('aside .card[aria-pressed="true"]')].map((e) => e.dataset.graph)`, []string{"team-b/huge", "team-b/huge"})
	want(p, "frame", `[...document.querySelectorAll('.target')].map((e) => e.dataset.path)`, []string{"feed-1/pdu-7"})
}

// TestBlockers: selecting a waiting gang frames a domain within the window, with the hosts in it that take no pod and the number of pods
// that it holds.
func TestBlockers(t *testing.T) {
	browser := start(t)
	for _, name := range []string{"8", "64", "96", "demo", "2000"} {
		_, m := build(t, name)
		if name == "96" { // no host blocks this domain: it is too small
			last := &m.Waiting[len(m.Waiting)-1]
			last.FreeingDomain, last.Freeing, last.Closest.Excluded = "", nil, nil
		}
		p := open(t, browser, write(t, m), look{1400, 900, false})
		for i, w := range m.Waiting {
			p.do(fmt.Sprintf(`pickWaiting(%d)`, i))
			want(p, w.Graph+": frames", `document.querySelectorAll('.target').length`, 1)
			want(p, w.Graph+": hosts that block", `document.querySelectorAll('.target .host.blocks').length`, len(w.Freeing))
			why := fmt.Sprintf("holds %d of %d pods", w.Closest.Holds, w.Closest.Of)
			switch excluded := w.Closest.Excluded; {
			case len(w.Freeing) > 0:
			case len(excluded) > 0:
				why += " · " + text.Count(excluded[0].Hosts, "host") + " " + excluded[0].Reason
			default:
				why += fmt.Sprintf(" · has %d hosts", w.Closest.Hosts)
			}
			if got := js[string](p, `byId('why').innerText`); !strings.Contains(got, why) {
				t.Errorf("%s: the frame says %q, want %q", w.Graph, got, why)
			}
			want(p, w.Graph+": in sight", `['.target', '#why'].every((s) => {
				const r = document.querySelector(s).getBoundingClientRect();
				return r.top >= 0 && r.bottom <= innerHeight && r.left >= 0 && r.right <= innerWidth;
			})`, true)
		}
	}
}

// TestBaseGang: a gang that waits for the base gang shows the base gang's blockers.
func TestBaseGang(t *testing.T) {
	_, m := build(t, "8")
	first := m.Waiting[0]
	follows := maps.GraphCause{Namespace: first.Namespace, Graph: first.Graph, Cause: explain.Cause{Reason: "BaseGangWaits", Message: "waits for the base gang"}}
	m.Waiting = append(m.Waiting, follows)
	p := open(t, start(t), write(t, m), wide)
	p.do(`pickWaiting(1)`)
	want(p, "frame", `[...document.querySelectorAll('.target')].map((e) => e.dataset.path)`, []string{first.FreeingDomain})
	want(p, "hosts that block", `document.querySelectorAll('.target .host.blocks').length`, len(first.Freeing))
}

// TestManyDots: of many pods on a host, the pods of the selected graph are visible.
func TestManyDots(t *testing.T) {
	_, m := build(t, "96")
	p := open(t, start(t), write(t, m), look{1400, 900, false})
	const seen = `[...document.querySelector('.more').parentElement.children].filter((e) => e.getBoundingClientRect().right <= e.parentElement.getBoundingClientRect().right + 1).length`
	want(p, "dots and a plus", seen, 4)
	for _, g := range m.Graphs {
		p.do(fmt.Sprintf(`showGraph(%q)`, g.Namespace+"/"+g.Name))
		want(p, g.Name, `(() => {
			const dot = document.querySelector('.dot.on');
			return dot.getBoundingClientRect().right <= dot.parentElement.getBoundingClientRect().right;
		})()`, true)
	}
}

// TestAsks: waiting graphs show their requests.
func TestAsks(t *testing.T) {
	_, m := build(t, "96")
	p := open(t, start(t), write(t, m), look{1400, 900, false})
	for graph, text := range map[string]string{
		"team-a/chat": "13 pods, 96 GPUs", "team-a/giant": "1 pod · asks for 16 pods, 128 GPUs", "team-b/huge": "1 pod · asks for 6 pods, 48 GPUs",
		"team-b/wide": "1 pod · asks for 44 pods, 352 GPUs",
	} {
		want(p, graph, fmt.Sprintf(`document.querySelector('#graphs [data-graph=%q] > small').textContent`, graph), text)
	}
	want(p, "asks of a graph whose pods do not exist yet", `(() => {
		const g = structuredClone(data.graphs.find((g) => graphKey(g) === 'team-b/next'));
		delete g.waiting.pods;
		return graphFacts(g);
	})()`, "1 pod · asks for 12 pods, 96 GPUs")
}

// TestLists: both lists show their lengths, and both begin within the window, even if many graphs wait.
func TestLists(t *testing.T) {
	_, m := build(t, "96")
	p := open(t, start(t), write(t, m), look{1400, 900, false})
	want(p, "numbers", `['graphs', 'waiting'].map((id) => document.querySelector('#' + id + ' .count').textContent)`, []string{"11", "6"})
	const inSight = `['graphs', 'waiting'].map((id) => [...document.querySelectorAll('#' + id + ' .card')].filter((e) => e.getBoundingClientRect().bottom <=
		Math.min(innerHeight, e.closest('details').getBoundingClientRect().bottom)).length)`
	if n := js[[]int](p, inSight); n[0] < 8 || n[1] < 3 {
		t.Errorf("%d graphs and %d that wait are in sight", n[0], n[1])
	}
	p.run(chromedp.Click(`#waiting summary`, chromedp.ByQuery))
	want(p, "cards after the list was closed", `[...document.querySelectorAll('#waiting .card')].filter((e) => e.checkVisibility()).length`, 0)
	p.run(chromedp.KeyEvent("w"))
	want(p, "the list opens for what is chosen", `byId('waiting').open`, true)
}

// TestWords: amounts have one format, and the legend describes it.
func TestWords(t *testing.T) {
	browser := start(t)
	for name, l := range map[string]look{"96": {1400, 900, false}, "2000": {400, 800, false}} {
		_, m := build(t, name)
		p := open(t, browser, write(t, m), l)
		want(p, "amounts in other words", `[...document.querySelectorAll('#map .sum')].filter((e) => e.checkVisibility()).map((e) => e.textContent).filter((s) => !/^\d+( of \d+)? free$/.test(s))`, []string{})
		want(p, "legend", `[...document.querySelectorAll('#legend li')].map((e) => e.textContent)`, []string{
			"GPU of a graph’s pod", "pod of a graph that takes none", "other pods", "free", "host is cordoned or tainted", "host is not ready, or gone", "pod is not ready",
			"3 of 8 free3 of the 8 GPUs of a domain are free, on hosts that take pods",
		})
		want(p, "legend in sight or below the map", `byId('legend').checkVisibility({ visibilityProperty: true })`, true)
		p.run(chromedp.Click("#heat", chromedp.ByQuery))
		want(p, "amounts of fragmentation in other words", `[...document.querySelectorAll('#map .sum')].filter((e) => e.checkVisibility()).map((e) => e.textContent).filter((s) => !/^(\d+( of \d+)? usable|none free)$/.test(s))`, []string{})
		want(p, "what they mean", `byId('caption').checkVisibility({ visibilityProperty: true }) && byId('example').textContent.includes(map.querySelector('.dom').dataset.fits + ' of ' + map.querySelector('.dom').dataset.free + ' usable')`, true)
		p.run(chromedp.Click("#heat", chromedp.ByQuery))
		want(p, "caption after all", `byId('caption').checkVisibility({ visibilityProperty: true })`, false)
	}
}

// TestTheme: the theme button is an icon with a name that describes its effect.
func TestTheme(t *testing.T) {
	_, m := build(t, "8")
	p := open(t, start(t), write(t, m), wide)
	const button = `[byId('theme').getAttribute('aria-label'), byId('theme').textContent.trim(), [...byId('theme').querySelectorAll('path')].filter((e) => e.checkVisibility()).map((e) => e.getAttribute('class')).join()]`
	want(p, "at first", button, []string{"Switch to dark theme", "", "moon"})
	p.run(chromedp.Click("#theme", chromedp.ByQuery))
	want(p, "after a click", button, []string{"Switch to light theme", "", "sun"})
}
