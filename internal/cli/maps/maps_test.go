// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package maps

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/trellis-k8s/trellis/internal/cli/plan"
	"github.com/trellis-k8s/trellis/internal/cli/tree"
	"github.com/trellis-k8s/trellis/internal/whatif"
	"github.com/trellis-k8s/trellis/test/testutil/drawn"
	"github.com/trellis-k8s/trellis/test/testutil/golden"
	"github.com/trellis-k8s/trellis/test/testutil/worlds"
)

// must is a world that a package could make.
func must(t *testing.T, b *worlds.Builder, err error) *worlds.Builder {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func small(t *testing.T) *worlds.Builder {
	t.Helper()
	b, err := worlds.Small()
	return must(t, b, err)
}

// draw is the map of a world, with a plan laid over it when there is a manifest.
func draw(t *testing.T, w whatif.World, manifest string) *Map {
	t.Helper()
	source := SourceOf(w)
	if manifest != "" {
		path := filepath.Join(t.TempDir(), "plan.yaml")
		if err := os.WriteFile(path, []byte(manifest), 0o600); err != nil {
			t.Fatal(err)
		}
		in, err := plan.Load(w, "default", []string{path}, genericiooptions.NewTestIOStreamsDiscard())
		if err != nil {
			t.Fatal(err)
		}
		source.Input, source.Files = in, true
	}
	source.Taken = worlds.Began.Add(time.Hour)
	m, err := Build(source, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func page(t *testing.T, m *Map) string {
	t.Helper()
	var b bytes.Buffer
	if err := m.HTML(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

var blob = regexp.MustCompile(`(?s)<script id="data" type="application/json">(.*?)</script>`)

// TestData shows all that a page knows: of a graph that runs, one that waits and a plan.
func TestData(t *testing.T) {
	m := draw(t, small(t).World, worlds.Graph("team-b", "new", "rack", 2, 1, 2))
	found := blob.FindStringSubmatch(page(t, m))
	if found == nil {
		t.Fatal("the page has no data")
	}
	var data bytes.Buffer
	if err := json.Indent(&data, []byte(found[1]), "", "  "); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/small.json", data.String()+"\n")
}

func TestSVG(t *testing.T) {
	golden.Check(t, "testdata/small.svg", draw(t, small(t).World, worlds.Graph("team-b", "new", "rack", 2, 1, 2)).SVG())
}

// The same objects give the same drawing and the same page, in whatever order they come.
func TestOrderDoesNotMatter(t *testing.T) {
	b, err := worlds.Medium()
	must(t, b, err)
	want := draw(t, b.World, "")
	wantPage, wantSVG := page(t, want), want.SVG()
	random := rand.New(rand.NewPCG(1, 2))
	for range 5 {
		shuffle(random, b.Nodes)
		shuffle(random, b.Pods)
		shuffle(random, b.Graphs)
		shuffle(random, b.Groups)
		got := draw(t, b.World, "")
		if page(t, got) != wantPage || got.SVG() != wantSVG {
			t.Fatal("another order gives another map")
		}
	}
}

func shuffle[T any](r *rand.Rand, list []T) {
	r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
}

// TestHostileNames: nothing that a cluster says ends the element it stands in, in any spelling.
func TestHostileNames(t *testing.T) {
	const hostile = "x</script><script>alert(1)</script><!--<img src=x onerror=alert(1)>&\"'\u2028\x01"
	b := small(t)
	b.Graphs[1].Status.Conditions[1].Message = hostile
	b.Nodes[5].Name = hostile
	b.Pods[0].Name = hostile
	b.Topologies[0].Name = hostile
	m := draw(t, b.World, "")
	m.Notes = append(m.Notes, hostile)
	html := page(t, m)
	if n := strings.Count(html, "<script"); n != 2 {
		t.Errorf("the page has %d script elements, want 2", n)
	}
	data := blob.FindStringSubmatch(html)[1]
	if strings.ContainsAny(data, "<>&\u2028") {
		t.Error("the data has characters that mean something to a browser")
	}
	var back Map
	if err := json.Unmarshal([]byte(data), &back); err != nil {
		t.Errorf("the data is not JSON any more: %v", err)
	}
	decoder := xml.NewDecoder(strings.NewReader(m.SVG()))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("the SVG is not XML any more: %v", err)
		}
		if start, ok := token.(xml.StartElement); ok && (start.Name.Local == "script" || start.Name.Local == "img") {
			t.Errorf("the SVG has an element %s", start.Name.Local)
		}
	}
}

// TestPolicy: the page names the one script and the one style that may run, and loads nothing.
func TestPolicy(t *testing.T) {
	html := page(t, draw(t, small(t).World, ""))
	for _, kind := range []string{"script", "style"} {
		parts := strings.Split(html, "<"+kind+">")
		if len(parts) != 2 {
			t.Fatalf("the page has %d elements <%s>, want 1", len(parts)-1, kind)
		}
		text, _, _ := strings.Cut(parts[1], "</"+kind+">")
		if want := strings.ReplaceAll(kind+"-src "+hash(text), "'", "&#39;"); !strings.Contains(strings.ReplaceAll(html, "&#43;", "+"), want) {
			t.Errorf("the policy lacks %s", want)
		}
	}
	for _, outside := range []string{"http://", "https://", "//cdn", "@import", "url(h"} {
		if i := strings.Index(strings.ReplaceAll(html, "http://www.w3.org/2000/svg", ""), outside); i >= 0 {
			t.Errorf("the page mentions %s", outside)
		}
	}
	if !strings.Contains(html, "default-src &#39;none&#39;") || !strings.Contains(html, "connect-src &#39;none&#39;") {
		t.Error("the policy lets the page load something")
	}
}

// TestEqualsTree: every domain and pod that kubectl trellis tree shows is on the map, with the same numbers.
func TestEqualsTree(t *testing.T) {
	b, err := worlds.Medium()
	must(t, b, err)
	m := draw(t, b.World, "")
	report := tree.Build(tree.Of(&b.World))
	if diff := cmp.Diff(report.Graphs, m.Graphs); diff != "" {
		t.Errorf("graphs (-tree +map):\n%s", diff)
	}
	diff, domains := drawn.Diff(report.Trees[0].Cluster, m.Trees[0].Cluster)
	if diff != "" {
		t.Error(diff)
	}
	if domains < 30 {
		t.Errorf("compared only %d domains", domains)
	}
}
