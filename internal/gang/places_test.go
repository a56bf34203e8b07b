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

	"github.com/trellis-k8s/trellis/internal/assignment"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
	"github.com/trellis-k8s/trellis/test/testutil/gangtest"
)

// Places are those of bound replicas that are whole, by the labels that nodes have now.
func TestPlacesOf(t *testing.T) {
	both := gangtest.Frozen("zone", "rack")
	for name, tc := range map[string]struct {
		make func(g *graphAt)
		want string
	}{
		"two components": {func(g *graphAt) {
			g.add("work", 2, both)
			g.bind(0, 0, "a r1", "a r1")
			g.bind(0, 1, "a r1", "a r1")
			g.bind(3, 0, "a r2", "a r2")
			g.bind(3, 1, "a r2", "a r2")
			g.add("front", 1, gangtest.Frozen("zone", ""))
			g.bind(0, 0, "a r9", "a")
		}, "in a: front-0 a/r9, work-0 a/r1, work-3 a/r2"},
		"relabelled": {func(g *graphAt) {
			g.add("work", 2, both)
			g.bind(0, 0, "a r1", "a r1")
			g.bind(0, 1, "a r5", "a r1")
			g.bind(1, 0, "b r1", "a r1")
			g.bind(1, 1, "b r1", "a r1")
		}, "in : work-0 a, work-1 b/r1"},
		"in no domain": {func(g *graphAt) {
			g.add("work", 2, both)
			g.bind(0, 0, "a r1", "a r1")
			g.bind(0, 1, "b r1", "a r1")
			g.bind(1, 0, "b r1", "a r1")
			g.bind(1, 1, "b r1", "a r1")
		}, "in b: work-1 b/r1"},
		"above the level of the graph": {func(g *graphAt) {
			g.add("work", 2, gangtest.Frozen("rack", ""))
			g.bind(0, 0, "a r1", "a r1")
			g.bind(0, 1, "a r2", "a r1")
		}, "in : work-0 a"},
		"no level of the graph": {func(g *graphAt) {
			g.add("work", 1, gangtest.Frozen("", "rack"))
			g.bind(0, 0, "a r1", "a r1")
		}, "in : work-0 a/r1"},
		"not whole, not bound, leaving, superseded, on a lost node": {func(g *graphAt) {
			g.add("work", 2, both)
			g.bind(0, 0, "a r1", "a r1")
			g.bind(1, 0, "a r1", "a r1")
			g.bind(1, 1, "a r1", "a r1").Spec.NodeName = ""
			g.bind(2, 0, "a r1", "a r1")
			g.bind(2, 1, "a r1", "a r1").Status.Phase = corev1.PodFailed
			g.bind(3, 0, "a r1", "a r1")
			g.bind(3, 1, "a r1", "a r1").Annotations = map[string]string{render.AnnotationAttempt: "1"}
			g.o.Record = &assignment.Record{Bound: map[gang.Key]assignment.Place{{Component: "work", Ordinal: 3}: {Attempt: 2}}}
			g.bind(4, 0, "a r1", "a r1")
			g.bind(4, 1, "a r1", "a r1").Spec.NodeName = "lost"
		}, "in : "},
		"no topology": {func(g *graphAt) {
			g.add("work", 1, nil)
			g.bind(0, 0, "a r1", "a r1")
		}, "in : "},
	} {
		t.Run(name, func(t *testing.T) {
			g := &graphAt{cluster: topology.NewCluster()}
			g.cluster.SetNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "unused"}})
			tc.make(g)
			got := gang.PlacesOf(g.cluster, g.o)
			var list []string
			for _, component := range []string{"front", "work"} {
				for _, p := range got.Components[component] {
					list = append(list, fmt.Sprintf("%s-%d %s", component, p.Replica, p.Domain))
				}
			}
			if diff := cmp.Diff(tc.want, "in "+got.Domain.String()+": "+strings.Join(list, ", ")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Of each component at most [gang.MaxPlaces] replicas are listed; the domain is that of all.
func TestPlacesOfManyReplicas(t *testing.T) {
	g := &graphAt{cluster: topology.NewCluster()}
	g.add("work", 1, gangtest.Frozen("zone", ""))
	for n := range int32(gang.MaxPlaces) {
		g.bind(n, 0, "a r1", "a")
	}
	if got := gang.PlacesOf(g.cluster, g.o); len(got.Components["work"]) != gang.MaxPlaces || got.Domain.String() != "a" {
		t.Errorf("%d are listed, in %s", len(got.Components["work"]), got.Domain)
	}
	g.bind(gang.MaxPlaces, 0, "b r1", "a")
	if got := gang.PlacesOf(g.cluster, g.o); len(got.Components["work"]) != gang.MaxPlaces || got.Domain != nil {
		t.Errorf("%d are listed, in %s", len(got.Components["work"]), got.Domain)
	}
}
