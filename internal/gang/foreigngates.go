// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// AdmissionWait is what a replica waits for when some of its pods have scheduling gates of other controllers, such as Kueue's; "" when none
// has. These gates come first: the controller that removes them may also restrict the nodes. The pods are those of one replica that
// Trellis' own gate holds.
func AdmissionWait(pods []*corev1.Pod) string {
	var first *corev1.Pod
	lowest := int32(0)
	for _, pod := range pods {
		_, index, _ := render.ReplicaOf(pod)
		if len(render.ForeignGates(pod)) > 0 && (first == nil || index < lowest) {
			first, lowest = pod, index
		}
	}
	if first == nil {
		return ""
	}
	gates := render.ForeignGates(first)
	if more := len(gates) - 1; more > 0 {
		return fmt.Sprintf("waits for admission: other controllers have to remove the scheduling gate %q and %d more from pod %s", gates[0],
			more, first.Name)
	}
	return fmt.Sprintf("waits for admission: another controller has to remove the scheduling gate %q from pod %s", gates[0], first.Name)
}

// OnlyAdmission reports whether of the replicas that wait, all wait for admission alone, so that no change of the cluster's capacity
// concerns them.
func OnlyAdmission(waiting []Waiting) bool {
	return !slices.ContainsFunc(waiting, func(w Waiting) bool { return w.Code != CodeWaitingForAdmission })
}

// holdForAdmission takes what waits for admission out of what is planned. What is placed together waits together: the base gang, and all
// that follows it, or the first replicas of a component. Any other replica waits alone, and counts only when domains are compared.
func (r *Request) holdForAdmission() {
	if len(r.awaiting) == 0 {
		return
	}
	if r.Graph.Required != topology.NoLevel && r.Graph.Anchor == nil {
		if why := r.headAwaits(true, r.Graph.Components); why != "" {
			r.holdAll(why, r.Graph.Components)
			return
		}
	}
	for i := range r.Graph.Components {
		component := r.Graph.Components[i : i+1]
		if why := r.headAwaits(false, component); why != "" {
			r.holdAll(why, component)
			continue
		}
		r.holdEach(&component[0])
	}
}

// headAwaits is what the first replicas of components wait for, which are placed together; "" when they do not wait, or are placed one by
// one.
func (r *Request) headAwaits(base bool, components []placement.Component) string {
	for i := range components {
		s := &components[i]
		n := s.Together(base)
		if n < 2 && !base {
			continue
		}
		for _, replica := range s.Waiting[:n] {
			if why := r.awaiting[Key{Component: s.Name, Ordinal: replica.Ordinal}]; why != "" {
				return why
			}
		}
	}
	return ""
}

// holdAll has every replica of components wait for one cause.
func (r *Request) holdAll(why string, components []placement.Component) {
	for i := range components {
		for _, replica := range components[i].Waiting {
			r.hold(components[i].Name, &replica, why)
		}
		components[i].Waiting = nil
	}
}

// holdEach has those replicas of a component wait that wait for admission themselves.
func (r *Request) holdEach(s *placement.Component) {
	for i := range s.Waiting {
		if why := r.awaiting[Key{Component: s.Name, Ordinal: s.Waiting[i].Ordinal}]; why != "" {
			r.hold(s.Name, &s.Waiting[i], why)
			s.Waiting[i].Later = true
		}
	}
}

func (r *Request) hold(component string, replica *placement.Replica, why string) {
	r.Unadmitted = append(r.Unadmitted, Waiting{Component: component, Ordinal: replica.Ordinal, Code: CodeWaitingForAdmission, Message: why})
	for _, pod := range replica.Pods {
		if gated := r.Gated[pod.ID]; gated != nil {
			r.held[pod.ID] = gated
		}
	}
}

// Held are the gated pods of replicas that wait for admission, by ID: no capacity is kept for them.
func (r *Request) Held() map[string]*corev1.Pod { return r.held }

// Awaiting are the replicas that wait for admission: those that are wanted, and those that are surplus.
func (r *Request) Awaiting() (wanted, surplus []Waiting) {
	for _, w := range r.Unadmitted {
		if r.Surplus(w.Component, w.Ordinal) {
			surplus = append(surplus, w)
		} else {
			wanted = append(wanted, w)
		}
	}
	return wanted, surplus
}
