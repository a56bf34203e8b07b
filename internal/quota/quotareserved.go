// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
)

// maxKueueMessage bounds the length of a copied Kueue message, in bytes.
const maxKueueMessage = 512

// Report is the content of the condition QuotaReserved.
type Report struct {
	Reserved        bool
	Reason, Message string
	// Undecided: all Workloads that are not admitted are waiting for Kueue's decision or do not exist yet. This state is usually brief.
	Undecided bool
}

// Refused returns the reason why Trellis requests no quota for a deployment; nil if it requests quota.
func (o *Observation) Refused() *Report {
	for _, sg := range o.Groups {
		if by := madeBy(sg); by != "" {
			return &Report{Reason: nvidiav1beta1.ReasonProviderUnsupported, Message: fmt.Sprintf(
				"the pods of %s are made by %s, so Trellis cannot hold them for quota; use the provider Gates, PodGroup or KAI with Trellis' own "+
					"pods, or remove the label %s",
				sg.Spec.Component, by, labelQueue)}
		}
	}
	if n := rolesInBase(o.Groups); n > MaxPodSets {
		return &Report{Reason: nvidiav1beta1.ReasonTooManyRoles, Message: fmt.Sprintf(
			"the first replicas of all components have %d roles, and a Workload of Kueue has %d podsets at most; split the deployment, or remove "+
				"its label %s", n, MaxPodSets, labelQueue)}
	}
	return nil
}

// madeBy returns the provider or workload that makes the pods of a scaling group; "" for Trellis itself.
func madeBy(sg *trellisv1alpha1.ScalingGroup) string {
	if spec := specs.Named(sg.Spec.Provider); !spec.Planned {
		return spec.Name
	}
	return sg.Spec.Workload
}

// Report summarizes the Workloads of a deployment; nil if the deployment is in no queue and has no Workloads.
func (o *Observation) Report() *Report {
	if o.Queue() == "" {
		return o.leaving()
	}
	if refused := o.Refused(); refused != nil {
		return refused
	}
	r := o.sum()
	return &r
}

// WhileUnread returns the condition of a deployment while Workloads cannot be read, for the reason in "why". If Kueue is not installed,
// WhileUnread returns nil for a deployment that has neither a queue nor pods in Workloads. Pods in Workloads still need the condition,
// because Kueue's API may be served again.
func (o *Observation) WhileUnread(why Report) *Report {
	switch {
	case o.Queue() != "":
		why.Message += "; no pod of the deployment is created until then"
	case why.Reason == nvidiav1beta1.ReasonKueueNotInstalled &&
		!slices.ContainsFunc(o.Pods, func(pod *corev1.Pod) bool { return WorkloadOf(pod) != "" }):
		return nil
	}
	return &why
}

// leaving returns the condition of a deployment that has left its queue; nil if the deployment has no Workloads.
func (o *Observation) leaving() *Report {
	if len(o.Workloads) == 0 {
		return nil
	}
	return &Report{Reserved: true, Reason: nvidiav1beta1.ReasonQuotaReserved, Message: fmt.Sprintf(
		"the deployment is no longer in a queue; %d Workloads end when the pods that were created for them do", len(o.Workloads))}
}

func (o *Observation) sum() Report {
	list := slices.SortedFunc(slices.Values(o.Workloads), func(a, b *Workload) int { return strings.Compare(a.Name, b.Name) })
	admitted, undecided := 0, true
	var first *Workload
	for _, w := range list {
		switch {
		case w.placesPods():
			return Report{Reason: nvidiav1beta1.ReasonFlavorHasTopology, Message: fmt.Sprintf(
				"Workload %s: a ResourceFlavor of ClusterQueue %s has a topologyName, so Kueue chooses its nodes and Trellis cannot; use a flavor "+
					"without one",
				w.Name, w.Status.Admission.ClusterQueue)}
		case w.Admitted():
			admitted++
			continue
		case first == nil, first.Follows() && !w.Follows():
			first = w
		}
		undecided = undecided && w.undecided()
	}
	missing := o.unrequested()
	all := len(list) + len(missing)
	switch {
	case first != nil:
		return Report{Undecided: undecided, Reason: nvidiav1beta1.ReasonQuotaPending,
			Message: fmt.Sprintf("%d of %d Workloads have quota in queue %s%s; Workload %s: %s%s",
				admitted, all, o.Queue(), saysElsewhere(list, o.Queue()), first.Name, limit.Text(first.why(), maxKueueMessage), o.saysDenied(first))}
	case len(list) == 0:
		return Report{Undecided: true, Reason: nvidiav1beta1.ReasonQuotaPending,
			Message: "no Workload exists yet: quota is requested when the first pods exist"}
	case admitted < all:
		return Report{Undecided: true, Reason: nvidiav1beta1.ReasonQuotaPending, Message: fmt.Sprintf(
			"%d of %d Workloads have quota in queue %s%s; Workload %s does not exist yet",
			admitted, all, o.Queue(), saysElsewhere(list, o.Queue()), missing[0])}
	}
	return Report{Reserved: true, Reason: nvidiav1beta1.ReasonQuotaReserved, Message: fmt.Sprintf(
		"all %d Workloads have quota in queue %s%s%s", all, o.Queue(), saysElsewhere(list, o.Queue()), o.saysUnused())}
}

// saysElsewhere returns a message about Workloads that have quota in another queue, which the deployment named before; "" for none. Kueue
// does not move a Workload that has quota.
func saysElsewhere(list []*Workload, queue string) string {
	elsewhere := slices.DeleteFunc(slices.Clone(list), func(w *Workload) bool { return w.Spec.QueueName == queue || !w.Admitted() })
	if len(elsewhere) == 0 {
		return ""
	}
	return fmt.Sprintf("; %d have it in queue %s, which the deployment named before, until all their pods are deleted", len(elsewhere),
		elsewhere[0].Spec.QueueName)
}

// saysUnused returns a message about unused quota and how it is released; "" for none.
func (o *Observation) saysUnused() string {
	base, pods := o.unused()
	if base == nil {
		return ""
	}
	return fmt.Sprintf("; Workload %s has quota for %d more pods than it has, until all pods that are in it are deleted", base.Name, pods)
}
