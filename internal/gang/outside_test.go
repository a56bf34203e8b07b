// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/topology"
	"github.com/trellis-k8s/trellis/test/testutil/gangtest"
)

// graphAt is a graph with bound pods.
type graphAt struct {
	cluster *topology.Cluster
	o       gang.Observation
	group   *trellisv1alpha1.ScalingGroup
}

// add starts a component of the graph.
func (g *graphAt) add(component string, size int32, constraint *trellisv1alpha1.ResolvedTopology) {
	g.group = gangtest.Group(component, 4, size, constraint)
	g.o.Groups = append(g.o.Groups, g.group)
}

// bind binds a pod of the last component to a node of its own whose labels show a path. It is pinned to another path.
func (g *graphAt) bind(ordinal, index int32, path, pinned string) *corev1.Pod {
	labels := map[string]string{"unrelated": "x"}
	for i, value := range strings.Fields(path) {
		labels[[]string{"z", "r"}[i]] = value
	}
	name := fmt.Sprintf("node-%d", len(g.o.Pods))
	g.cluster.SetNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})
	pod := gangtest.Pod(g.group, ordinal, index, strings.Fields(pinned)...)
	pod.Spec.SchedulingGates, pod.Spec.NodeName = nil, name
	g.o.Pods = append(g.o.Pods, pod)
	return pod
}

func TestFindOutside(t *testing.T) {
	const graph, replica = gang.CodeOutsideGraphDomain, gang.CodeOutsideReplicaDomain
	inZone, inRacks, both := gangtest.Frozen("zone", ""), gangtest.Frozen("", "rack"), gangtest.Frozen("zone", "rack")
	for name, tc := range map[string]struct {
		make   func(g *graphAt)
		domain topology.Path
		want   []gang.Outside
	}{
		"inside": {make: func(g *graphAt) {
			g.add("work", 2, both)
			g.bind(0, 0, "a r1", "a r1")
			g.bind(0, 1, "a r1", "a r1")
		}, domain: topology.Path{"a"}},
		"a rack is relabelled under one pod": {make: func(g *graphAt) {
			g.add("work", 2, both)
			g.bind(0, 0, "a r0", "a r1")
			g.bind(0, 1, "a r1", "a r1")
			g.bind(1, 0, "a r2", "a r2")
			g.bind(1, 1, "a r2", "a r2")
		}, domain: topology.Path{"a"}, want: []gang.Outside{{replica, "work-0 has 1 of 2 pods outside rack a/r1, in a/r0"}}},
		"a rack is relabelled under all pods of a replica": {make: func(g *graphAt) {
			g.add("work", 2, both)
			g.bind(0, 0, "a r9", "a r1")
			g.bind(0, 1, "a r9", "a r1")
		}, domain: topology.Path{"a"}},
		"a rack is relabelled under all pods of a single-node component": {make: func(g *graphAt) {
			g.add("front", 1, inRacks)
			g.bind(0, 0, "a r9", "a r1")
			g.bind(1, 0, "a r9", "a r1")
		}, want: []gang.Outside{{replica, "front has 2 of 2 pods outside rack a/r1, in a/r9"}}},
		"a zone is relabelled": {make: func(g *graphAt) {
			g.add("front", 1, inZone)
			g.bind(0, 0, "b r1", "a r1")
			g.add("work", 2, both)
			g.bind(3, 0, "b r1", "a r1")
			g.bind(3, 1, "b r1", "a r1")
		}, domain: topology.Path{"a"}, want: []gang.Outside{
			{graph, "front-0 has 1 of 1 pods outside the deployment's zone a, in b"},
			{graph, "work-3 has 2 of 2 pods outside the deployment's zone a, in b"},
		}},
		"a zone is relabelled under one pod": {make: func(g *graphAt) {
			g.add("work", 2, both)
			g.bind(0, 0, "a r1", "a r1")
			g.bind(0, 1, "b r1", "a r1")
		}, domain: topology.Path{"a"}, want: []gang.Outside{{graph, "work-0 has 1 of 2 pods outside the deployment's zone a, in b"}}},
		"a label is removed": {make: func(g *graphAt) {
			g.add("work", 2, inRacks)
			g.bind(0, 0, "a r1", "a r1")
			g.bind(0, 1, "a", "a r1")
		}, want: []gang.Outside{{replica, "work-0 has 1 of 2 pods outside rack a/r1, in no rack"}}},
		"no pod is in a rack": {make: func(g *graphAt) {
			g.add("work", 2, inRacks)
			g.bind(0, 0, "a", "a r1")
			g.bind(0, 1, "", "a r1")
		}, want: []gang.Outside{{replica, "work-0 has 2 of 2 pods, in no rack"}}},
		"pods without pins in two racks": {make: func(g *graphAt) {
			g.add("work", 3, inRacks)
			g.bind(0, 0, "b r1", "")
			g.bind(0, 1, "a r1", "")
			g.bind(0, 2, "a r1", "")
		}, want: []gang.Outside{{replica, "work-0 has 1 of 3 pods outside rack a/r1, in b/r1"}}},
		"pods without pins in two zones": {make: func(g *graphAt) {
			g.add("work", 2, inZone)
			g.bind(0, 0, "b r1", "")
			g.bind(0, 1, "a r1", "")
		}, want: []gang.Outside{{graph, "work-0 has 1 of 2 pods outside the deployment's zone a, in b"}}},
		"a preferred level": {make: func(g *graphAt) {
			preferred := gangtest.Frozen("", "")
			preferred.PreferredPackDomain = "rack"
			g.add("work", 2, preferred)
			g.bind(0, 0, "a r1", "a")
			g.bind(0, 1, "b r1", "a")
		}},
		"pods that terminate, and pods whose node is gone": {make: func(g *graphAt) {
			g.add("work", 3, inRacks)
			g.bind(0, 0, "a r1", "a r1")
			g.bind(0, 1, "a r2", "a r1").DeletionTimestamp = &metav1.Time{}
			g.bind(0, 2, "a r2", "a r1").Spec.NodeName = "gone"
		}},
	} {
		t.Run(name, func(t *testing.T) {
			g := &graphAt{cluster: gang.NewCluster()}
			tc.make(g)
			if diff := cmp.Diff(tc.want, gang.FindOutside(g.cluster, g.o, tc.domain)); diff != "" {
				t.Errorf("outside (-want +got):\n%s", diff)
			}
		})
	}
}

// A message names the first replicas, however many there are.
func TestOutsideMessageIsBounded(t *testing.T) {
	var list []gang.Outside
	for i := range 1000 {
		list = append(list, gang.Outside{Code: gang.CodeOutsideGraphDomain, Message: fmt.Sprintf("work-%d has 1 of 2 pods outside rack a, in b", i)})
	}
	want := "by the labels of their nodes, work-0 has 1 of 2 pods outside rack a, in b; work-1 has 1 of 2 pods outside rack a, in b; " +
		"work-2 has 1 of 2 pods outside rack a, in b and 997 more; running pods stay"
	if got := gang.OutsideMessage(list); got != want {
		t.Errorf("got %s", got)
	}
}
