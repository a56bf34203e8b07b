// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/cli/live"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/newpod"
	"github.com/trellis-k8s/trellis/internal/topology"
	"github.com/trellis-k8s/trellis/internal/turns"
)

// Queue is the report, and its JSON form.
type Queue struct {
	Waiting []Entry `json:"waiting"`
	// Missing lists the deployments whose status counts pods that do not exist, and whose condition Placed is not False.
	Missing []Missing `json:"missing,omitempty"`
	// Elsewhere counts the waiting deployments in namespaces that are not listed.
	Elsewhere int `json:"elsewhere,omitempty"`
	// Notes on the limits of the report.
	Notes []string `json:"notes,omitempty"`
	// Operator is present if the operator does not renew its Lease, or if its state is unknown.
	Operator *live.Heartbeat `json:"operator,omitempty"`

	only        string
	onlyMissing bool
	now         time.Time
}

// Entry is a deployment that is not completely placed.
type Entry struct {
	// Position in the order in which the operator plans the deployments that wait for capacity, starting at 1. It is 0 for deployments that
	// wait for admission, because the operator does not plan them.
	Position  int    `json:"position"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Priority is the lowest priority of the deployment's pods.
	Priority int32 `json:"priority"`
	// GPUs of the deployment; absent if the number cannot be determined, for example because its pods use device claims.
	*GPUs
	// Since is the time at which the deployment began to wait. Reason and Message are from the condition Placed.
	Since   metav1.Time `json:"since"`
	Reason  string      `json:"reason"`
	Message string      `json:"message"`
}

// Build lists the waiting deployments.
func Build(s Deployments) Queue {
	var line turns.Line
	found := map[[2]string]Entry{}
	var unadmitted []Entry
	for _, dgd := range s.Graphs {
		if !waits(dgd) || dgd.DeletionTimestamp != nil {
			continue
		}
		c := live.Placed(dgd)
		w := Entry{
			Namespace: dgd.Namespace, Name: dgd.Name, Priority: s.priority(dgd), GPUs: gpusOf(dgd), Since: c.LastTransitionTime,
			Reason: c.Reason, Message: c.Message,
		}
		if w.Reason == gang.CodeWaitingForAdmission {
			unadmitted = append(unadmitted, w)
			continue
		}
		found[[2]string{w.Namespace, w.Name}] = w
		line.Add(turns.Turn{Namespace: w.Namespace, Name: w.Name, Priority: w.Priority, Created: dgd.CreationTimestamp.Time})
	}
	r := Queue{Missing: s.missing(), Operator: s.Operator, only: s.Only, onlyMissing: s.OnlyMissing, now: s.Now}
	all := []Entry{}
	for next, ok := line.Next(); ok; next, ok = line.Next() {
		all = append(all, found[[2]string{next.Namespace, next.Name}])
	}
	for i := range all {
		all[i].Position = i + 1
	}
	slices.SortStableFunc(unadmitted, func(a, b Entry) int {
		return cmp.Or(a.Since.Compare(b.Since.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	all = append(all, unadmitted...)
	if s.Only != "" {
		waiting := len(all)
		all = slices.DeleteFunc(all, func(w Entry) bool { return !s.listed(w.Namespace) })
		r.Elsewhere = waiting - len(all)
	}
	r.Waiting = all
	if len(s.Denied) > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("You may not %s in the whole cluster, so the order is that of what you may see. "+
			"The ClusterRole trellis-planner-role has the missing rights.", s.Lacking()))
	}
	if s.PodsHidden {
		r.Notes = append(r.Notes, "You may not list pods in the whole cluster, so pods that are missing are not known.")
	}
	return r
}

// waits reports whether a deployment's condition Placed is False.
func waits(dgd *nvidiav1beta1.DynamoGraphDeployment) bool {
	return meta.IsStatusConditionFalse(dgd.Status.Conditions, nvidiav1beta1.ConditionPlaced)
}

// priority returns the priority of a deployment: the lowest priority of its components, because a component's podTemplate may name its own
// priority class.
func (s Deployments) priority(dgd *nvidiav1beta1.DynamoGraphDeployment) int32 {
	admission := newpod.Objects{PriorityClasses: s.Priorities}
	of := func(class string) int32 {
		pod := &corev1.Pod{Spec: corev1.PodSpec{PriorityClassName: class}}
		admission.Rank(pod)
		return topology.PriorityOf(pod)
	}
	var all []int32
	for i := range dgd.Spec.Components {
		class := dgd.Spec.PriorityClassName
		if t := dgd.Spec.Components[i].PodTemplate; t != nil {
			class = cmp.Or(t.Spec.PriorityClassName, class)
		}
		all = append(all, of(class))
	}
	if len(all) == 0 {
		return of(dgd.Spec.PriorityClassName)
	}
	return slices.Min(all)
}
