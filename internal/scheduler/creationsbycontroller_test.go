// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// creating is a bench whose groups ask for places.
type creating struct {
	*bench
	creations *Creations
	// told are the groups that were reconciled for an answer.
	told map[string]bool
}

func newCreating(t *testing.T) *creating {
	w := &creating{told: map[string]bool{}}
	w.creations = NewCreations(func(group types.NamespacedName) { w.told[group.Name] = true })
	w.bench = newBench(t, Options{Creations: w.creations})
	return w
}

// planned is a graph of one replica of so many pods in one rack, of which nothing exists.
func planned(number int, pods int32) gang.Observation {
	o := asking(number, pods, 0)
	o.Pods = nil
	return o
}

// plannedBase is a graph in one rack with two components of a replica with so many pods each.
func plannedBase(pods int32) gang.Observation {
	o := planned(1, pods)
	o.Groups = nil
	for _, component := range []string{"decode", "prefill"} {
		sg := newGroup(component, 1, pods, frozen("rack", ""))
		sg.Spec.Graph = o.DGD.Name
		o.Groups = append(o.Groups, sg)
	}
	return o
}

// ask asks for all replicas of groups, which have so few pods.
func (w *creating) ask(groups ...*trellisv1alpha1.ScalingGroup) map[string]string {
	answers := map[string]string{}
	for _, sg := range groups {
		for ordinal, answer := range w.creations.Ask(sg, wantsOf(sg, sg.Spec.Replicas, 0)) {
			answers[fmt.Sprintf("%s-%d", sg.Spec.Service, ordinal)] = inWords(answer)
		}
	}
	return answers
}

func wantsOf(sg *trellisv1alpha1.ScalingGroup, replicas, priority int32) []Want {
	var wants []Want
	for ordinal := range replicas {
		wants = append(wants, Want{Ordinal: ordinal, Pods: func() []*corev1.Pod {
			var pods []*corev1.Pod
			for index := range render.PodsPerReplica(sg) {
				pod := withGPU(render.BuildPod(sg, ordinal, index))
				pod.Spec.SchedulingGates, pod.Spec.Priority = nil, ptr.To(priority)
				pods = append(pods, pod)
			}
			return pods
		}})
	}
	return wants
}

func inWords(answer Answer) string {
	switch {
	case answer.Gated:
		return "gated"
	case answer.Offer == nil:
		return "wait"
	}
	racks := map[string]bool{}
	for _, release := range answer.Offer.Releases {
		racks[release.Pin.Labels["r"]] = true
	}
	where := strings.Join(slices.Sorted(maps.Keys(racks)), "+")
	return fmt.Sprintf("%d pods in %s", len(answer.Offer.Releases), where)
}

func (w *creating) offerOf(sg *trellisv1alpha1.ScalingGroup) *Offer {
	w.t.Helper()
	offer := w.creations.Ask(sg, wantsOf(sg, 1, 0))[0].Offer
	if offer == nil {
		w.t.Fatalf("group %s has no offer", sg.Name)
	}
	return offer
}

// look has a graph looked at, as the loop does.
func (w *creating) look(o gang.Observation) decision {
	d := w.decide(o)
	w.s.writers.answer(w.t.Context(), o.DGD, w.creations, &d)
	return d
}

// create creates the pods of an offer, as they would be stored.
func (w *creating) create(sg *trellisv1alpha1.ScalingGroup, offer *Offer) (pods []*corev1.Pod) {
	w.t.Helper()
	if !w.creations.Begin(offer) {
		w.t.Fatalf("the offer of %s has ended", sg.Name)
	}
	for _, index := range slices.Sorted(maps.Keys(offer.Releases)) {
		release := offer.Releases[index]
		pod := release.Pod.DeepCopy()
		pod.UID = types.UID("made-" + offer.Creation + "-" + pod.Name)
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: "ScalingGroup", Name: sg.Name, UID: sg.UID, Controller: ptr.To(true)}}
		pod.Annotations = map[string]string{render.AnnotationGang: offer.Gang}
		pod.Spec.NodeSelector = release.Pin.Labels
		if !w.creations.Created(offer, pod) {
			w.t.Fatalf("pod %s is not of its gang any more", pod.Name)
		}
		pods = append(pods, pod)
	}
	w.creations.Made(offer)
	return pods
}

// reserved are the reservations by host, each by the name of its pod, and whether it stands for one that does not exist.
func (w *creating) reserved() map[string]string {
	out := map[string]string{}
	w.s.ledger.cluster.Reservations(func(id, node string, _ *topology.Shape) {
		name := id[strings.LastIndex(id, "/")+1:]
		if !strings.HasPrefix(id, "creation/") {
			name = "made"
		}
		out[node] = name
	})
	return out
}
