// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/rollout"
)

// restartsOf returns, by component, the restart request for which the component's replicas are created. It derives the progress of a
// restart from the scaling groups: from the requests in their specs, and from their statuses.
//
//	Sequential   a component gets the request once all earlier components in the order serve again; its replicas are replaced
//	             within the bounds of an update
//	Parallel     all components stop; once no earlier replica of the graph is left, all start, perhaps in another graph domain.
//	             If a provider makes the pods itself, no component stops: all get the request at once, and the provider
//	             replaces the pods
//
// The groups keep a restart after it is complete and after the user has withdrawn the request, because removing it would restart the pods
// again.
func restartsOf(o observed) map[string]*trellisv1alpha1.Restart {
	out := map[string]*trellisv1alpha1.Restart{}
	for name, sg := range o.groups {
		if sg.Spec.Restart != nil {
			out[name] = &trellisv1alpha1.Restart{ID: sg.Spec.Restart.ID}
		}
	}
	ask := o.dgd.Spec.Restart
	switch {
	case ask == nil || restarted(o):
	case ask.Strategy != nil && ask.Strategy.Type == nvidiav1beta1.RestartStrategyParallel:
		restartAll(o, out, o.workload == nil)
	default:
		restartNext(o, out)
	}
	if ask != nil {
		for i := range o.dgd.Spec.Components {
			name := o.dgd.Spec.Components[i].Name
			if o.groups[name] == nil { // its pods will be new anyway
				out[name] = &trellisv1alpha1.Restart{ID: ask.ID}
			}
		}
	}
	return out
}

// maxRestartID is the maximum length of the restart request's ID in a message, in bytes.
const maxRestartID = 63

// defersRestart reports whether the restart request has to wait because an update is paused or limited to its partition. The restart would
// create replicas of the new generation. A Parallel restart that has already stopped components is not deferred, because these components
// would not start otherwise.
func defersRestart(o observed, wanted *render.Graph) bool {
	if wanted == nil || o.dgd.Spec.Restart == nil || restarted(o) || !holdsBack(o, wanted) {
		return false
	}
	asks := false
	for name, sg := range o.groups {
		if requested(o, name) && sg.Spec.Restart.Stop {
			return false
		}
		asks = asks || !requested(o, name)
	}
	return asks
}

// holdsBack reports whether the user has paused the update, or limited it to a part of the replicas.
func holdsBack(o observed, wanted *render.Graph) bool {
	control, _ := rollout.ControlOf(o.dgd)
	inGeneration := wanted.InGeneration()
	limited := control.Partition != nil && !wanted.RolledBack && rollout.Limits(componentsOf(o, wanted, inGeneration), *control.Partition)
	for i := range wanted.Components {
		s := &wanted.Components[i]
		if s.Step != nil && (s.Step.Paused || limited && slices.Contains(inGeneration, s)) {
			return true
		}
	}
	return false
}

// deferRestart withholds a deferred restart request from the components that do not have it yet, see [defersRestart].
func deferRestart(o observed, wanted *render.Graph) {
	if !defersRestart(o, wanted) {
		return
	}
	for i := range wanted.Components {
		s := &wanted.Components[i]
		sg := o.groups[s.Name]
		if sg == nil || requested(o, s.Name) {
			continue
		}
		if s.Restart = nil; sg.Spec.Restart != nil {
			s.Restart = &trellisv1alpha1.Restart{ID: sg.Spec.Restart.ID}
		}
	}
}

// restarted reports whether the restart is complete. A request from before the operator supported restarts counts as complete, so that it
// is not carried out later.
func restarted(o observed) bool {
	s := o.dgd.Status.Restart
	if s == nil {
		return o.dgd.Status.ObservedGeneration == o.dgd.Generation && !slices.ContainsFunc(restartOrder(o), func(name string) bool {
			return requested(o, name)
		})
	}
	return s.ObservedID == o.dgd.Spec.Restart.ID && s.Phase == nvidiav1beta1.RestartCompleted
}

// restartNext gives the request to the first component that does not have it, once all components before it serve again.
func restartNext(o observed, out map[string]*trellisv1alpha1.Restart) {
	for _, name := range restartOrder(o) {
		switch {
		case o.groups[name] == nil || back(o, name):
		case requested(o, name):
			return
		default:
			out[name] = &trellisv1alpha1.Restart{ID: o.dgd.Spec.Restart.ID}
			return
		}
	}
}

// restartAll gives the request to all components. It stops the components that do not have the request yet, and starts all components once
// all of them have stopped. If stops is false, no component is stopped.
func restartAll(o observed, out map[string]*trellisv1alpha1.Restart, stops bool) {
	allDown := true
	for name := range o.groups {
		allDown = allDown && requested(o, name) && (!o.groups[name].Spec.Restart.Stop || down(o.groups[name]))
	}
	for name, sg := range o.groups {
		stop := stops && (!requested(o, name) || sg.Spec.Restart.Stop && !allDown)
		out[name] = &trellisv1alpha1.Restart{ID: o.dgd.Spec.Restart.ID, Stop: stop}
	}
}

// restartOrder returns the requested order, or else the alphabetical order.
func restartOrder(o observed) []string {
	if s := o.dgd.Spec.Restart.Strategy; s != nil && len(s.Order) > 0 {
		return s.Order
	}
	return sortedNames(o)
}

// requested reports whether the component's ScalingGroup has the request for this restart.
func requested(o observed, name string) bool {
	sg := o.groups[name]
	return sg != nil && sg.Spec.Restart != nil && sg.Spec.Restart.ID == o.dgd.Spec.Restart.ID
}

// down reports whether the group has no replica from before the restart, other than terminating replicas. Replicas that were created for
// the restart do not count. They exist if one leader of the operator let the group start, and another leader with a stale cache stopped it
// again.
func down(sg *trellisv1alpha1.ScalingGroup) bool {
	return sg.Status.ObservedGeneration == sg.Generation && sg.Status.OutdatedReplicas == 0
}

// back reports whether the component was restarted and serves again.
func back(o observed, name string) bool {
	sg := o.groups[name]
	return requested(o, name) && !sg.Spec.Restart.Stop && sg.Status.ObservedGeneration == sg.Generation &&
		meta.IsStatusConditionTrue(sg.Status.Conditions, trellisv1alpha1.ConditionRolledOut)
}

// restartStatus returns the progress of the restart. A request that the user withdraws before its completion gets the phase Superseded. The
// request of a new deployment gets the phase Completed from the start.
func restartStatus(o observed) *nvidiav1beta1.RestartStatus {
	ask, before := o.dgd.Spec.Restart, o.dgd.Status.Restart
	if ask == nil {
		if before == nil || before.Phase == nvidiav1beta1.RestartCompleted {
			return before
		}
		return &nvidiav1beta1.RestartStatus{ObservedID: before.ObservedID, Phase: nvidiav1beta1.RestartSuperseded}
	}
	s := &nvidiav1beta1.RestartStatus{ObservedID: ask.ID, Phase: nvidiav1beta1.RestartCompleted}
	if len(o.groups) == 0 && before == nil || restarted(o) {
		return s
	}
	waiting := 0
	for _, name := range restartOrder(o) {
		switch {
		case back(o, name):
		case requested(o, name):
			s.InProgress = append(s.InProgress, name)
		default:
			waiting++
		}
	}
	switch {
	case waiting == len(restartOrder(o)):
		s.Phase = nvidiav1beta1.RestartPending
	case waiting > 0 || len(s.InProgress) > 0:
		s.Phase = nvidiav1beta1.RestartRestarting
	}
	return s
}
