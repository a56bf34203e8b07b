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

// AdmissionWait returns a message about the scheduling gates of other controllers, such as Kueue's, for which a replica waits; "" if its
// pods have none. A replica is planned only after these gates are removed, because the controller that removes them may also restrict the
// nodes. pods are the pods of the replica that have Trellis' own gate.
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

// OnlyAdmission reports whether all waiting replicas wait only for admission. If so, a change of the cluster's capacity does not concern
// them.
func OnlyAdmission(waiting []Waiting) bool {
	return !slices.ContainsFunc(waiting, func(w Waiting) bool { return w.Code != CodeWaitingForAdmission })
}

// admission holds the replicas of a graph that wait for other controllers.
type admission struct {
	// awaiting has a message for each replica whose pods have scheduling gates of other controllers (see [AdmissionWait]).
	awaiting map[Key]string
	// held are the gated pods, by ID, of the replicas that are not planned because they wait for other controllers.
	held map[string]*corev1.Pod
	// unadmitted lists the replicas that wait for other controllers.
	unadmitted []Waiting
}

// hold removes the replicas that wait for admission from the replicas to plan, and returns them. Replicas that are placed together wait
// together: if a replica of the base gang waits, all replicas of the graph wait. If one of the first replicas of a component waits, and
// they are placed together, all replicas of the component wait. Any other replica waits alone, and counts only when domains are compared.
func (a *admission) hold(graph *placement.Demand, gated map[string]*corev1.Pod) []Waiting {
	if len(a.awaiting) == 0 {
		return nil
	}
	if graph.Required != topology.NoLevel && graph.Anchor == nil {
		if why := a.headAwaits(true, graph.Components); why != "" {
			a.holdAll(why, graph.Components, gated)
			return a.unadmitted
		}
	}
	for i := range graph.Components {
		component := graph.Components[i : i+1]
		if why := a.headAwaits(false, component); why != "" {
			a.holdAll(why, component, gated)
			continue
		}
		a.holdEach(&component[0], gated)
	}
	return a.unadmitted
}

// headAwaits returns the message of the first replica that waits for admission, among replicas that are placed together. With base, these
// are the replicas of the base gang. Otherwise, they are the first replicas of a component. It returns "" when no such replica waits, or
// when the replicas are placed one by one.
func (a *admission) headAwaits(base bool, components []placement.Component) string {
	for i := range components {
		s := &components[i]
		n := s.Together(base)
		if n < 2 && !base {
			continue
		}
		for _, replica := range s.Waiting[:n] {
			if why := a.awaiting[Key{Component: s.Name, Ordinal: replica.Ordinal}]; why != "" {
				return why
			}
		}
	}
	return ""
}

// holdAll makes all replicas of components wait, with the same message.
func (a *admission) holdAll(why string, components []placement.Component, gated map[string]*corev1.Pod) {
	for i := range components {
		for _, replica := range components[i].Waiting {
			a.holdOne(components[i].Name, &replica, why, gated)
		}
		components[i].Waiting = nil
	}
}

// holdEach makes the replicas of a component wait that wait for admission themselves, and no other replicas.
func (a *admission) holdEach(s *placement.Component, gated map[string]*corev1.Pod) {
	for i := range s.Waiting {
		if why := a.awaiting[Key{Component: s.Name, Ordinal: s.Waiting[i].Ordinal}]; why != "" {
			a.holdOne(s.Name, &s.Waiting[i], why, gated)
			s.Waiting[i].Later = true
		}
	}
}

func (a *admission) holdOne(component string, replica *placement.Replica, why string, gated map[string]*corev1.Pod) {
	a.unadmitted = append(a.unadmitted, Waiting{Component: component, Ordinal: replica.Ordinal, Code: CodeWaitingForAdmission, Message: why})
	for _, pod := range replica.Pods {
		if one := gated[pod.ID]; one != nil {
			a.held[pod.ID] = one
		}
	}
}

// Held returns the gated pods of replicas that wait for admission, by ID. As a rule, no capacity is kept for them.
func (r *Request) Held() map[string]*corev1.Pod { return r.admission.held }

// Awaiting returns the replicas that wait for admission, separated into wanted and surplus ones.
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
