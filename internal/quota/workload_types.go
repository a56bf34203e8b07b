// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// WorkloadKind is what Kueue gives quota to.
var WorkloadKind = schema.GroupVersionKind{Group: "kueue.x-k8s.io", Version: "v1beta2", Kind: "Workload"}

// MaxPodSets is how many podsets the definition of a Workload allows.
const MaxPodSets = 18

// Workload has what Trellis sets and reads.
type Workload struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              WorkloadSpec   `json:"spec"`
	Status            WorkloadStatus `json:"status,omitzero"`
}

// WorkloadSpec is what quota is asked for. Kueue allows no change of the podsets, and of the queue only before there is quota.
type WorkloadSpec struct {
	QueueName string   `json:"queueName"`
	PodSets   []PodSet `json:"podSets"`
	// Priority is always set: Kueue ends with a panic where it is not.
	Priority         int32             `json:"priority"`
	PriorityClassRef *PriorityClassRef `json:"priorityClassRef,omitempty"`
	// Active is false on a Workload that gets no quota; nil is true.
	Active *bool `json:"active,omitempty"`
}

// PodSet is pods that are alike. Its name is the role that pods name in an annotation.
type PodSet struct {
	Name     string                 `json:"name"`
	Count    int32                  `json:"count"`
	Template corev1.PodTemplateSpec `json:"template"`
}

// PriorityClassRef is where the priority comes from.
type PriorityClassRef struct {
	Group string `json:"group"`
	Kind  string `json:"kind"`
	Name  string `json:"name"`
}

// WorkloadStatus is Kueue's.
type WorkloadStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	Admission  *Admission         `json:"admission,omitempty"`
	// AdmissionChecks are what has to be Ready, in addition to quota, before a Workload is admitted.
	AdmissionChecks []CheckState `json:"admissionChecks,omitempty"`
}

// Admission is where the quota is from.
type Admission struct {
	ClusterQueue      string             `json:"clusterQueue"`
	PodSetAssignments []PodSetAssignment `json:"podSetAssignments,omitempty"`
}

// PodSetAssignment has what Trellis looks at: the flavors by resource, and whether Kueue chose the nodes, too.
type PodSetAssignment struct {
	Name    string            `json:"name"`
	Flavors map[string]string `json:"flavors,omitempty"`

	TopologyAssignment map[string]any `json:"topologyAssignment,omitempty"`
}

// Types of conditions that Kueue sets.
const (
	workloadAdmitted = "Admitted"
	workloadReserved = "QuotaReserved"
	workloadEvicted  = "Evicted"
	workloadFinished = "Finished"
)

// reasonDeactivated is how the reasons begin for which Kueue evicts a Workload that is not active.
const reasonDeactivated = "Deactivated"

// Admitted reports whether Kueue lets the pods of a Workload run.
func (w *Workload) Admitted() bool {
	return meta.IsStatusConditionTrue(w.Status.Conditions, workloadAdmitted) && !meta.IsStatusConditionTrue(w.Status.Conditions,
		workloadEvicted)
}

// Finished reports whether Kueue ignores a Workload from now on: for example because its pods were others than it says.
func (w *Workload) Finished() bool {
	return meta.IsStatusConditionTrue(w.Status.Conditions, workloadFinished)
}

// usable reports whether pods can join a Workload.
func (w *Workload) usable() bool { return w.DeletionTimestamp == nil && !w.Finished() }

// BaseEnds reports whether the Workload of the first replicas of a deployment is on its way out: until it is gone no pod can join it, or
// the next one.
func BaseEnds(workloads []*Workload, groups []*trellisv1alpha1.ScalingGroup) bool {
	base := BaseAmong(workloads, groups)
	return base != nil && !base.usable()
}

// BaseAmong is the Workload of the first replicas of a deployment; nil where there is none.
func BaseAmong(workloads []*Workload, groups []*trellisv1alpha1.ScalingGroup) *Workload {
	return named(workloads, baseName(groups))
}

// named is the Workload of a name; nil where there is none.
func named(workloads []*Workload, name string) *Workload {
	if at := slices.IndexFunc(workloads, func(w *Workload) bool { return w.Name == name }); at >= 0 {
		return workloads[at]
	}
	return nil
}

// holdsQuota reports whether quota is set aside for a Workload.
func (w *Workload) holdsQuota() bool {
	return meta.IsStatusConditionTrue(w.Status.Conditions, workloadReserved)
}

// undecided reports whether Kueue has yet to answer whether a Workload has quota.
func (w *Workload) undecided() bool {
	return w.active() && w.usable() && meta.FindStatusCondition(w.Status.Conditions, workloadReserved) == nil &&
		!meta.IsStatusConditionTrue(w.Status.Conditions, workloadEvicted)
}

// placesPods reports whether Kueue has chosen nodes for the pods of a Workload, since a flavor names a topology.
func (w *Workload) placesPods() bool {
	if w.Status.Admission == nil {
		return false
	}
	for i := range w.Status.Admission.PodSetAssignments {
		if len(w.Status.Admission.PodSetAssignments[i].TopologyAssignment) > 0 {
			return true
		}
	}
	return false
}

// why is what Kueue says of a Workload that is not admitted: why it was evicted, or else why it has no quota.
func (w *Workload) why() string {
	if w.Follows() {
		return "it waits until the first replicas have quota"
	}
	if pause, is := w.paused(); is {
		return pause.String()
	}
	if !w.active() {
		return "it is deactivated, and asks for quota when its spec.active is true"
	}
	for _, kind := range []string{workloadFinished, workloadEvicted, workloadReserved, workloadAdmitted} {
		c := meta.FindStatusCondition(w.Status.Conditions, kind)
		if c == nil || c.Message == "" || kind == workloadEvicted && strings.HasPrefix(c.Reason, reasonDeactivated) {
			continue // it is active again, and Kueue keeps what was until it has quota
		}
		if (kind == workloadReserved || kind == workloadAdmitted) == (c.Status == metav1.ConditionFalse) {
			return c.Message
		}
	}
	return "Kueue has not processed it yet"
}
