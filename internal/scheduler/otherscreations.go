// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// othersCreate is the time for which the pods of a gang may be created by another operator, after that has recorded the gang.
const othersCreate = 10 * time.Second

// othersPlace is where another operator may be creating a replica, and until when.
type othersPlace struct {
	domain topology.Path
	until  time.Time
}

// takeOthersCreations adds the replicas without pods of gangs that another operator has recorded just now: it may create their pods at this
// moment. They keep the domain of their graph and component, and their hosts, and are not placed again meanwhile. Pods of earlier attempts
// are deleted, and those that follow them may be created as well.
func (l *ledger) takeOthersCreations(o *gang.Observation, d *decision) {
	theirs := l.recordedByOthers(o, d.graph)
	if len(theirs) == 0 {
		return
	}
	if o.Creations == nil {
		o.Creations = gang.Creations{}
	}
	for _, sg := range o.Groups {
		for key, place := range theirs {
			if sg.Spec.Service != key.Component || !render.Gated(sg) {
				continue
			}
			if o.Creations[sg.UID] == nil {
				o.Creations[sg.UID] = map[int32]*gang.Creation{}
			}
			o.Creations[sg.UID][int32(key.Ordinal)] = &gang.Creation{Placed: true, Domain: place.domain}
			d.lookAt(place.until)
		}
	}
	l.holdOthersCreations(*o, d.graph, theirs)
}

// recordedByOthers returns the replicas without pods that another operator has recorded in a gang just now.
func (l *ledger) recordedByOthers(o *gang.Observation, graph types.NamespacedName) map[gang.Key]othersPlace {
	theirs := map[gang.Key]othersPlace{}
	if o.Record == nil {
		return theirs
	}
	for _, g := range o.Record.Gangs {
		until := g.Since.Add(othersCreate)
		if g.State != trellisv1alpha1.GangAssigned || !l.clock.Now().Before(until) {
			continue
		}
		for key, place := range g.Places {
			if l.assigned[graph][key] != place.Attempt {
				theirs[key] = othersPlace{place.Domain, until}
			}
		}
	}
	if len(theirs) > 0 {
		for _, pod := range o.Pods {
			if !o.Leaves(pod) {
				delete(theirs, o.KeyOf(pod))
			}
		}
	}
	return theirs
}

// holdOthersCreations holds the recorded hosts of missing pods until the times of their replicas: another graph would get them otherwise.
func (l *ledger) holdOthersCreations(o gang.Observation, graph types.NamespacedName, theirs map[gang.Key]othersPlace) {
	for _, one := range gang.RecordedPods(o) {
		_, held := l.holds.byPod[one.Name]
		if place, is := theirs[one.Replica]; is && !held && one.UID == "" {
			l.holdRecordedPod(graph, one, place.until)
			l.wakeLoop() // it sets its timer by the holds
		}
	}
}
