// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/rollout"
)

// workers is a group of a generation whose pods discover each other through Kubernetes.
func workers(replicas, size int32) *trellisv1alpha1.ScalingGroup {
	sg := group(replicas, size)
	for i := range sg.Spec.Roles {
		template := &sg.Spec.Roles[i].Template
		template.Labels = map[string]string{render.LabelWorkerHash: "c", render.LabelDiscoveryBackend: "kubernetes"}
		template.Spec.Containers = []corev1.Container{{Name: "main", Env: []corev1.EnvVar{{Name: "DYN_NAMESPACE_WORKER_SUFFIX", Value: "c"}}}}
	}
	return sg
}

// readyAt is when pods of these tests became Ready, or ceased to be.
var readyAt = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func changed(s state) state {
	return func(pod *corev1.Pod) {
		s(pod)
		status := corev1.ConditionFalse
		if render.PodReady(pod) {
			status = corev1.ConditionTrue
		}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.NewTime(readyAt)}}
	}
}

// publishedBy replicas of these ordinals.
func publishedBy(ordinals ...int32) map[int32]bool {
	out := map[int32]bool{}
	for _, ordinal := range ordinals {
		out[ordinal] = true
	}
	return out
}

// TestReadyMeansAccepted: while an update runs, a new replica counts when it is Ready and has published its metadata, if others of the component have.
func TestReadyMeansAccepted(t *testing.T) {
	cases := map[string]struct {
		pods      [][]state
		published map[int32]bool
		states    []rollout.State
		why       string
	}{
		"the old one has published, the new one has not": {
			[][]state{{old(running), old(running)}, {changed(running), running}}, publishedBy(0),
			[]rollout.State{rollout.Available, rollout.Starting}, "pod g-worker-1-0 is Ready since 2026-05-01T12:00:00Z and has not published its DynamoWorkerMetadata",
		},
		"both have": {
			[][]state{{old(running), old(running)}, {running, running}}, publishedBy(0, 1), []rollout.State{rollout.Available, rollout.Available}, "",
		},
		"the runtime publishes nothing": {
			[][]state{{old(running), old(running)}, {running, running}}, publishedBy(), []rollout.State{rollout.Available, rollout.Available}, "",
		},
		"another new one has": {
			[][]state{{running, running}, {changed(running), running}}, publishedBy(0),
			[]rollout.State{rollout.Available, rollout.Starting}, "pod g-worker-1-0 is Ready since 2026-05-01T12:00:00Z and has not published its DynamoWorkerMetadata",
		},
		"only new ones are expected to": {
			[][]state{{old(running), old(running)}, {running, running}}, publishedBy(1), []rollout.State{rollout.Available, rollout.Available}, "",
		},
		"a pod is not Ready": {
			[][]state{{old(running), old(running)}, {running, changed(unready)}}, publishedBy(0),
			[]rollout.State{rollout.Available, rollout.Starting}, "pod g-worker-1-1 is not Ready since 2026-05-01T12:00:00Z",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			sg := workers(2, 2)
			var pods []*corev1.Pod
			for ordinal, states := range c.pods {
				pods = append(pods, podsOf(sg, int32(ordinal), states...)...)
			}
			replicas := replicasOf(sg, pods, func(*corev1.Pod) bool { return false })
			markUnpublished(replicas, c.published)
			var states []rollout.State
			for _, r := range summaries(sg, replicas) {
				states = append(states, r.State)
			}
			if diff := cmp.Diff(c.states, states); diff != "" {
				t.Errorf("states (-want +got):\n%s", diff)
			}
			if got := strings.Join(notAvailable(replicas), ", "); got != c.why {
				t.Errorf("got %q, want %q", got, c.why)
			}
			status := statusOf(sg, replicas, rollout.Plan{}, nil)
			available := 0
			for _, state := range c.states {
				if state == rollout.Available {
					available++
				}
			}
			if int(status.AvailableReplicas) != available {
				t.Errorf("%d replicas are available, want %d", status.AvailableReplicas, available)
			}
		})
	}
}

// TestWhereMetadataIsExpected: only while workers that discover each other through Kubernetes are replaced, in an update or a move.
func TestWhereMetadataIsExpected(t *testing.T) {
	cases := map[string]struct {
		change func(*trellisv1alpha1.ScalingGroup)
		state  state
		want   bool
	}{
		"an update":            {func(*trellisv1alpha1.ScalingGroup) {}, old(running), true},
		"no update":            {func(*trellisv1alpha1.ScalingGroup) {}, running, false},
		"the end of an update": {func(sg *trellisv1alpha1.ScalingGroup) { sg.Status.Conditions = rollingOut() }, running, true},
		"a move": {func(sg *trellisv1alpha1.ScalingGroup) {
			sg.Status.Moves = []trellisv1alpha1.ReplicaMove{{Replica: 1}}
		}, running, true},
		"discovery through etcd": {
			func(sg *trellisv1alpha1.ScalingGroup) {
				delete(sg.Spec.Roles[0].Template.Labels, render.LabelDiscoveryBackend)
			}, old(running), false,
		},
		"a frontend": {func(sg *trellisv1alpha1.ScalingGroup) {
			delete(sg.Spec.Roles[0].Template.Labels, render.LabelWorkerHash)
		}, old(running), false},
	}
	for name, c := range cases {
		sg := workers(1, 1)
		replicas := replicasOf(sg, podsOf(sg, 0, c.state), func(*corev1.Pod) bool { return false })
		c.change(sg)
		if got := expectsMetadata(sg, replicas); got != c.want {
			t.Errorf("%s: expected %v, want %v", name, got, c.want)
		}
	}
}

func rollingOut() []metav1.Condition {
	return []metav1.Condition{{Type: trellisv1alpha1.ConditionRolledOut, Status: metav1.ConditionFalse}}
}
