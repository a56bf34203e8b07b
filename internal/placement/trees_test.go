// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// TestPlaces: components of one demand are placed each in its own tree.
func TestPlaces(t *testing.T) {
	halls, pods := levels("zone", "rack"), levels("pod")
	c := clusterOf(halls, "n0 a/r 4 label=pool=h", "n1 a/s 4 label=pool=h")
	for _, text := range []string{"m0 p 4 label=pool=gb", "m1 q 4 label=pool=gb"} {
		c.SetNode(nodeOf(pods, text))
	}
	over := func(name string, replicas int, p *Place) Component {
		s := componentOf(name, none, 0, replicas, 2, gpus(1))
		s.Place = p
		return s
	}
	g := Demand{
		Levels: halls, NodeSelector: map[string]string{"pool": "h"}, Required: none, Preferred: none,
		Components: []Component{
			over("prefill", 3, &Place{pods, map[string]string{"pool": "gb"}}),
			over("decode", 1, nil),
			over("other", 1, &Place{}),
		},
	}
	g.Components[1].Preferred = 1
	r := PlanGraph(c, g, Options{})
	want := []string{
		"decode-0 a/r: n0 n0", "other-0 : n0 n0", "prefill-0 p: m0 m0", "prefill-1 p: m0 m0", "prefill-2 q: m1 m1",
	}
	if diff := cmp.Diff(want, summary(r)); diff != "" {
		t.Error(diff)
	}
	if r.Score != 1 {
		t.Errorf("score %v", r.Score)
	}
	if place := g.PlaceOf("prefill"); !cmp.Equal(place.Levels, pods) {
		t.Errorf("prefill is placed in %v", place.Levels)
	}
	// A refused replica of one does not keep those of another from being placed.
	g.Components[0].Waiting[0].Pods = componentOf("prefill", none, 0, 1, 2, gpus(8)).Waiting[0].Pods
	for i := range g.Components {
		for _, replica := range g.Components[i].Waiting {
			for _, pod := range replica.Pods {
				c.Forget(pod.ID)
			}
		}
	}
	r = PlanGraph(c, g, Options{})
	if r.Replicas[0].Refusal != nil || r.Replicas[2].Refusal == nil || r.Replicas[3].Refusal != nil {
		t.Error(summary(r))
	}
	if UnmetOf(g, &r) != nil {
		t.Error("only nodes of one tree matter")
	}
}

// TestReservationsStayInTheirPlace: a pod that is bound to the host of another one leaves its own host to that one only if it may go there.
// Two places that share a host have a domain of one path.
func TestReservationsStayInTheirPlace(t *testing.T) {
	halls := levels("zone", "rack")
	c := clusterOf(halls, "both a/r 1 label=pool=h", "other a/r 1")
	g := Demand{
		Levels: halls, NodeSelector: map[string]string{"pool": "h"}, Required: none, Preferred: none,
		Components: []Component{componentOf("w", 1, none, 1, 1, gpus(1))},
	}
	if r := PlanGraph(c, g, Options{}); !r.Placed() || r.Replicas[0].Pods[0].Node != "both" {
		t.Fatal(summary(r))
	}
	pod := g.Components[0].Waiting[0].Pods[0]
	c.AssumePinned("ns/x", "other", pod.Shape, Place{Levels: halls}.Labels(topology.Path{"a", "r"}))
	x := podOf(map[string]string{gpu: "1"})
	x.Namespace, x.Name, x.Spec.NodeName = "ns", "x", "both"
	c.SetPod(x)
	if node, _ := c.Reserved(pod.ID); node != "both" {
		t.Errorf("reserved on %q, which is not in the pool", node)
	}
}
