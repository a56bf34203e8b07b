// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// withFollowers adds all other gangs of a graph to those that are evicted, if its base gang is one of these and the graph does not run
// without it. A base gang is evicted only before all of it was bound. For one that finds capacity elsewhere nothing else leaves.
func (l *ledger) withFollowers(o gang.Observation, gangs map[string]eviction) {
	name, base := client.ObjectKeyFromObject(o.DGD), gang.BaseGang(o.Pods)
	why, evicted := gangs[base]
	if base == "" || !evicted {
		return
	}
	if why.reason == ReasonElsewhere || gang.RunsWithout(o, func(of string) bool { return gangs[of].why != "" }) {
		delete(l.baseEvictions, name)
		return
	}
	if before := l.baseEvictions[name]; before.gang != base || before.begun.IsZero() {
		l.baseEvictions[name] = baseEviction{gang: base, why: why}
	}
	addFollowers(o, gangs, l.baseEvictions[name])
}

// addFollowers adds the gangs of a graph of which something is released.
func addFollowers(o gang.Observation, gangs map[string]eviction, base baseEviction) {
	for _, pod := range o.Pods {
		of := pod.Annotations[render.AnnotationGang]
		if _, ours := gangs[of]; ours || of == "" || render.GateClosed(pod) || gang.Leaving(pod) {
			continue
		}
		why := base.why
		if of != base.gang {
			why = eviction{reason: why.reason, why: "the base gang of its graph is evicted: " + why.why, follows: true}
		}
		gangs[of] = why
	}
}

// continued are the remaining gangs of a graph whose base gang is evicted, including what was being released meanwhile; none when nothing
// is left, the graph runs with what is left, or the eviction has been tried for a long time.
func (l *ledger) continued(o gang.Observation) map[string]eviction {
	name, gangs := client.ObjectKeyFromObject(o.DGD), map[string]eviction{}
	base, is := l.baseEvictions[name]
	if !is || base.begun.IsZero() {
		return nil
	}
	addFollowers(o, gangs, base)
	if len(gangs) == 0 || l.clock.Since(base.begun) > servedPatience*l.options.RequeueAfter ||
		gang.RunsWithout(o, func(of string) bool { return of == base.gang }) {
		delete(l.baseEvictions, name)
		return nil
	}
	return gangs
}

// notBegun ends what is decided of a base gang of which no pod could be evicted: nothing stands against it any more.
func (l *ledger) notBegun(name types.NamespacedName) {
	if l.baseEvictions[name].begun.IsZero() {
		delete(l.baseEvictions, name)
	}
}

// releases reports whether something of a graph is being released, or created in place, that the observation does not show yet.
func (l *ledger) releases(o gang.Observation) bool {
	return l.options.Creations.underWay(client.ObjectKeyFromObject(o.DGD)) || slices.ContainsFunc(o.Pods, func(pod *corev1.Pod) bool {
		record := l.pods.of(topology.PodID(pod))
		return record.releasing && !record.failed && render.GateClosed(pod)
	})
}

// baseEvicted notes that a pod of a gang is evicted.
func (l *ledger) baseEvicted(o gang.Observation, of string) {
	name := client.ObjectKeyFromObject(o.DGD)
	if base, is := l.baseEvictions[name]; is && base.gang == of && base.begun.IsZero() {
		base.begun = l.clock.Now()
		l.baseEvictions[name] = base
	}
}
