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

// AdmissionWait returns the message that a replica waits for other controllers, such as Kueue, to remove their scheduling gates; "" if its
// pods have no such gates. A replica is planned only after these gates are removed, because the controller that removes them may also
// restrict the nodes for the pods. pods are the pods of the replica that have Trellis' own gate.
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

// OnlyAdmission reports whether all waiting replicas wait only for admission. If so, a change of the cluster's capacity does not help them.
func OnlyAdmission(waiting []Waiting) bool {
	return !slices.ContainsFunc(waiting, func(w Waiting) bool { return w.Code != CodeWaitingForAdmission })
}

// admission lists the replicas of a graph that wait for other controllers.
type admission struct {
	// awaiting has a message for each replica whose pods have scheduling gates of other controllers (see [AdmissionWait]).
	awaiting map[Key]string
	// held are the gated pods, by ID, of the replicas that are not planned because they wait for other controllers.
	held map[string]*corev1.Pod
	// unadmitted lists the replicas that wait for other controllers.
	unadmitted []Waiting
}

// hold removes the replicas that wait for admission from the replicas to plan, and returns them. If a replica of the base gang waits, all
// replicas of the graph wait. If the first replicas of a component are placed together and one of them waits, all replicas of the component
// wait. Any other replica waits alone, and the planner considers it only to compare domains.
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

// headAwaits checks replicas that are placed together, and returns the message of the first replica that waits for admission. If base is
// true, it checks the replicas of the base gang, else the first replicas of a component. It returns "" if none of them waits, or if the
// replicas are placed one by one.
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

// holdAll makes all replicas of the given components wait with one message.
func (a *admission) holdAll(why string, components []placement.Component, gated map[string]*corev1.Pod) {
	for i := range components {
		for _, replica := range components[i].Waiting {
			a.holdOne(components[i].Name, &replica, why, gated)
		}
		components[i].Waiting = nil
	}
}

// holdEach makes a replica of a component wait only if its own pods wait for admission.
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

// Held returns the gated pods of replicas that wait for admission, by ID. Usually, no capacity is reserved for these pods.
func (r *Request) Held() map[string]*corev1.Pod { return r.admission.held }

// Awaiting returns the replicas that wait for admission: first the wanted replicas, then the surplus replicas.
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
