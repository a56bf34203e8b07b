// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package whatif

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// readOccupants records the removable pods on the hosts. It omits the graph's own pods.
func (t *trial) readOccupants(list []Obstacle) {
	found := map[string][]Occupant{}
	for _, o := range list {
		found[o.Node] = nil
	}
	add := func(node string, o Occupant) {
		if !t.own[o.NamespacedName] {
			found[node] = append(found[node], o)
		}
	}
	for _, pod := range t.world.Pods {
		if _, wanted := found[pod.Spec.NodeName]; !wanted {
			continue
		}
		if _, counts := t.cluster.Bound(topology.PodID(pod)); counts { // it has not finished, and was not removed before
			if o, leaves := t.occupant(pod); leaves {
				add(pod.Spec.NodeName, o)
			}
		}
	}
	t.cluster.Reservations(func(id, node string, s *topology.Shape) {
		if _, wanted := found[node]; wanted {
			o, leaves := Occupant{NamespacedName: t.nameOf(id), id: id, requests: s.Requests()}, true
			if pod := t.index.byID[id]; pod != nil {
				o, leaves = t.occupant(pod)
			}
			if o.Planned = true; leaves {
				add(node, o)
			}
		}
	})
	maps.Copy(t.occupants, found)
}

// present returns the occupants of a host that the trial has not removed yet.
func (t *trial) present(node string) []Occupant {
	return slices.DeleteFunc(slices.Clone(t.occupants[node]), func(o Occupant) bool {
		_, bound := t.cluster.Bound(o.id)
		_, reserved := t.cluster.Reserved(o.id)
		return !bound && !reserved
	})
}

// nameOf returns the name of the existing or future pod that has this ID.
func (p *Planner) nameOf(id string) types.NamespacedName {
	if name, known := p.index.names[id]; known {
		return name
	}
	namespace, name, _ := strings.Cut(id, "/")
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// chosen returns the fewest pods that free enough of a host's missing resource. It prefers the smallest pod that suffices alone. Without
// such a pod, it chooses the largest pods. It returns false if all pods together do not suffice.
func chosen(pods []Occupant, why topology.Exclusion) (some []Occupant, enough bool) {
	var using []Occupant
	for _, pod := range pods {
		if pod.Resource, pod.Amount = why.Detail, amount(pod.requests, why.Detail); pod.Amount > 0 {
			using = append(using, pod)
		}
	}
	slices.SortFunc(using, func(a, b Occupant) int {
		return cmp.Or(cmp.Compare(b.Amount, a.Amount), strings.Compare(a.String(), b.String()))
	})
	short := why.Need - why.Have
	for _, pod := range slices.Backward(using) {
		if pod.Amount >= short {
			return []Occupant{pod}, true
		}
	}
	for _, pod := range using {
		if short <= 0 {
			break
		}
		some, short = append(some, pod), short-pod.Amount
	}
	return some, short <= 0
}

func amount(requests []topology.Request, resource string) int64 {
	if resource == string(corev1.ResourcePods) {
		return 1
	}
	for _, r := range requests {
		if r.Name == resource {
			return r.Amount
		}
	}
	return 0
}
