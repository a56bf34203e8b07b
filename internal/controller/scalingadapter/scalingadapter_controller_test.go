// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalingadapter

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

func TestAdaptersFollowTheDeployment(t *testing.T) {
	w := newWorld(t, g(), group("Decode", 2, true), group("prefill", 1, false))

	t.Log("one adapter for each service that asks for one, with the service's replicas; a bare scalingAdapter asks for none")
	w.settle()
	w.hasAdapters("g-decode=2", "g-prefill=1")
	a := w.adapter("g-decode")
	if !metav1.IsControlledBy(a, g()) || a.Spec.DGDRef != (nvidiav1beta1.ScaledComponent{Name: "g", ComponentName: "Decode"}) {
		t.Errorf("g-decode is %+v", a)
	}
	w.active("g-decode", "True", "OwnsReplicas", "spec.components[Decode].replicas")

	t.Log("an autoscaler finds one pod per replica: of a multinode replica the leader")
	if want := "nvidia.com/dynamo-graph-deployment-name=g,trellis.dev/pod-index=0,trellis.dev/scaling-group=g-decode"; a.Status.Selector != want || a.Status.Replicas != 2 {
		t.Errorf("status = %+v, want 2 replicas and selector %s", a.Status, want)
	}
	if want, got := "nvidia.com/dynamo-graph-deployment-name=g,trellis.dev/scaling-group=g-prefill", w.adapter("g-prefill").Status.Selector; got != want {
		t.Errorf("selector = %s, want %s", got, want)
	}

	t.Log("one is deleted by hand: it comes back with the number of today")
	w.scale("g-decode", 6)
	w.settle()
	if err := w.Client.Delete(t.Context(), w.adapter("g-decode")); err != nil {
		t.Fatal(err)
	}
	w.settle()
	w.hasAdapters("g-decode=6", "g-prefill=1")

	t.Log("switched off: the adapter goes, its last number stays")
	w.edit(func(dgd *deployment) { dgd.Component("Decode").ScalingAdapter = nil })
	w.settle()
	w.hasAdapters("g-prefill=1")
	w.shows(map[string]int32{"Decode": 6, "prefill": 1, "Frontend": 3})

	t.Log("the deployment owns the number again; switched on once more, the adapter begins with it")
	w.edit(func(dgd *deployment) {
		dgd.Component("Decode").Replicas = ptr.To[int32](4)
		dgd.Component("Decode").ScalingAdapter = &nvidiav1beta1.ScalingAdapter{}
	})
	w.settle()
	w.hasAdapters("g-decode=4", "g-prefill=1")
}

func TestNumbersAreCarried(t *testing.T) {
	w := newWorld(t, g())
	w.settle()

	t.Log("a burst on two adapters is one write of the deployment")
	for n := range int32(50) {
		w.scale("g-decode", n)
		w.scale("g-prefill", 50-n)
	}
	w.writes = nil
	w.reconcile()
	slices.Sort(w.writes)
	if diff := cmp.Diff([]string{"patch g", "status g-decode"}, w.writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	w.shows(map[string]int32{"Decode": 49, "prefill": 1, "Frontend": 3})
	if at := w.adapter("g-decode").Status.LastScaleTime; at == nil || !at.Time.Equal(noon) {
		t.Errorf("lastScaleTime = %v, want noon", at)
	}
	if at := w.adapter("g-prefill").Status.LastScaleTime; at != nil {
		t.Errorf("lastScaleTime of the adapter that ended where it began = %v, want none", at)
	}
	w.settle()

	t.Log("to zero and back")
	for _, n := range []int32{0, 3} {
		w.scale("g-decode", n)
		w.settle()
		w.shows(map[string]int32{"Decode": n, "prefill": 1, "Frontend": 3})
	}

	t.Log("the deployment is overwritten, no webhook being there: the adapter's number comes back, the other service's edit stays")
	w.edit(func(dgd *deployment) {
		dgd.Component("Decode").Replicas, dgd.Component("Frontend").Replicas = ptr.To[int32](9), ptr.To[int32](9)
	})
	w.settle()
	w.shows(map[string]int32{"Decode": 3, "prefill": 1, "Frontend": 9})
}

func TestNumberIsNotCarriedOverANewerDeployment(t *testing.T) {
	w := newWorld(t, g())
	w.settle()
	w.scale("g-decode", 5)
	w.refuse = apierrors.NewConflict(nvidiav1beta1.GroupVersion.WithResource("x").GroupResource(), "g", errors.New("changed"))
	w.reconcile()
	w.shows(map[string]int32{"Decode": 2, "prefill": 1, "Frontend": 3})
	w.active("g-decode", "True", "OwnsReplicas", "")
	if at := w.adapter("g-decode").Status.LastScaleTime; at != nil {
		t.Errorf("lastScaleTime = %v though nothing was scaled", at)
	}
	w.refuse = nil
	w.settle()
	w.shows(map[string]int32{"Decode": 5, "prefill": 1, "Frontend": 3})
}

func TestRefusedNumbersAreReported(t *testing.T) {
	dgd := g()
	dgd.Component("Decode").Type, dgd.Component("Decode").Replicas = nvidiav1beta1.ComponentTypeEPP, ptr.To[int32](1)
	w := newWorld(t, dgd)
	w.settle()

	t.Log("a number that the service may not have")
	w.scale("g-decode", 3)
	w.settle()
	w.active("g-decode", "False", "ReplicasRefused", "the component keeps 1 replicas: 3 are refused")
	w.shows(map[string]int32{"Decode": 1, "prefill": 1, "Frontend": 3})

	t.Log("one that the cluster's own admission refuses: it is tried again, and said")
	w.refuse = apierrors.NewForbidden(nvidiav1beta1.GroupVersion.WithResource("x").GroupResource(), "g", errors.New("at most 4 replicas here"))
	w.scale("g-prefill", 8)
	if _, err := w.Reconcile(t.Context(), request); err == nil {
		t.Error("no error, so it is not tried again")
	}
	w.active("g-prefill", "False", "ReplicasRefused", "at most 4 replicas here")
	close(w.events.Events)
	if got := strings.Join(slices.Collect(drain(w.events.Events)), "\n"); strings.Count(got, "Warning ReplicasRefused") != 2 {
		t.Errorf("events:\n%s\nwant one for each adapter", got)
	}
}

// An API server or a webhook that fails has nothing against the number: it is tried again, and no event blames it.
func TestFailedWriteIsNoRefusal(t *testing.T) {
	w := newWorld(t, g())
	w.settle()
	w.scale("g-decode", 5)
	w.refuse = apierrors.NewInternalError(errors.New(`failed calling webhook "mutate.dynamographdeployment.trellis.dev": context deadline exceeded`))
	if _, err := w.Reconcile(t.Context(), request); err == nil {
		t.Error("no error, so it is not tried again")
	}
	w.active("g-decode", "True", "OwnsReplicas", "5 replicas are not written yet, and are retried")
	w.active("g-decode", "True", "OwnsReplicas", "failed calling webhook")
	w.refuse = nil
	w.settle()
	w.active("g-decode", "True", "OwnsReplicas", "")
	w.shows(map[string]int32{"Decode": 5, "prefill": 1, "Frontend": 3})
	close(w.events.Events)
	if got := slices.Collect(drain(w.events.Events)); len(got) > 0 {
		t.Errorf("events: %q, want none", got)
	}
}

func drain(c <-chan string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for e := range c {
			if !yield(e) {
				return
			}
		}
	}
}

func TestAdaptersOfOthers(t *testing.T) {
	named := func(name, dgd, component string, owner *metav1.OwnerReference) *adapter {
		a := &adapter{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}}
		a.Spec = nvidiav1beta1.DynamoGraphDeploymentScalingAdapterSpec{Replicas: 7, DGDRef: nvidiav1beta1.ScaledComponent{Name: dgd, ComponentName: component}}
		if owner != nil {
			a.OwnerReferences = []metav1.OwnerReference{*owner}
		}
		return a
	}
	earlier := ownerReference(g())
	earlier.UID = "g-0"

	cases := map[string]struct {
		there         *adapter
		status, words string
		adapters      []string
		decode        int32
	}{
		"written by hand under the right name: taken over, with its number": {
			named("g-decode", "g", "Decode", nil), "True", "follows this adapter", []string{"g-decode=7", "g-prefill=1"}, 7,
		},
		"written by hand under another name": {
			named("mine", "g", "Decode", nil), "False", `the component follows adapter "g-decode"`, []string{"g-decode=2", "g-prefill=1", "mine=7"}, 2,
		},
		"for a service that asks for none": {
			named("g-frontend", "g", "Frontend", nil), "False", "spec.components[Frontend].scalingAdapter", []string{"g-decode=2", "g-frontend=7", "g-prefill=1"}, 2,
		},
		"for a service that does not exist": {
			named("g-x", "g", "x", nil), "False", `no component "x"`, []string{"g-decode=2", "g-prefill=1", "g-x=7"}, 2,
		},
		"of an earlier deployment of this name: deleted, and one is made with the number of this one": {
			named("g-decode", "g", "Decode", &earlier), "True", "follows this adapter", []string{"g-decode=2", "g-prefill=1"}, 2,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, g(), c.there)
			w.settle()
			w.hasAdapters(c.adapters...)
			reason := map[string]string{"True": "OwnsReplicas", "False": "NotInUse"}[c.status]
			w.active(c.there.Name, c.status, reason, c.words)
			w.shows(map[string]int32{"Decode": c.decode, "prefill": 1, "Frontend": 3})
		})
	}

	t.Run("for a deployment that does not exist", func(t *testing.T) {
		w := newWorld(t, named("g-decode", "g", "Decode", nil))
		w.settle()
		w.active("g-decode", "False", "NotInUse", `no DynamoGraphDeployment "g"`)
	})

	t.Run("two deployments whose adapters have one name", func(t *testing.T) {
		other := named("g-decode", "g-de", "code", nil)
		w := newWorld(t, g(), other)
		w.settle()
		w.hasAdapters("g-decode=7", "g-prefill=1")
		w.shows(map[string]int32{"Decode": 2, "prefill": 1, "Frontend": 3})
	})
}

func TestRequestsReachTheDeployment(t *testing.T) {
	a := newAdapter(g(), "Decode", 1)
	if got := DeploymentOf(t.Context(), a); len(got) != 1 || got[0] != request {
		t.Errorf("got %v, want %v", got, request)
	}
	if got := slices.Sorted(maps.Keys(a.Labels)); len(got) != 2 {
		t.Errorf("labels %v", got)
	}
}
