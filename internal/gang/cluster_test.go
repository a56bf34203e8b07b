// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// releasedAsking is a graph of two pods that an earlier leader released into a rack.
func releasedAsking(rack string) Observation {
	o := asking(2)
	for _, pod := range o.Pods {
		pod.Spec.SchedulingGates, pod.Spec.NodeSelector = nil, map[string]string{"z": "z", "r": rack}
		pod.Annotations = map[string]string{render.AnnotationGang: "g-1"}
	}
	return o
}

func TestReservationsAreRebuiltFromPins(t *testing.T) {
	pin := func(pod *corev1.Pod, node string) {
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
				{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}},
			}}},
		}}}
	}
	for name, tc := range map[string]struct {
		edit func(o *Observation)
		// want are the nodes of the pods, "" for none, "b" for any host of the rack.
		want [2]string
	}{
		"pinned by labels":     {func(*Observation) {}, [2]string{"b", "b"}},
		"one pinned to a host": {func(o *Observation) { pin(o.Pods[1], "b0") }, [2]string{"b", "b0"}},
		"still gated": {func(o *Observation) {
			o.Pods[0].Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: render.PlacementGate}}
		}, [2]string{"", "b"}},
		"being deleted": {func(o *Observation) { o.Pods[1].DeletionTimestamp = &metav1.Time{} }, [2]string{"b", ""}},
		"idle":          {func(o *Observation) { o.Idle = map[string]string{topology.PodID(o.Pods[0]): "nothing binds it"} }, [2]string{"", "b"}},
		"more than there is capacity for": {func(o *Observation) {
			for _, pod := range o.Pods {
				pod.Spec.NodeSelector["r"] = "c"
			}
		}, [2]string{"c", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			c := NewCluster()
			for _, name := range []string{"a0", "a1", "b0", "b1", "c0"} {
				c.SetNode(host(name, name[:1], 1))
			}
			o := releasedAsking("b")
			tc.edit(&o)
			Reserve(c, o)
			var got [2]string
			for i, pod := range o.Pods {
				if node, has := c.Reserved(topology.PodID(pod)); has {
					got[i] = node
				}
			}
			for i := range got {
				if len(got[i]) < len(tc.want[i]) || got[i][:len(tc.want[i])] != tc.want[i] || tc.want[i] == "" && got[i] != "" {
					t.Fatalf("reserved are %q, want %q", got, tc.want)
				}
			}
			Reserve(c, o) // a second time, as each look does
			for i, pod := range o.Pods {
				if node, _ := c.Reserved(topology.PodID(pod)); node != got[i] {
					t.Errorf("pod %d moved from %q to %q", i, got[i], node)
				}
			}
		})
	}
}

// Pods that an earlier version released by their labels have capacity in their rack. A pod that is planned there later is pinned to what is
// left.
func TestGangsAfterAnUpgradeShareARack(t *testing.T) {
	c := NewCluster()
	for _, name := range []string{"b0", "b1", "b2"} {
		c.SetNode(host(name, "b", 1))
	}
	Reserve(c, releasedAsking("b"))
	later := asking(1)
	later.Pods[0].UID = "later"
	releases := releasesOf(c, later)
	if len(releases) != 1 {
		t.Fatalf("%d pods of the later gang are released, want 1", len(releases))
	}
	for _, release := range releases {
		if release.Pin.Labels["r"] != "b" || release.Pin.Node != "b2" {
			t.Errorf("it is pinned to host %q in rack %q, want b2 in b", release.Pin.Node, release.Pin.Labels["r"])
		}
	}
}

func TestGangNames(t *testing.T) {
	plan := func(o Observation) []Release {
		c := NewCluster()
		for _, name := range []string{"a0", "a1"} {
			c.SetNode(host(name, "a", 1))
		}
		return releasesOf(c, o)
	}
	o := asking(2)
	first, again := plan(o), plan(o)
	if len(first) != 2 || first[0].Pin.Gang != first[1].Pin.Gang || first[0].Pin.Gang != again[0].Pin.Gang {
		t.Errorf("the pods of one replica are of the gangs %q and %q, then %q", first[0].Pin.Gang, first[1].Pin.Gang, again[0].Pin.Gang)
	}
	o.Pods[0].UID += "-recreated"
	if successor := plan(o); successor[0].Pin.Gang == first[0].Pin.Gang {
		t.Errorf("a recreated pod is of the gang of its predecessor, %q", successor[0].Pin.Gang)
	}
	o.Pods[0].Spec.SchedulingGates = nil
	o.Pods[0].Spec.NodeSelector = map[string]string{"z": "z", "r": "a"}
	o.Pods[0].Annotations = map[string]string{render.AnnotationGang: "g-before"}
	if rest := plan(o); len(rest) != 1 || rest[0].Pin.Gang != "g-before" {
		t.Errorf("the rest of a release cut short: %d pods of the gang %q, want 1 of g-before", len(rest), rest[0].Pin.Gang)
	}
}
