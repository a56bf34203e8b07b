// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/graph"
	"github.com/trellis-k8s/trellis/internal/provider/external"
	"github.com/trellis-k8s/trellis/internal/provider/kai"
	"github.com/trellis-k8s/trellis/internal/provider/lws"
	"github.com/trellis-k8s/trellis/internal/provider/providertest"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
)

const inSets = `
metadata: {name: g, namespace: NS, annotations: {trellis.dev/workload: LeaderWorkerSet, nvidia.com/dynamo-discovery-backend: etcd}}
spec:
  topologyConstraint: {topologyProfile: NS, packDomain: zone}
  services:
    Decode:
      componentType: worker
      replicas: 2
      multinode: {nodeCount: 3}
      topologyConstraint: {packDomain: rack}
      resources: {limits: {gpu: "8"}}
      extraPodSpec: {mainContainer: {image: registry.example/image:1, command: [python3, -m, dynamo.sglang], args: [--tp, "24"]}}`

const placedYes = "True AllReplicasPlaced: "

// TestLeaderWorkerSetLife takes a deployment under Gates through its life with LeaderWorkerSets as its workload: made, gated until whole,
// placed, counted, scaled, updated, restarted, a pod lost, the API off and on, and deleted.
func TestLeaderWorkerSetLife(t *testing.T) {
	w := newLWSWorld(t, "life")
	w.held["g-decode-r1-0-2"] = true
	dgd := made(t, providertest.Deployment(t, strings.ReplaceAll(inSets, "NS", w.ns)))

	w.until("two sets; the base gang is released, and the replica of which a worker is missing is not", "0: 3 pods, 3 released, 0 bound, 1 racks; 1: 2 pods, 0 released, 0 bound, 0 racks", w.replicas)
	w.until("the provider says who makes the pods", "True ProviderAvailable: Gates, chosen by default; multinode services have the workload LeaderWorkerSet", func() string {
		return w.condition(nvidiav1alpha1.ConditionProviderReady)
	})
	for ordinal, name := range []string{"g-decode-r0", "g-decode-r1"} {
		have, want := w.set(name), w.wanted(int32(ordinal))
		if at := external.Missing(want, have); at != "" {
			t.Errorf("%s: %s differs from what is rendered", name, at)
		}
		if at := external.Missing(have, want); at != "" {
			t.Errorf("%s: %s is not rendered", name, at)
		}
		if !metav1.IsControlledBy(have, w.group()) || !metav1.IsControlledBy(w.group(), dgd) {
			t.Errorf("%s does not belong to the scaling group, or that to the deployment: %v", name, have.GetOwnerReferences())
		}
	}
	for _, pod := range w.pods() {
		if metav1.GetControllerOf(pod).Kind != "StatefulSet" {
			t.Errorf("pod %s is one of our own: %v", pod.Name, pod.OwnerReferences)
		}
	}

	delete(w.held, "g-decode-r1-0-2")
	w.until("whole: each replica is released into one rack of its own", "0: 3 pods, 3 released, 0 bound, 1 racks; 1: 3 pods, 3 released, 0 bound, 1 racks", w.replicas)
	w.run()
	w.until("bound and ready", "2 there, 2 updated, 2 ready", w.counts)
	w.until("placed", "2 of 2", w.placements)
	if got := w.condition(nvidiav1alpha1.ConditionPlaced); !strings.HasPrefix(got, placedYes) {
		t.Errorf("Placed is %s", got)
	}
	first := w.uids()
	version := w.set("g-decode-r0").GetResourceVersion()

	w.scale(1)
	w.until("scaled in: the younger set goes with its pods, the other is left alone", "g-decode-r0", w.sets)
	w.until("counted", "1 there, 1 updated, 1 ready", w.counts)
	if w.set("g-decode-r0").GetResourceVersion() != version || w.uids()["g-decode-r0-0-1"] != first["g-decode-r0-0-1"] {
		t.Error("the other replica was touched")
	}
	if got := w.replicas(); got != "0: 3 pods, 3 released, 3 bound, 1 racks" {
		t.Errorf("pods are left: %s", got)
	}

	w.scale(2)
	w.until("scaled out: released into one rack", "0: 3 pods, 3 released, 3 bound, 1 racks; 1: 3 pods, 3 released, 0 bound, 1 racks", w.replicas)
	w.run()
	w.until("ready again", "2 there, 2 updated, 2 ready", w.counts)

	w.until("placed", "2 of 2", w.placements)
	before, place := w.uids(), w.group().Status.Placements
	w.must(typed.Delete(t.Context(), w.find("g-decode-r1-0-2"), ctrl.GracePeriodSeconds(0)))
	w.replaced("a pod is lost: its replica is recreated, whole", before, "g-decode-r1")
	w.run()
	w.until("ready again", "2 there, 2 updated, 2 ready", w.counts)
	w.until("placed", "2 of 2", w.placements)
	if diff := cmp.Diff(place, w.group().Status.Placements); diff != "" {
		t.Errorf("it did not return to its rack (-before +after):\n%s", diff)
	}
	if w.uids()["g-decode-r0-0"] != first["g-decode-r0-0"] {
		t.Error("the other replica was touched")
	}

	before = w.uids()
	w.change(func(dgd *nvidiav1alpha1.DynamoGraphDeployment) {
		dgd.Spec.Services["Decode"].ExtraPodSpec.MainContainer.Args = []string{"--tp", "24", "--verbose"}
	})
	w.rolls("updated", before)

	before = w.uids()
	w.change(func(dgd *nvidiav1alpha1.DynamoGraphDeployment) {
		dgd.Spec.Restart = &nvidiav1alpha1.Restart{ID: "now"}
	})
	w.rolls("restarted", before)

	t.Log("the API is switched off")
	t.Cleanup(func() { serve(w.T, lws.Kind.Kind, true) })
	before = w.uids()
	serve(w.T, lws.Kind.Kind, false)
	w.until("it is reported", "False APINotServed", func() string { return firstTwo(w.condition(nvidiav1alpha1.ConditionProviderReady)) })
	w.scale(3)
	w.until("the third replica waits, and it is said for what", "False ProviderNotReady: 2 of 3 packed replicas are placed. Decode-2: leaderworkersets.leaderworkerset.x-k8s.io is not served in version v1; install LeaderWorkerSet", func() string {
		return w.condition(nvidiav1alpha1.ConditionPlaced)
	})
	if now := w.uids(); len(now) != len(before) || now["g-decode-r1-0-1"] != before["g-decode-r1-0-1"] {
		t.Error("what runs was touched")
	}
	serve(w.T, lws.Kind.Kind, true)
	w.until("it is back: the third replica is made and released", "0: 3 pods, 3 released, 3 bound, 1 racks; 1: 3 pods, 3 released, 3 bound, 1 racks; 2: 3 pods, 3 released, 0 bound, 1 racks", w.replicas)
	for name, uid := range before {
		if w.uids()[name] != uid {
			t.Errorf("pod %s was replaced", name)
		}
	}
}

// TestLeaderWorkerSetLifeUnderKAI: the pods of sets are released as members of the deployment's PodGroup.
func TestLeaderWorkerSetLifeUnderKAI(t *testing.T) {
	w := newLWSWorld(t, "life-kai")
	dgd := providertest.Deployment(t, strings.ReplaceAll(inSets, "NS", w.ns))
	dgd.Annotations[graph.AnnotationProvider] = specs.KAI.Name
	made(t, dgd)
	w.until("whole and released", "0: 3 pods, 3 released, 0 bound, 1 racks; 1: 3 pods, 3 released, 0 bound, 1 racks", w.replicas)
	group, err := client.Resource(resources["PodGroup"]).Namespace(w.ns).Get(t.Context(), "g", metav1.GetOptions{})
	w.must(err)
	want := strings.ReplaceAll(`g needs 1 in one NS.zone
  g-decode-all needs 1
    g-decode-0 pods 3 in one NS.rack
    g-decode-1 pods 3 in one NS.rack
`, "NS", w.ns)
	if diff := cmp.Diff(want, strings.ReplaceAll(providertest.SketchKAI(read[kai.PodGroup](t, group)), "example.com/", "")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, pod := range w.pods() {
		if pod.Spec.SchedulerName != kai.SchedulerName || pod.Annotations[kai.AnnotationPodGroup] != "g" || pod.Annotations[kai.AnnotationSkipGrouper] != "true" ||
			pod.Labels[kai.LabelSubGroup] != "g-decode-"+pod.Labels[graph.LabelReplica] {
			t.Errorf("pod %s: scheduler %q, labels %v, annotations %v", pod.Name, pod.Spec.SchedulerName, pod.Labels, pod.Annotations)
		}
	}
}

// uids of the pods by name.
func (w *lwsWorld) uids() map[string]types.UID {
	w.Helper()
	out := map[string]types.UID{}
	for _, pod := range w.pods() {
		out[pod.Name] = pod.UID
	}
	return out
}

func (w *lwsWorld) find(name string) *corev1.Pod {
	w.Helper()
	pod := &corev1.Pod{}
	w.must(typed.Get(w.Context(), types.NamespacedName{Namespace: w.ns, Name: name}, pod))
	return pod
}

func (w *lwsWorld) scale(replicas int32) {
	w.Helper()
	w.change(func(dgd *nvidiav1alpha1.DynamoGraphDeployment) {
		dgd.Spec.Services["Decode"].Replicas = ptr.To(replicas)
	})
}

// placements says of how many replicas with a known place all pods are bound in it.
func (w *lwsWorld) placements() string {
	bound := 0
	for _, p := range w.group().Status.Placements {
		if p.Bound && strings.HasPrefix(p.Domain, "z/b/r") {
			bound++
		}
	}
	return string(rune('0'+bound)) + " of " + string(rune('0'+len(w.group().Status.Placements)))
}

// replaced waits until every pod of a set is another one, and released.
func (w *lwsWorld) replaced(title string, before map[string]types.UID, set string) {
	w.Helper()
	w.until(title, "3 new, released", func() string {
		fresh := 0
		for _, pod := range w.pods() {
			if strings.HasPrefix(pod.Name, set+"-") && pod.UID != before[pod.Name] && !graph.GateClosed(pod) {
				fresh++
			}
		}
		return string(rune('0'+fresh)) + " new, released"
	})
}

// rolls waits until every pod is another one and serves; meanwhile one replica serves at any time.
func (w *lwsWorld) rolls(title string, before map[string]types.UID) {
	w.Helper()
	w.until(title+": one set after the other", "all new, 2 there, 2 updated, 2 ready", func() string {
		w.run()
		serving, fresh := map[string]int{}, "all new"
		for _, pod := range w.pods() {
			if pod.UID == before[pod.Name] {
				fresh = "not all new"
			}
			if pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil {
				serving[pod.Labels[graph.LabelReplica]]++
			}
		}
		if serving["0"] < 3 && serving["1"] < 3 {
			w.Fatalf("%s: no replica serves: %s", title, w.replicas())
		}
		return fresh + ", " + w.counts()
	})
}

func firstTwo(condition string) string { return strings.SplitN(condition, ":", 2)[0] }
