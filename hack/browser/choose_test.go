// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/google/go-cmp/cmp"

	"github.com/trellis-k8s/trellis/internal/cli/tree"
)

// want compares the value of an expression in the page with value.
func want[T any](p *page, what, expression string, value T) {
	p.Helper()
	if diff := cmp.Diff(value, js[T](p, expression)); diff != "" {
		p.Errorf("%s (-want +page):\n%s", what, diff)
	}
}

// TestGraph: a click on a graph highlights only its pods, and links each of its replicas; a second click ends that.
func TestGraph(t *testing.T) {
	_, m := build(t, "demo")
	p := open(t, start(t), write(t, m), wide)
	card := `#graphs [data-graph="default/split"]`
	p.run(chromedp.Click(card, chromedp.ByQuery))
	want(p, "graphs that are lit", `[...new Set([...document.querySelectorAll('.on')].map((e) => e.dataset.graph))]`, []string{"default/split"})
	want(p, "pods that are lit", `document.querySelectorAll('.on').length`, 10)
	want(p, "linked replicas", `[...document.querySelectorAll('#links [data-replica]')].map((e) => e.dataset.replica).sort()`,
		[]string{"Decode-0", "Frontend-0", "Frontend-1", "Prefill-0", "Prefill-1"})
	want(p, "address", `decodeURI(location.hash)`, "#default/split")
	p.shot("graph")
	p.run(chromedp.Click(card, chromedp.ByQuery))
	want(p, "pods that are lit after a second click", `document.querySelectorAll('.on, #links').length`, 0)
}

// TestTransfer: the card of a graph that is selected has the prefill and decode replicas of each domain.
func TestTransfer(t *testing.T) {
	_, m := build(t, "demo")
	for i := range m.Graphs {
		if g := &m.Graphs[i]; g.Name == "split" {
			g.Transfer = &tree.Transfer{Level: "rack", Domains: []tree.TransferIn{{Domain: "zone-0/rack-1", Prefill: 2, Decode: 1}, {Prefill: 0, Decode: 3}}}
		}
	}
	p := open(t, start(t), write(t, m), wide)
	card := `#graphs [data-graph="default/split"]`
	p.run(chromedp.Click(card, chromedp.ByQuery))
	text := js[string](p, `document.querySelector('#graphs .on, #graphs [data-graph="default/split"]').closest('li').innerText`)
	for _, line := range []string{"zone-0/rack-1: 2 prefill, 1 decode", "in no rack: 0 prefill, 3 decode"} {
		if !strings.Contains(text, line) {
			t.Errorf("%q is not in %q", line, text)
		}
	}
}

// TestWaiting: a click on a waiting gang highlights the domain, hosts and pods that block it, the same as in explain.
func TestWaiting(t *testing.T) {
	_, m := build(t, "8")
	p := open(t, start(t), write(t, m), wide)
	w := m.Waiting[0]
	p.run(chromedp.Click(`#waiting .card`, chromedp.ByQuery))
	want(p, "graph", `state.graph`, "team-a/code")
	want(p, "domain", `[...document.querySelectorAll('.target')].map((e) => e.dataset.path)`, []string{w.FreeingDomain})
	var hosts, pods []string
	for _, h := range w.Freeing {
		hosts = append(hosts, h.Name)
		for _, pod := range h.Pods {
			pods = append(pods, pod.Pod)
		}
	}
	slices.Sort(hosts)
	slices.Sort(pods)
	if len(hosts) < 2 || len(pods) == 0 {
		t.Fatalf("this world shows nothing: %+v", w)
	}
	want(p, "hosts", `[...document.querySelectorAll('.host.blocks')].map((e) => e.dataset.name).sort()`, hosts)
	want(p, "pods", `[...document.querySelectorAll('.run.blocks')].map((e) => e.dataset.pod).sort()`, pods)
	text := js[string](p, `document.querySelector('#waiting .card').innerText`)
	for _, part := range []string{"code: Worker-0", w.Message, "kubectl uncordon", "1h"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in %q", part, text)
		}
	}
	p.shot("waiting")
}

// TestHeat: the page shows the same usable capacity as the JSON, for every pod size.
func TestHeat(t *testing.T) {
	_, m := build(t, "64")
	p := open(t, start(t), write(t, m), wide)
	p.run(chromedp.Click("#heat", chromedp.ByQuery))
	for _, pod := range []int64{1, 2, 4, 8} {
		p.do(fmt.Sprintf(`const s = byId('size'); s.value = %d; s.onchange({ target: s });`, pod))
		expected := map[string]string{}
		var walk func(*tree.Domain, string)
		walk = func(d *tree.Domain, path string) {
			if d.Node {
				return
			}
			free := freeIn(d, pod)
			expected[path] = fmt.Sprintf("%d/%d heat%d", free.fits, free.free, free.heat())
			for _, child := range d.Children {
				walk(child, strings.TrimPrefix(path+"/"+child.Name, "/"))
			}
		}
		walk(m.Trees[0].Cluster, "")
		want(p, fmt.Sprintf("capacity for pods of %d", pod), `Object.fromEntries([...document.querySelectorAll('#map .dom')].map((e) =>
			[e.dataset.path, e.dataset.fits + '/' + e.dataset.free + ' ' + [...e.classList].filter((c) => c.startsWith('heat')).join()]))`, expected)
	}
	p.shot("heat")
}

// TestSearchAndKeys uses the page only by keyboard.
func TestSearchAndKeys(t *testing.T) {
	_, m := build(t, "demo")
	p := open(t, start(t), write(t, m), wide)
	press := func(keys string) { p.Helper(); p.run(chromedp.KeyEvent(keys)) }
	press("/")
	want(p, "focus after /", `document.activeElement.id`, "search")
	p.do(`document.activeElement.value = ''`) // the protocol types the character although the page handled its keydown
	press("host-2 zone-0")
	want(p, "hosts found", `byId('found').textContent`, "6 hosts")
	press(kb.Enter)
	want(p, "focus", `document.activeElement.dataset.name`, "zone-0-block-0-rack-0-host-2")
	press(kb.ArrowUp)
	want(p, "above", `document.activeElement.dataset.name`, "zone-0-block-0-rack-0-host-1")
	press(kb.ArrowUp)
	press(kb.ArrowRight)
	press(kb.ArrowRight)
	press(kb.ArrowDown)
	want(p, "one up, two to the right, one down", `document.activeElement.dataset.name`, "zone-0-block-0-rack-2-host-1")
	if tip := js[string](p, `tip.hidden ? '' : tip.innerText`); !strings.Contains(tip, "chat-small: Worker-") {
		t.Errorf("the focus says %q", tip)
	}
	press(kb.Enter)
	want(p, "graph of the host", `state.graph`, "default/chat-small")
	press(kb.Escape)
	want(p, "after Escape", `state.graph + state.query + document.querySelectorAll('.hit, .on, .target').length`, "0")
	press("g")
	press("g")
	want(p, "second graph", `state.graph`, "default/giant")
	press("w")
	want(p, "what waits", `document.querySelectorAll('.target').length + ' ' + state.graph`, "1 default/giant")
	press("h")
	want(p, "heat", `document.querySelectorAll('#map.heated').length`, 1)
	press("?")
	want(p, "keys", `byId('keys').hidden`, false)
	before := js[string](p, `getComputedStyle(document.body.parentElement).backgroundColor`)
	press("t")
	if after := js[string](p, `getComputedStyle(document.body.parentElement).backgroundColor`); after == before {
		t.Errorf("t does not change the theme: %s", after)
	}
	p.run(chromedp.Focus(`.host[tabindex="0"]`, chromedp.ByQuery))
	press("z")
	want(p, "racks in the zoom", `document.querySelectorAll('#map .rack').length`, 1)
	press("z")
	want(p, "racks", `document.querySelectorAll('#map .rack').length`, 12)
}

// TestHover: the mouse over a cell shows the pod's name.
func TestHover(t *testing.T) {
	_, m := build(t, "demo")
	p := open(t, start(t), write(t, m), wide)
	at := js[[]float64](p, `(() => { const r = document.querySelector('[data-pod="default/split-decode-0-3"]').getBoundingClientRect(); return [r.left + 5, r.top + 5]; })()`)
	p.run(chromedp.MouseEvent("mouseMoved", at[0], at[1]))
	text := js[string](p, `tip.innerText`)
	for _, part := range []string{"split: Decode-0 worker 3, 8 GPUs", "pod default/split-decode-0-3", "on zone-0-block-1-rack-"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in %q", part, text)
		}
	}
}
