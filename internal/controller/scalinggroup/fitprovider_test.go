// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/internal/provider"
	podgroup "github.com/trellis-k8s/trellis/internal/provider/podgroup/placer"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
)

// switched is the provider PodGroup in a cluster that may not serve it.
type switched struct {
	podgroup.Placer
	on bool
}

func (s switched) Probe(context.Context) (provider.State, error) {
	if s.on {
		return provider.Ready(), nil
	}
	return provider.State{Reason: "APINotServed", Message: "not served"}, nil
}

// What the rollout wants becomes what the provider can follow.
func TestFit(t *testing.T) {
	grouped := func(name string, s state) state {
		return func(pod *corev1.Pod) {
			s(pod)
			pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name}
			pod.Annotations = map[string]string{render.AnnotationPodProvider: specs.PodGroup.Name}
		}
	}
	cases := map[string]struct {
		replicas               int32
		off                    bool
		pods                   [][]state
		wantCreate, wantDelete []string
	}{
		"new pods name a group": {
			replicas: 2, wantCreate: []string{"g-worker-0-0 in A", "g-worker-0-1 in A", "g-worker-1-0 in B", "g-worker-1-1 in B"},
		},
		"the rest of a replica joins its group": {
			replicas: 1, pods: [][]state{{grouped("mine", gated), nil}}, wantCreate: []string{"g-worker-0-1 in mine"},
		},
		"gated pods of another provider are recreated": {
			replicas: 1, pods: [][]state{{gated, gated}}, wantDelete: []string{"g-worker-0-0", "g-worker-0-1"},
		},
		"halves of two generations are recreated, and not completed": {
			replicas: 2, pods: [][]state{{grouped("a", gated), grouped("b", gated)}, {gated, nil}},
			wantDelete: []string{"g-worker-0-0", "g-worker-0-1", "g-worker-1-0"},
		},
		"what another provider has released runs on": {replicas: 1, pods: [][]state{{running, running}}},
		"off: nothing is made":                       {replicas: 1, off: true},
		"off: nothing is replaced": {
			replicas: 3, off: true, pods: [][]state{{running, nil}, {old(running), old(running)}, {running, failed}},
		},
		"off: scale-in goes on": {
			replicas: 1, off: true, pods: [][]state{{running, running}, {running, running}}, wantDelete: []string{"g-worker-1-0", "g-worker-1-1"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			sg := group(c.replicas, 2)
			sg.Spec.Provider = specs.PodGroup.Name
			var pods []*corev1.Pod
			for ordinal, states := range c.pods {
				pods = append(pods, podsOf(sg, int32(ordinal), states...)...)
			}
			replicas := replicasOf(sg, pods, func(*corev1.Pod) bool { return false })
			r := &Reconciler{Providers: provider.New(provider.Options{}, provider.All{Placers: []provider.Placer{switched{on: !c.off}}})}
			got := (&pass{Reconciler: r, observed: observed{sg: sg, replicas: replicas}}).fit(t.Context(), plan(sg, replicas))
			var create, remove []string
			letters := map[string]string{}
			for _, pod := range got.create {
				name := *pod.Spec.SchedulingGroup.PodGroupName
				if strings.HasPrefix(name, "g-") { // generated: call them A, B, ...
					if letters[name] == "" {
						letters[name] = string(rune('A' + len(letters)))
					}
					name = letters[name]
				}
				create = append(create, pod.Name+" in "+name)
			}
			for _, d := range got.delete {
				remove = append(remove, d.pod.Name)
			}
			slices.Sort(remove)
			if diff := cmp.Diff(c.wantCreate, create); diff != "" {
				t.Errorf("create (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.wantDelete, remove); diff != "" {
				t.Errorf("delete (-want +got):\n%s", diff)
			}
		})
	}
}
