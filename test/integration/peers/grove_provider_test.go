// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/operator"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/provider/grove"
	"github.com/trellis-k8s/trellis/internal/provider/grove/workload"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
)

func probed(t *testing.T) *workload.Workload {
	t.Helper()
	w := workload.New(typed, typed)
	w.TopologyKept = func(context.Context) bool { return true }
	if state, err := w.Probe(t.Context()); err != nil || !state.Ready {
		t.Fatalf("%+v %v", state, err)
	}
	return w
}

func groveObject(t *testing.T, kind, name string) *unstructured.Unstructured {
	t.Helper()
	object, err := client.Resource(resources[kind]).Namespace(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return object
}

// TestGroveWorkload plays a deployment's life under Grove: written once, counted, scaled, refused, and its topology lost.
func TestGroveWorkload(t *testing.T) {
	s, w := newScenario(t, "whole", specs.Grove.Name), probed(t)
	if why := w.Unsuited(s.groups); why != "" {
		t.Fatal(why)
	}
	apply := func() {
		t.Helper()
		if err := w.Apply(t.Context(), s.dgd, s.groups); err != nil {
			t.Fatal(err)
		}
	}
	observe := func() provider.Observation {
		t.Helper()
		o, err := w.Observe(t.Context(), typed, s.groups)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	apply()
	set := groveObject(t, "PodCliqueSet", "whole")
	apply()
	if again := groveObject(t, "PodCliqueSet", "whole"); again.GetResourceVersion() != set.GetResourceVersion() {
		t.Error("it was written though nothing changed")
	}
	if o := observe(); o.Placed || o.Reason != workload.CodeWaitsForGrove || !strings.Contains(o.Message, "Grove has not made PodClique whole-0-frontend yet") {
		t.Errorf("before Grove did anything: %+v", o)
	}

	t.Log("Grove makes its objects and schedules them")
	template := read[grove.PodCliqueSet](t, set).Spec.Template
	frontend, group := groveMakes(t, namespace, "whole", template.Cliques[2], "whole-0-frontend"), groveMakesGroup(t, namespace, "whole", "whole-0-decode", 2, "decode-ldr", "decode-wkr")
	status(t, frontend, `
  {observedGeneration: 1, replicas: 2, readyReplicas: 2, scheduledReplicas: 2, updatedReplicas: 2, scheduleGatedReplicas: 0}`)
	status(t, group, `
  {observedGeneration: 1, replicas: 2, availableReplicas: 1, scheduledReplicas: 2, updatedReplicas: 2}`)
	o := observe()
	want := map[string]provider.Counts{"Decode": {Replicas: 2, Updated: 2, Scheduled: 2, Ready: 1}, "Frontend": {Replicas: 2, Updated: 2, Scheduled: 2, Ready: 2}}
	if diff := cmp.Diff(want, o.Counts); diff != "" || !o.Placed || !strings.Contains(o.Message, "Decode: Grove chooses the zone of each replica after the first") {
		t.Errorf("%+v (-want +got):\n%s", o, diff)
	}
	part, err := w.Observe(t.Context(), typed, s.groups[:1])
	if err != nil || part.Counts["Decode"] != want["Decode"] {
		t.Errorf("one service: %+v %v", part, err)
	}

	t.Log("a later replica strays")
	for name, zone := range map[string]string{"whole-a": "a", "whole-b": "b"} {
		made(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"example.com/zone": zone}}})
	}
	s.place(t, "0", "whole-a")
	s.place(t, "1", "whole-b")
	if o := observe(); o.Placed || o.Reason != workload.CodeOutsideGraphDomain || !strings.Contains(o.Message, "in zone a, but Grove placed Decode-1 in b") {
		t.Errorf("strays: %+v", o)
	}

	t.Log("the topology is gone: never placed as asked for")
	status(t, set, `
  availableReplicas: 0
  updatedReplicas: 0
  conditions: [{type: TopologyLevelsUnavailable, status: Unknown, reason: ClusterTopologyNotFound, message: gone, lastTransitionTime: "2026-01-01T00:00:00Z", observedGeneration: 1}]`)
	if o := observe(); o.Placed || o.Reason != nvidiav1alpha1.ReasonTopologyDefinitionNotFound {
		t.Errorf("topology gone: %+v", o)
	}

	t.Log("scaled: the object is, and the template follows")
	s.groups[0].Spec.Replicas, s.groups[1].Spec.Replicas = 3, 0
	apply()
	for kind, replicas := range map[string]int64{"PodCliqueScalingGroup/whole-0-decode": 3, "PodClique/whole-0-frontend": 0} {
		kind, name, _ := strings.Cut(kind, "/")
		if got, _, _ := unstructured.NestedInt64(groveObject(t, kind, name).Object, "spec", "replicas"); got != replicas {
			t.Errorf("%s %s has %d replicas, want %d", kind, name, got, replicas)
		}
	}
	template = read[grove.PodCliqueSet](t, groveObject(t, "PodCliqueSet", "whole")).Spec.Template
	if replicas := template.Cliques[2].Spec.Replicas; replicas != 1 {
		t.Errorf("the template has %d", replicas)
	}
	if delay := template.TerminationDelay.Duration; delay < 365*24*time.Hour {
		t.Errorf("Grove ends the gang of a deployment with a service without replicas after %s", delay)
	}

	t.Log("its owner was deleted with --cascade=orphan: the next one of that name adopts it")
	orphaned := groveObject(t, "PodCliqueSet", "whole")
	orphaned.SetOwnerReferences(nil)
	if _, err := resourceOf(orphaned).Update(t.Context(), orphaned, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	apply()
	if adopted := groveObject(t, "PodCliqueSet", "whole"); !metav1.IsControlledBy(adopted, s.dgd) || adopted.GetUID() != orphaned.GetUID() {
		t.Errorf("not adopted: %v", adopted.GetOwnerReferences())
	}
}

func TestGroveProbe(t *testing.T) {
	empty := fake.NewClientBuilder().WithScheme(operator.NewScheme()).Build()
	state, err := workload.New(empty, empty).Probe(t.Context())
	if err != nil || state.Ready || state.Reason != nvidiav1alpha1.ReasonAPINotServed {
		t.Errorf("not served: %+v %v", state, err)
	}
}

// TestGroveAlone: where Trellis keeps no Topology of KAI, the binding refers to none, and Grove makes its own.
func TestGroveAlone(t *testing.T) {
	alone := probed(t)
	alone.TopologyKept = func(context.Context) bool { return false }
	k := newKeeping(t, "alone", "ClusterTopologyBinding", alone.KeepBinding)
	if why := k.keep(); why != "" {
		t.Fatal(why)
	}
	if refs := read[grove.ClusterTopologyBinding](t, k.get()).Spec.SchedulerTopologyBindings; len(refs) != 0 {
		t.Errorf("references %v", refs)
	}
}

// TestGroveKeepsBindings: made with a reference to KAI's topology, brought in step in place, and left alone when another's.
func TestGroveKeepsBindings(t *testing.T) {
	k := newKeeping(t, "bound", "ClusterTopologyBinding", probed(t).KeepBinding)
	if why := k.keep(); why != "" {
		t.Fatal(why)
	}
	binding := read[grove.ClusterTopologyBinding](t, k.get())
	if refs := binding.Spec.SchedulerTopologyBindings; len(refs) != 1 || refs[0].TopologyReference != "bound" {
		t.Errorf("references %v", refs)
	}
	k.ct.Spec.Levels = k.ct.Spec.Levels[1:]
	if why := k.keep(); why != "" || k.get().GetUID() != binding.UID || len(read[grove.ClusterTopologyBinding](t, k.get()).Spec.Levels) != 3 {
		t.Errorf("levels changed: %s", why)
	}
	k.disown()
	k.ct.Spec.Levels = k.ct.Spec.Levels[1:]
	if why := k.keep(); !strings.Contains(why, "left alone") {
		t.Errorf("another's: %q", why)
	}
}
