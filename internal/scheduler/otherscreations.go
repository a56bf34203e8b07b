// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/render"
)

// othersCreate is the time for which the pods of a gang may be created by another operator, after that has recorded the gang.
const othersCreate = 10 * time.Second

// takeOthersCreations adds the replicas without pods of gangs that another operator has recorded just now: it may create their pods at this
// moment. They keep the domain of their graph and component, and are not placed again meanwhile.
func (l *ledger) takeOthersCreations(o *gang.Observation, d *decision) {
	if o.Record == nil {
		return
	}
	exist := map[string]bool{}
	for _, pod := range o.Pods {
		exist[gang.Of(pod)] = true
	}
	for name, g := range o.Record.Gangs {
		until := g.Since.Add(othersCreate)
		if g.State != trellisv1alpha1.GangAssigned || l.assigned[d.graph][name] || !l.clock.Now().Before(until) {
			continue
		}
		for key, place := range g.Places {
			for _, sg := range o.Groups {
				first := &corev1.Pod{}
				if sg.Spec.Service != key.Component || !render.Gated(sg) {
					continue
				}
				first.Namespace, first.Labels = sg.Namespace, render.BuildPod(sg, int32(key.Ordinal), 0).Labels
				if exist[gang.Of(first)] {
					continue
				}
				if o.Creations == nil {
					o.Creations = gang.Creations{}
				}
				if o.Creations[sg.UID] == nil {
					o.Creations[sg.UID] = map[int32]*gang.Creation{}
				}
				o.Creations[sg.UID][int32(key.Ordinal)] = &gang.Creation{Placed: true, Domain: place.Domain}
				d.lookAt(until)
			}
		}
	}
}

// noteAssigned notes the gangs that this operator has recorded, and forgets those that have left the record.
func (l *ledger) noteAssigned(graph types.NamespacedName, d *decision) {
	of := l.assigned[graph]
	for name := range of {
		if _, recorded := d.record.Gangs[name]; !recorded {
			delete(of, name)
		}
	}
	for _, release := range d.releases {
		of = withGang(of, release.Pin.Gang)
	}
	for _, one := range d.creations {
		of = withGang(of, one.gang)
	}
	l.assigned[graph] = of
}

func withGang(of map[string]bool, name string) map[string]bool {
	if of == nil {
		of = map[string]bool{}
	}
	of[name] = true
	return of
}
