// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package whatif

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/leaving"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/repack"
)

// What a replica is bounded by when it moves, and which replicas do not.
func TestMovable(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(w *World, dgd *nvidiav1beta1.DynamoGraphDeployment)
		pods   func(*corev1.Pod)
		want   []string
	}{
		"a multinode replica goes to any rack of the graph's zone": {want: []string{"Worker-0 of 16 GPUs in one domain of level 1 inside a"}},
		"a single-node component stays in its rack": {
			change: func(_ *World, dgd *nvidiav1beta1.DynamoGraphDeployment) { dgd.Component("Worker").Multinode = nil },
			want:   []string{"Worker-0 of 8 GPUs in one domain of level -1 inside a/r0"},
		},
		"a spread replica stays in its domain": {
			change: func(_ *World, dgd *nvidiav1beta1.DynamoGraphDeployment) {
				dgd.Spec.TopologyConstraint.PackDomain = ""
				dgd.Component("Worker").TopologyConstraint = &nvidiav1beta1.TopologyConstraint{PackDomain: "rack", SpreadDomain: "zone"}
			},
			want: []string{"Worker-0 of 16 GPUs in one domain of level 1 inside a"},
		},
		"without the graph's zone it goes anywhere": {
			change: func(_ *World, dgd *nvidiav1beta1.DynamoGraphDeployment) { dgd.Spec.TopologyConstraint.PackDomain = "" },
			want:   []string{"Worker-0 of 16 GPUs in one domain of level 1 inside "},
		},
		"not allowed": {
			change: func(_ *World, dgd *nvidiav1beta1.DynamoGraphDeployment) {
				dgd.Annotations[render.AnnotationMayMove] = "yes"
			},
		},
		"one of its pods ends": {pods: func(pod *corev1.Pod) {
			if pod.Labels[render.LabelPodIndex] == "1" {
				pod.DeletionTimestamp = ptr.To(metav1.NewTime(time.Unix(1, 0)))
			}
		}},
		"its eviction was requested": {pods: func(pod *corev1.Pod) {
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, leaving.AnnotationEviction, leaving.Eviction{At: time.Unix(1, 0)}.String())
		}},
		"it has claims, whose devices do not count as free": {pods: func(pod *corev1.Pod) {
			pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpus"}}
		}},
		"not entirely bound": {pods: func(pod *corev1.Pod) {
			if pod.Labels[render.LabelPodIndex] == "1" {
				pod.Spec.NodeName = ""
			}
		}},
		"another topology": {change: func(w *World, _ *nvidiav1beta1.DynamoGraphDeployment) {
			w.Topologies[0].Spec.NodeSelector = map[string]string{"pool": "x"}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w, dgd := newWorld(2), deployment("g", 1)
			place := repack.Place{Levels: gang.LevelsOfClusterTopology(w.Topologies[0])}
			dgd.Annotations = map[string]string{render.AnnotationMayMove: "true"}
			if tc.change != nil {
				tc.change(&w, dgd)
			}
			w.exist(t, dgd, func(pod *corev1.Pod) {
				released("a", "r0", true)(pod)
				if tc.pods != nil {
					tc.pods(pod)
				}
			})
			p := NewPlanner(w)
			place.Cluster = p.Cluster()
			var got []string
			for _, r := range p.movable(place, nil, gang.GPUsWithoutClaims) {
				got = append(got, fmt.Sprintf("%s-%d of %d GPUs in one domain of level %d inside %s", r.Component, r.Ordinal, r.GPUs(), r.Group.Required, r.Group.Within))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// Moves leave the planner as it was.
func TestMovesChangeNothing(t *testing.T) {
	w, small, big := newWorld(2), deployment("small", 1), deployment("big", 4)
	small.Annotations = map[string]string{render.AnnotationMayMove: "true"}
	small.Spec.TopologyConstraint.PackDomain = ""
	w.exist(t, small, released("a", "r0", true))
	w.occupy("b-r0-0", 8)
	w.occupy("a-r1-0", 4)
	p := NewPlanner(w)
	p.Begin()
	plan, err := p.Plan(big)
	if err != nil || plan.Placed() {
		t.Fatalf("%v: placed without moves", err)
	}
	capacity := func() (all []string) {
		for _, n := range w.Nodes {
			all = append(all, fmt.Sprintf("%s: %+v", n.Name, p.Cluster().CapacityOf(n.Name, "nvidia.com/gpu")))
		}
		return all
	}
	before := capacity()
	first, second := p.Moves(plan, repack.Limits{}), p.Moves(plan, repack.Limits{})
	if diff := cmp.Diff(before, capacity()); diff != "" {
		t.Error(diff)
	}
	if first == nil || second == nil || first.Considered != 1 || first.Plan == nil != (second.Plan == nil) {
		t.Errorf("%+v, then %+v", first, second)
	}
}
