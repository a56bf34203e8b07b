// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package maps

import (
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/cli/tree"
	"github.com/trellis-k8s/trellis/test/testutil/worlds"
)

func TestShortNames(t *testing.T) {
	for name, tc := range map[string]struct{ names, words, bare []string }{
		"none":       {nil, nil, nil},
		"one":        {[]string{"zone-a-rack-1"}, []string{"zone-a-rack-1"}, []string{"zone-a-rack-1"}},
		"last word":  {[]string{"z-0-host-0", "z-0-host-10"}, []string{"host-0", "host-10"}, []string{"0", "10"}},
		"no word":    {[]string{"host-0", "host-1"}, []string{"host-0", "host-1"}, []string{"0", "1"}},
		"not common": {[]string{"alpha", "beta"}, []string{"alpha", "beta"}, []string{"alpha", "beta"}},
		"a network": {
			[]string{"ip-10-0-1-23.ec2.internal", "ip-10-0-2-4.ec2.internal"}, []string{"0-1-23", "0-2-4"}, []string{"1-23", "2-4"},
		},
		"equal": {[]string{"a-b", "a-b"}, []string{"a-b", "a-b"}, []string{"b", "b"}},
	} {
		if diff := cmp.Diff(tc.words, shortNames(tc.names, true)); diff != "" {
			t.Errorf("%s, with words (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(tc.bare, shortNames(tc.names, false)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestLabels(t *testing.T) {
	for name, tc := range map[string]struct{ names, want []string }{
		"short":               {[]string{"z-0-host-0", "z-0-host-10"}, []string{"host-0", "host-10"}},
		"letters for words":   {[]string{"zone-0-block-0-rack-1-host-7", "zone-1-block-0-rack-1-host-7"}, []string{"z0-b0-r1-h7", "z1-b0-r1-h7"}},
		"no letters for them": {[]string{"alpha-1-host-with-a-name", "atlas-1-host-with-a-name"}, []string{"…-host-with-a-name", "…-host-with-a-name"}},
		"ends are kept":       {[]string{"gpunodewithoutanywords1", "gpunodewithoutanywords2"}, []string{"…ewithoutanywords1", "…ewithoutanywords2"}},
	} {
		if diff := cmp.Diff(tc.want, labels(tc.names, true)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestPlanIsLaidOver: what a plan places is on the map as planned and uses capacity; what it refuses waits, and the cluster itself is not changed.
func TestPlanIsLaidOver(t *testing.T) {
	b := small(t)
	before := draw(t, b.World, "")
	m := draw(t, b.World, worlds.Graph("team-b", "new", "rack", 2, 2, 4))
	planned := map[string]bool{}
	hosts(m.Trees[0].Cluster, func(d *tree.Domain) {
		for _, p := range d.Pods {
			if p.State == StatePlanned {
				planned[p.Graph+" "+p.Component] = true
			}
		}
	})
	if diff := cmp.Diff(map[string]bool{"new Frontend": true, "new Worker": true}, planned); diff != "" {
		t.Errorf("planned pods (-want +got):\n%s", diff)
	}
	if want := []Planned{{Namespace: "team-b", Name: "new", Placed: 2, Replicas: 3, Score: m.Planned[0].Score}}; !cmp.Equal(want, m.Planned) {
		t.Errorf("got %+v, want %+v", m.Planned, want)
	}
	if got, want := m.Trees[0].Cluster.Free, before.Trees[0].Cluster.Free-8; got != want {
		t.Errorf("%d GPUs are free, want %d", got, want)
	}
	waits := ""
	for _, w := range m.Waiting {
		if w.Planned {
			waits += w.Graph + ": " + gangs(w.Who) + " "
		}
	}
	if waits != "new: Worker-1 " {
		t.Errorf("what is not placed: %q", waits)
	}
	if page(t, before) != page(t, draw(t, b.World, "")) {
		t.Error("the plan changed the cluster")
	}
}

// TestOneParagraph: a graph whose base gang does not fit is told of once, whatever else of it waits for the base gang, and the operator is quoted only
// where it says something else.
func TestOneParagraph(t *testing.T) {
	b := small(t)
	if err := b.Apply(strings.Replace(worlds.Graph("team-c", "big", "rack", 9, 3, 8), "datacenter}", "datacenter, packDomain: zone}", 1)); err != nil {
		t.Fatal(err)
	}
	told := func() (words, operator []string) {
		for _, w := range draw(t, b.World, "").Waiting {
			if w.Graph == "big" {
				words = append(words, gangs(w.Who)+": "+w.Message)
				if w.Operator != "" {
					operator = append(operator, w.Operator)
				}
			}
		}
		return words, operator
	}
	words, operator := told()
	if len(words) == 0 || strings.Count(strings.Join(words, "\n"), "in one zone") != 1 || len(operator) > 0 {
		t.Errorf("it is told more than once: %q, and the operator says %q", words, operator)
	}
	meta.FindStatusCondition(b.Graphs[len(b.Graphs)-1].Status.Conditions, nvidiav1beta1.ConditionPlaced).Message = "0 of 9 packed replicas are placed. Worker-0: other words"
	if _, operator := told(); len(operator) != 1 {
		t.Errorf("the operator is quoted %d times, want once: %q", len(operator), operator)
	}
}

// TestHidden: without nodes, or without the pods of others, the map draws what is known and counts nothing.
func TestHidden(t *testing.T) {
	for name, hide := range map[string]func(*Source){
		"You may not list nodes":                        func(s *Source) { s.NodesHidden = true },
		"You may not list the pods of other namespaces": func(s *Source) { s.OthersHidden = true },
	} {
		source := SourceOf(small(t).World)
		hide(source)
		m, err := Build(source, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Notes) == 0 || !strings.HasPrefix(m.Notes[0], name) || m.Resource != "" || len(m.Waiting) != 1 || len(m.Waiting[0].Freeing) > 0 {
			t.Errorf("%s: got notes %q, resource %q and what waits %+v", name, m.Notes, m.Resource, m.Waiting)
		}
		if page := page(t, m); !strings.Contains(page, name) || !strings.Contains(m.SVG(), "chat") {
			t.Errorf("%s: not drawn", name)
		}
	}
}

// TestEmpty draws clusters with next to nothing in them.
func TestEmpty(t *testing.T) {
	b := small(t)
	for name, change := range map[string]func(){
		"no graphs":     func() { b.Graphs, b.Groups, b.Pods = nil, nil, nil },
		"no topologies": func() { b.Topologies = nil },
		"no nodes":      func() { b.Nodes = nil },
	} {
		change()
		m := draw(t, b.World, "")
		if len(m.Trees) == 0 || !strings.Contains(m.SVG(), "</svg>") || page(t, m) == "" {
			t.Errorf("%s: nothing is drawn", name)
		}
	}
}

func TestTopology(t *testing.T) {
	source := SourceOf(small(t).World)
	source.Topology = "nowhere"
	if _, err := Build(source, io.Discard); err == nil || !strings.Contains(err.Error(), "there are: datacenter") {
		t.Errorf("got %v", err)
	}
}

func TestRefusedFlags(t *testing.T) {
	for args, want := range map[string]string{
		"-o png":                "want html, svg or json",
		"--offline":             "give them with -f FILE",
		"--offline --serve":     "--serve follows a cluster", // the first that is wrong
		"--serve -o svg":        "cannot be combined with -o svg",
		"--serve -f -":          "read only once",
		"--port 80":             "--port goes with --serve",
		"--serve --port -1":     "want a port",
		"--offline -f /no/file": "no such file",
	} {
		cmd := NewCommand(genericiooptions.NewTestIOStreamsDiscard())
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		list := strings.Fields(args)
		if args == "--offline --serve" {
			list = append(list, "-f", "x")
		}
		cmd.SetArgs(list)
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", args, err, want)
		}
	}
}
