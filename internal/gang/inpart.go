// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// inPart describes the partly released gangs of a graph.
type inPart struct {
	// gangs maps each replica with released pods to its gang, so that the remaining pods of an interrupted release join the same gang.
	gangs map[Key]string
	// halves are replicas whose pods all exist. Some of these pods are released, and the other pods are gated.
	halves map[Key]replicaState
	// rests are the replicas without released pods whose base gang is released in part.
	rests map[Key]baseRest
}

// Parted returns the released pods of replicas and base gangs that were never complete, if the plan refuses the other pods. It maps the IDs
// of the released pods to reasons.
func (p *inPart) Parted(a Answer) map[string]string {
	parted := map[string]string{}
	for _, w := range slices.Concat(a.Waiting, a.Surplus) {
		if w.Refusal == nil {
			continue
		}
		for _, pod := range annotated(p.rests[Key{Component: w.Component, Ordinal: w.Ordinal}].open) {
			parted[topology.PodID(pod)] = fmt.Sprintf("the rest of the base gang that %s goes with finds no capacity: %s", pod.Name, w.String())
		}
		half, is := p.halves[Key{Component: w.Component, Ordinal: w.Ordinal}]
		if !is || !half.neverWhole() {
			continue
		}
		for _, pod := range annotated(half.open) {
			parted[topology.PodID(pod)] = fmt.Sprintf("the rest of the replica of %s finds no capacity: %s", pod.Name, w.Message)
		}
	}
	return parted
}

// Halves returns the sorted names of the gangs that are released only in part and were never complete. It omits a base gang that was
// assigned after the given time, because failures before the assignment may belong to other releases.
func (p *inPart) Halves(before time.Time) []string {
	var gangs []string
	for _, rest := range p.rests {
		if !rest.since.After(before) {
			gangs = append(gangs, gangsOf(rest.open)...)
		}
	}
	for _, half := range p.halves {
		if half.neverWhole() {
			gangs = append(gangs, gangsOf(half.open)...)
		}
	}
	slices.Sort(gangs)
	return slices.Compact(gangs)
}

// annotated returns the pods with the annotation of their gang, that is, pods whose release the cache shows.
func annotated(pods []*corev1.Pod) []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool { return pod.Annotations[render.AnnotationGang] == "" })
}

func gangsOf(pods []*corev1.Pod) (names []string) {
	for _, pod := range annotated(pods) {
		names = append(names, pod.Annotations[render.AnnotationGang])
	}
	return names
}
