// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/render"
)

// Reasons why orphans are not adopted.
const (
	whyNoChild  = "this deployment has no object of that name"
	whyTopology = "its topology constraint differs, and that is immutable"
	whyShape    = "it is multinode and the component is not, or vice versa, and that is immutable"
)

// whyNotAdopted returns the reason why a scaling group cannot become the wanted group, because an immutable field differs; "" if it can.
func whyNotAdopted(wanted, existing *trellisv1alpha1.ScalingGroup) string {
	switch {
	case existing.Spec.Graph != wanted.Spec.Graph, existing.Spec.Component != wanted.Spec.Component:
		return whyNoChild
	case existing.Spec.Multinode != wanted.Spec.Multinode:
		return whyShape
	case !equality.Semantic.DeepEqual(existing.Spec.Topology, wanted.Spec.Topology):
		return whyTopology
	}
	return ""
}

// adoptable lists the orphans that can become scaling groups of the deployment.
func adoptable(o observed, wanted *render.Graph) []*trellisv1alpha1.ScalingGroup {
	var out []*trellisv1alpha1.ScalingGroup
	for _, sg := range wanted.ScalingGroups() {
		for _, object := range o.orphans {
			if existing, ok := object.(*trellisv1alpha1.ScalingGroup); ok && existing.Name == sg.Name && whyNotAdopted(sg, existing) == "" {
				out = append(out, existing)
			}
		}
	}
	return out
}

// notAdopted lists the orphans that are not adopted: orphans without a wanted child of the same name, and orphans that failure reports.
func notAdopted(orphans []client.Object, wanted *render.Graph, failure error) []*orphan {
	names := map[string]bool{}
	for _, sg := range wanted.ScalingGroups() {
		names[orphanOf(sg, "").resource()] = true
	}
	for _, service := range wanted.KubernetesServices() {
		names[orphanOf(service, "").resource()] = true
	}
	for _, object := range wanted.Owned() {
		names[orphanOf(object.(client.Object), "").resource()] = true
	}
	out := allAs[*orphan](failure)
	for _, object := range orphans {
		if one := orphanOf(object, whyNoChild); !names[one.resource()] {
			out = append(out, one)
		}
	}
	first := func(o *orphan) int { // the pods of scaling groups hold devices
		if o.kind.Kind == "ScalingGroup" {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(out, func(a, b *orphan) int {
		return cmp.Or(cmp.Compare(first(a), first(b)), strings.Compare(a.resource(), b.resource()))
	})
	return out
}

// allAs returns the errors of one type in a tree of joined and wrapped errors.
func allAs[T error](err error) []T {
	if found, ok := err.(T); ok { //nolint:errorlint // what wraps it is looked through below
		return []T{found}
	}
	var out []T
	switch err := err.(type) { //nolint:errorlint // as above
	case interface{ Unwrap() []error }:
		for _, one := range err.Unwrap() {
			out = append(out, allAs[T](one)...)
		}
	case interface{ Unwrap() error }:
		out = allAs[T](err.Unwrap())
	}
	return out
}

// moreOrphans is the end of the message of orphansCondition if its command does not name all orphans.
const moreOrphans = "; %d more are named when these are gone"

// orphansCondition returns the condition with a command that deletes the orphans that are not adopted; nil for none. The command names as
// many orphans as fit into a condition.
func orphansCondition(o observed) *condition {
	if len(o.notAdopted) == 0 {
		return nil
	}
	counts := map[string]int{}
	var reasons []string
	for _, one := range o.notAdopted {
		if counts[one.why]++; counts[one.why] == 1 {
			reasons = append(reasons, one.why)
		}
	}
	for i, why := range reasons {
		reasons[i] = fmt.Sprintf("%d: %s", counts[why], limit.Text(why, maxWhy))
	}
	message := fmt.Sprintf("objects of an earlier deployment of this name have no owner and are not adopted (%s). They stay, with their "+
		"pods and devices, until they are deleted: kubectl delete -n %s",
		strings.Join(reasons, "; "), o.dgd.Namespace)
	for i, one := range o.notAdopted {
		if i > 0 && len(message)+len(one.resource())+len(moreOrphans) > limit.Condition {
			message += fmt.Sprintf(moreOrphans, len(o.notAdopted)-i)
			break
		}
		message += " " + one.resource()
	}
	return no(nvidiav1beta1.ConditionOrphansAdopted, nvidiav1beta1.ReasonOrphansLeft, message)
}

// maxWhy is the maximum length of one reason in the condition, in bytes.
const maxWhy = 150
