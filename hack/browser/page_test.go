// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/trellis-k8s/trellis/internal/cli/explain"
	"github.com/trellis-k8s/trellis/internal/cli/maps"
	"github.com/trellis-k8s/trellis/internal/cli/plan"
	"github.com/trellis-k8s/trellis/test/testutil/worlds"
)

const hostile = `x</script><script>window.hacked=1</script><img src=x onerror="window.hacked=1">`

// TestHostile: names and messages are shown as text, even if they contain markup.
func TestHostile(t *testing.T) {
	b, err := worlds.Small()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []*string{
		&b.Nodes[5].Name, &b.Pods[0].Name, &b.Topologies[0].Name, &b.Graphs[1].Status.Conditions[1].Message, &b.Graphs[1].Status.Conditions[1].Reason,
	} {
		*name = hostile
	}
	m, err := maps.Build(maps.SourceOf(b.World), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	m.Notes = append(m.Notes, hostile)
	m.Waiting[0].Message, m.Waiting[0].Operator, m.Waiting[0].Freeing = hostile, hostile, []explain.Host{{Name: hostile, Remedy: hostile}}
	m.Graphs[0].Constraints = []string{hostile}
	p := open(t, start(t), write(t, m), wide)
	p.do(`pickWaiting(0); for (const h of drawn.hosts) { pickHost(h.domain); showTip(h, 9, 9); } pickWaiting(0); search('x');`)
	want(p, "scripts of others that ran", `Number(window.hacked ?? 0)`, 0)
	want(p, "pictures", `document.querySelectorAll('img').length`, 0)
	want(p, "the note, as text", `document.querySelector('#notes li').textContent`, hostile)
}

// TestLarge: the page draws all 2,000 hosts, without their names until the user zooms in, and within a second of work.
func TestLarge(t *testing.T) {
	_, m := build(t, "2000")
	browser := start(t)
	url := write(t, m)
	open(t, browser, url, wide) // by now the browser itself has started
	p := open(t, browser, "about:blank", wide)
	p.run(performance.Enable().WithTimeDomain(performance.EnableTimeDomainThreadTicks))
	p.allow = url
	p.run(chromedp.Navigate(url))
	metrics, err := performanceOf(p)
	if err != nil {
		t.Fatal(err)
	}
	// The machine may be busy, so the test measures the work of the page's thread, not elapsed time.
	if work := time.Duration(metrics["TaskDuration"] * float64(time.Second)); work > time.Second {
		t.Errorf("opening took %s of work", work)
	} else {
		t.Logf("opening took %s of work, of that %.0f ms script, %.0f ms style and layout", work,
			1000*metrics["ScriptDuration"], 1000*(metrics["LayoutDuration"]+metrics["RecalcStyleDuration"]))
	}
	want(p, "hosts", `document.querySelectorAll('#map .host').length`, 2000)
	want(p, "labels that are seen", `[...document.querySelectorAll('#map .label')].filter((e) => e.checkVisibility()).length`, 0)
	wholePage(p, len(m.Graphs))
	p.run(chromedp.Click(`.dom[data-path="zone-0/block-1"] > h3 > button`, chromedp.ByQuery))
	want(p, "labels that are seen in a block", `[...document.querySelectorAll('#map .label')].filter((e) => e.checkVisibility()).length`, 200)
	want(p, "way back", `byId('crumbs').innerText.replace(/\s+/g, ' ')`, "all ›zone-0 › block-1")
	p.shot("large-zoomed")
}

// TestLive: the page of a server follows it and keeps the selection, and reports when the server is gone.
func TestLive(t *testing.T) {
	b, m := build(t, "8")
	server := maps.NewServer()
	if err := server.Put(m); err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(server.Handler())
	t.Cleanup(web.Close)
	p := open(t, start(t), web.URL+"/", wide)
	p.do(`pickGraph('team-a/chat')`)
	b.Cordon(0)
	after, err := maps.Build(maps.SourceOf(b.World), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Put(after); err != nil {
		t.Fatal(err)
	}
	p.run(chromedp.WaitVisible(`.host[data-name="zone-0-block-0-rack-0-host-0"].out`, chromedp.ByQuery))
	want(p, "chosen graph", `state.graph + ' ' + document.querySelectorAll('.on').length`, "team-a/chat 5")
	p.quiet = true // the browser's console reports the lost connection
	web.CloseClientConnections()
	p.run(chromedp.WaitVisible(`#stamp.lost`, chromedp.ByQuery))
}

// TestPlan: planned pods look different from running ones.
func TestPlan(t *testing.T) {
	b, err := worlds.Demo(root)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "plan.yaml")
	if err := os.WriteFile(file, []byte(worlds.Graph("default", "new-llm", "rack", 2, 3, 8)), 0o600); err != nil {
		t.Fatal(err)
	}
	in, err := plan.Load(b.World, "default", []string{file}, genericiooptions.NewTestIOStreamsDiscard())
	if err != nil {
		t.Fatal(err)
	}
	m, err := maps.Build(&maps.Source{Input: in, Files: true}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	for _, dark := range []bool{false, true} {
		p := open(t, start(t), write(t, m), look{1280, 800, dark})
		want(p, "planned pods", `[...document.querySelectorAll('#map .planned')].map((e) => e.dataset.graph + ' ' + (e.dataset.amount ?? 0)).sort()`,
			[]string{"default/new-llm 0", "default/new-llm 8", "default/new-llm 8", "default/new-llm 8", "default/new-llm 8", "default/new-llm 8", "default/new-llm 8"})
		want(p, "in the list", `byId('planned').innerText.includes('3 of 3 replicas placed')`, true)
		p.shot(map[bool]string{false: "plan-light", true: "plan-dark"}[dark])
	}
}
