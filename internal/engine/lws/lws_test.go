// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package lws_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/trellis-k8s/trellis/internal/engine/lws"
	"github.com/trellis-k8s/trellis/internal/engine/peer/peertest"
	"github.com/trellis-k8s/trellis/internal/framework"
	"github.com/trellis-k8s/trellis/internal/graph"
)

const deep = `
metadata: {name: g, namespace: ns}
spec:
  services:
    Deep: {componentType: worker, replicas: 2, multinode: {nodeCount: 3}, envs: [{name: WHO, value: "$(TRELLIS_POD_INDEX)"}]}`

// TestPodsAreOurs: but for what differs from pod to pod, the pods of a set are those Trellis would make: gate, labels, commands, order of
// variables.
func TestPodsAreOurs(t *testing.T) {
	sg := peertest.Groups(t, peertest.Deployment(t, deep), "Gates")[0]
	template := lws.Render(sg, 1, nil).Spec.LeaderWorkerTemplate
	for index, got := range map[int32]lws.PodTemplate{0: *template.LeaderTemplate, 2: template.WorkerTemplate} {
		want := graph.BuildPod(sg, 1, index)
		delete(want.Labels, graph.LabelPodIndex)
		want.Spec.Hostname, want.Spec.Subdomain = "", ""
		blank(&want.Spec)
		blank(&got.Spec)
		if diff := cmp.Diff(want.Spec, got.Spec); diff != "" {
			t.Errorf("pod %d (-want +got):\n%s", index, diff)
		}
		if diff := cmp.Diff(want.Labels, got.Metadata.Labels); diff != "" {
			t.Errorf("labels of pod %d (-want +got):\n%s", index, diff)
		}
	}
	if template.Size != 3 {
		t.Errorf("size %d", template.Size)
	}
}

// blank takes the values of the variables that differ between the two ways.
func blank(spec *corev1.PodSpec) {
	for i := range spec.Containers {
		for j := range spec.Containers[i].Env {
			if e := &spec.Containers[i].Env[j]; strings.HasPrefix(e.Name, "TRELLIS_") {
				*e = corev1.EnvVar{Name: e.Name}
			}
		}
	}
}

func TestVariables(t *testing.T) {
	sg := peertest.Groups(t, peertest.Deployment(t, deep), "Gates")[0]
	env := lws.Render(sg, 1, nil).Spec.LeaderWorkerTemplate.WorkerTemplate.Spec.Containers[0].Env
	value := func(name string) string {
		at := slices.IndexFunc(env, func(e corev1.EnvVar) bool { return e.Name == name })
		if ref := env[at].ValueFrom; ref != nil {
			return ref.FieldRef.FieldPath
		}
		return env[at].Value
	}
	for name, want := range map[string]string{
		framework.EnvLeaderAddress: "$(LWS_LEADER_ADDRESS)",
		framework.EnvHosts:         "$(LWS_LEADER_ADDRESS),g-deep-1-0-1.g-deep-1.ns,g-deep-1-0-2.g-deep-1.ns",
		framework.EnvPodIndex:      "metadata.labels['leaderworkerset.sigs.k8s.io/worker-index']",
		framework.EnvReplica:       "1",
	} {
		if got := value(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if last := env[len(env)-1]; last.Name == framework.EnvPodIndex {
		t.Error("the index comes last, so that nothing can refer to it")
	}
}

// TestNames: what LeaderWorkerSet and StatefulSets append still fits, and replicas of long names differ.
func TestNames(t *testing.T) {
	dgd := peertest.Deployment(t, "metadata: {name: 7b-"+strings.Repeat("a", 60)+", namespace: ns}\nspec: {services: {"+strings.Repeat("B", 60)+": {componentType: worker, multinode: {nodeCount: 2}}}}")
	sg := peertest.Groups(t, dgd, "Gates")[0]
	seen := map[string]bool{}
	for _, ordinal := range []int32{0, 1, 10, 99999} {
		name := lws.Name(sg, ordinal)
		if seen[name] || len(validation.IsDNS1035Label(name)) > 0 || len(name+"-0"+"-0123456789") > validation.LabelValueMaxLength {
			t.Errorf("%q is taken, no name of a Service, or too long (%d)", name, len(name))
		}
		seen[name] = true
	}
}

func TestRead(t *testing.T) {
	set := func(generation int64, replicas, updated, ready int32, message string) *lws.LeaderWorkerSet {
		s := &lws.LeaderWorkerSet{Status: lws.Status{ObservedGeneration: 2, Replicas: replicas, UpdatedReplicas: updated, ReadyReplicas: ready}}
		s.Name, s.Generation = "g-deep-0", generation
		if message != "" {
			s.Status.Conditions = []metav1.Condition{{Type: "Available", Status: "False", Message: message}}
		}
		return s
	}
	cases := map[string]struct {
		set  *lws.LeaderWorkerSet
		want lws.Replica
	}{
		"absent":   {nil, lws.Replica{NotReady: "the LeaderWorkerSet is not there yet"}},
		"changed":  {set(3, 1, 1, 1, ""), lws.Replica{Exists: true, NotReady: "leaderworkerset/g-deep-0: being updated"}},
		"starting": {set(2, 1, 1, 0, "Replicas are progressing"), lws.Replica{Exists: true, Updated: true, NotReady: "leaderworkerset/g-deep-0: not ready: Replicas are progressing"}},
		"ready":    {set(2, 1, 1, 1, ""), lws.Replica{Exists: true, Updated: true, Ready: true}},
	}
	for name, c := range cases {
		if diff := cmp.Diff(c.want, lws.Read(c.set)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestPodIndex(t *testing.T) {
	pod := &corev1.Pod{}
	if _, ok := lws.PodIndex(pod); ok {
		t.Error("a pod without the label has no index")
	}
	pod.Labels = map[string]string{lws.LabelIndex: "2"}
	if index, ok := lws.PodIndex(pod); !ok || index != 2 {
		t.Errorf("got %d %v", index, ok)
	}
}
