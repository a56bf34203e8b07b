// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider"
	gates "github.com/trellis-k8s/trellis/internal/provider/gates/placer"
	"github.com/trellis-k8s/trellis/internal/provider/lws"
	"github.com/trellis-k8s/trellis/internal/provider/lws/maker"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
)

// served is LeaderWorkerSet in a cluster that may not serve it.
type served struct {
	maker.Maker
	on bool
}

func (s served) Probe(context.Context) (provider.State, error) {
	return provider.State{Ready: s.on, Reason: "APINotServed"}, nil
}

// What the rollout wants becomes sets to make and to take down. A replica's pods decide where there are some; the set does where there
// are none, or where it is on its way out.
func TestSets(t *testing.T) {
	const there, leaving, older = "there", "leaving", "older"
	cases := map[string]struct {
		replicas int32
		provider string
		off      bool
		// paused: an update is.
		paused bool
		// sets by ordinal, "" for none.
		sets []string
		pods [][]state
		want string
		// status: there, updated, ready, outdated.
		status string
	}{
		"nothing there: sets are made": {replicas: 2, want: "make 0 1", status: "0 0 0 0"},
		"LeaderWorkerSet has not come to the pods yet: nothing to do": {
			replicas: 1, sets: []string{there}, status: "1 0 0 0",
		},
		"pods are missing: they come from the set": {
			replicas: 1, sets: []string{there}, pods: [][]state{{gated, nil}}, status: "1 0 0 0",
		},
		"a set that the cache does not show yet is asked for again, which is harmless": {
			replicas: 1, pods: [][]state{{gated, nil}}, want: "make 0", status: "1 0 0 0",
		},
		"whole and running: nothing": {
			replicas: 1, sets: []string{there}, pods: [][]state{{running, running}}, status: "1 1 1 0",
		},
		"scaled in: a set without pods goes first": {
			replicas: 1, sets: []string{there, there}, pods: [][]state{{running, running}, {}}, want: "take down 1", status: "2 1 1 0",
		},
		"a released pod is gone: the whole replica": {
			replicas: 1, sets: []string{there}, pods: [][]state{{running, nil}}, want: "take down 0", status: "1 0 0 0",
		},
		"a pod failed: the whole replica": {
			replicas: 1, sets: []string{there}, pods: [][]state{{running, failed}}, want: "take down 0", status: "1 0 0 0",
		},
		"LeaderWorkerSet recreates the replica by itself: wait for it": {
			replicas: 1, sets: []string{there}, pods: [][]state{{terminating, terminating}}, status: "1 0 0 0",
		},
		"on its way out: its pods do not count, and its name is not free yet": {
			replicas: 1, sets: []string{leaving}, pods: [][]state{{running, running}}, status: "0 0 0 0",
		},
		"on its way out, its pods gone": {replicas: 1, sets: []string{leaving}, status: "0 0 0 0"},
		"an older set without pods is replaced": {
			replicas: 1, sets: []string{older}, want: "take down 0", status: "1 0 0 1",
		},
		"an update replaces one set after the other": {
			replicas: 2, sets: []string{older, older}, pods: [][]state{{old(running), old(running)}, {old(running), old(running)}},
			want: "take down 1", status: "2 0 2 2",
		},
		"gated pods of another provider: the set is recreated": {
			replicas: 1, sets: []string{there}, pods: [][]state{{other, other}}, want: "take down 0", status: "1 1 0 0",
		},
		"an update is paused: the rest of an older set comes from it": {
			replicas: 1, paused: true, sets: []string{older}, pods: [][]state{{old(gated), nil}}, status: "1 0 0 1",
		},
		"an update is paused: no set is made for what is left of an older one": {
			replicas: 1, paused: true, pods: [][]state{{old(gated), nil}}, want: "take down 0", status: "1 0 0 1",
		},
		"off: nothing is made or taken down": {
			replicas: 1, off: true, pods: [][]state{{running, failed}, {running, running}}, status: "2 1 1 0",
		},
		"a provider that cannot place them makes none": {replicas: 1, provider: specs.PodGroup.Name, status: "0 0 0 0"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			sg := group(c.replicas, 2)
			sg.Spec.Workload = specs.LeaderWorkerSet
			if c.paused {
				sg.Spec.Step = &trellisv1alpha1.RolloutStep{Keep: math.MaxInt32, Make: 1, Paused: true}
			}
			if c.provider != "" {
				sg.Spec.Provider = c.provider
			}
			r := &Reconciler{Providers: provider.New(provider.Options{}, provider.All{
				Placers: []provider.Placer{gates.Placer{}, switched{on: true}}, Makers: []provider.Maker{served{on: !c.off}},
			})}
			var pods []*corev1.Pod
			for ordinal, states := range c.pods {
				pods = append(pods, podsOf(sg, int32(ordinal), states...)...)
			}
			sets := map[int32]client.Object{}
			for ordinal, state := range c.sets {
				set := lws.For(sg).Render(int32(ordinal), nil)
				object := &corev1.Pod{ObjectMeta: set.ObjectMeta} // metadata is all that counts
				switch state {
				case leaving:
					object.DeletionTimestamp = &metav1.Time{}
				case older:
					object.Labels[render.LabelRevision] = "old"
				}
				sets[int32(ordinal)] = object
			}
			replicas := replicasOf(sg, pods, func(*corev1.Pod) bool { return false })
			addSets(sg, replicas, sets)
			next := plan(sg, replicas)
			got := (&pass{Reconciler: r, observed: observed{sg: sg, replicas: replicas}}).fit(t.Context(), next)
			var words []string
			if len(got.make) > 0 {
				words = append(words, "make", strings.Trim(fmt.Sprint(got.make), "[]"))
			}
			for _, gone := range got.unmake {
				words = append(words, "take down", fmt.Sprint(gone.ordinal))
			}
			if diff := cmp.Diff(c.want, strings.Join(words, " ")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if len(got.create) > 0 || len(got.delete) > 0 {
				t.Errorf("pods of our own: %v", got)
			}
			s := statusOf(sg, replicas, next, nil)
			if status := fmt.Sprint(s.Replicas, s.UpdatedReplicas, s.ReadyReplicas, s.OutdatedReplicas); status != c.status {
				t.Errorf("status %s, want %s", status, c.status)
			}
		})
	}
}

// other: made for another provider.
func other(pod *corev1.Pod) {
	pod.Annotations = map[string]string{render.AnnotationPodProvider: specs.KAI.Name}
}

// TestPodsOfSetsAreFound: a pod that a StatefulSet owns brings its scaling group to be looked at, one of another client does not.
func TestPodsOfSetsAreFound(t *testing.T) {
	sg := group(1, 2)
	sg.Spec.Workload = specs.LeaderWorkerSet
	pod := podsOf(sg, 0, gated)[0]
	of := func(kind, name string) []string {
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: name, UID: "owner", Controller: new(true)}}
		var out []string
		for _, request := range groupOf(t.Context(), pod) {
			out = append(out, request.Name)
		}
		return out
	}
	if got := of("StatefulSet", "g-worker-r0"); !slices.Equal(got, []string{"g-worker"}) {
		t.Errorf("a StatefulSet's: %v", got)
	}
	if got := of("ReplicaSet", "copy"); got != nil {
		t.Errorf("a ReplicaSet's, made from a copy of the labels: %v", got)
	}
}
