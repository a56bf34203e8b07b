// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"slices"

	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
	"github.com/trellis-k8s/trellis/internal/whatif"
)

// Maximum numbers of details about one reason: hosts to free, pods on such a host, scarce resources, and reasons of excluded hosts.
const (
	maxHosts     = 64
	maxOccupants = 64
	maxShort     = 4
	maxExcluded  = 6
)

// CausesOf explains why replicas are not placed. Replicas with the same message share a cause. most is the maximum number of hosts to free
// that a cause lists.
func CausesOf(planner *whatif.Planner, plan whatif.Plan, most int) []Cause {
	list := []Cause{}
	at := map[string]int{}
	for _, r := range plan.Replicas {
		if r.Reason == nil {
			continue
		}
		key := r.Reason.Code + "\x00" + r.Reason.Message
		i, known := at[key]
		if !known {
			i = len(list)
			at[key] = i
			w := Cause{Reason: r.Reason.Code, Message: r.Reason.Message}
			if refusal := r.Reason.Refusal; refusal != nil {
				w.numbers(refusal)
				if w.Tables = tablesOf(refusal); len(w.Tables) > 0 || refusal.Code == placement.CodeBaseGangWaits {
					w.Asks = refusal.Asks()
				}
				if refusal.Code == placement.CodeBaseGangWaits && follows(plan, refusal) {
					w.Message = w.Asks
				}
				if refusal.Code != placement.CodeBaseGangWaits { // the base gang's cause has them
					domain, obstacles, places := planner.Obstacles(plan, refusal)
					w.free(domain, obstacles, most)
					w.places = places
					w.advice = freeingAdvice(refusal, domain, obstacles)
				}
			}
			list = append(list, w)
		}
		list[i].add(r.Component, r.Ordinal)
	}
	for i := range list {
		list[i].fits()
	}
	return list
}

// fits sets FreeingFits to the replicas that are placed once the hosts are free. It leaves FreeingFits empty if these are all replicas of
// the cause.
func (w *Cause) fits() {
	if len(w.Freeing) == 0 {
		return
	}
	var fit []Gangs
	all := true
	for _, g := range w.Who {
		there := slices.DeleteFunc(slices.Clone(g.Replicas), func(n int) bool { return !slices.Contains(w.places[g.Component], n) })
		if all = all && len(there) == len(g.Replicas); len(there) > 0 {
			fit = append(fit, Gangs{g.Component, there})
		}
	}
	if !all {
		w.FreeingFits = fit
	}
}

// follows reports whether the plan already shows the message of r.Cause for a replica. The message of r then need not repeat that message.
func follows(plan whatif.Plan, r *placement.Refusal) bool {
	return r.Cause != nil && slices.ContainsFunc(plan.Replicas, func(one whatif.Replica) bool {
		return one.Reason != nil && one.Reason.Refusal != nil && one.Reason.Message == r.Cause.Message()
	})
}

func (w *Cause) add(component string, ordinal int) {
	if last := len(w.Who) - 1; last >= 0 && w.Who[last].Component == component {
		w.Who[last].Replicas = append(w.Who[last].Replicas, ordinal)
		return
	}
	w.Who = append(w.Who, Gangs{component, []int{ordinal}})
}

// numbers copies the demand, the level and the closest domain from a refusal into the cause.
func (w *Cause) numbers(r *placement.Refusal) {
	for _, n := range r.Need {
		w.Need = append(w.Need, Need{Pods: n.Pods, Requests: requests(n.Requests)})
	}
	w.Level, w.Within, w.OthersEqual, w.OthersFewer = r.LevelName, r.Within.String(), r.OthersEqual, r.OthersFewer
	c := r.Closest
	if c == nil {
		return
	}
	w.Closest = &Closest{Domain: c.Domain.String(), Holds: c.Holds, Of: c.Of, Hosts: c.Hosts}
	for _, e := range c.Excluded[:min(len(c.Excluded), maxExcluded)] {
		w.Closest.Excluded = append(w.Closest.Excluded, Excluded{e.Reason.String(), e.Hosts})
	}
	for _, s := range c.Short[:min(len(c.Short), maxShort)] {
		w.Closest.Short = append(w.Closest.Short, Short{Resource: s.Resource, Free: s.Have, Largest: s.Largest, Need: s.Need})
	}
}

func requests(list []topology.Request) map[string]int64 {
	out := map[string]int64{}
	for _, r := range list {
		out[r.Name] = r.Amount
	}
	return out
}

// free lists the hosts to free.
func (w *Cause) free(domain topology.Path, obstacles []whatif.Obstacle, most int) {
	w.FreeingDomain = domain.String()
	for i, o := range obstacles {
		if i == most {
			w.FreeingMore = len(obstacles) - i
			return
		}
		h := Host{Name: o.Node, Reason: o.Why.String(), Remedy: remedy(o)}
		for j, pod := range o.Pods {
			if j == maxOccupants {
				h.PodsMore = len(o.Pods) - j
				break
			}
			h.Pods = append(h.Pods, Occupant{Pod: pod.String(), Resource: pod.Resource, Amount: pod.Amount, Planned: pod.Planned})
		}
		w.Freeing = append(w.Freeing, h)
	}
}
