// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// AdapterName is the name autoscalers know the scaling adapter of a component by: <deployment>-<lower-cased component>. It is an object's
// name, not a DNS label: dots stay, and there is space for both names but in extreme cases.
func AdapterName(dgd, component string) string {
	return fit(dgd+"-"+strings.ToLower(component), dgd+"/"+component, validation.DNS1123SubdomainMaxLength)
}

// OnePodPerReplica selects one pod of each replica of a group. An autoscaler divides by the number of pods it finds, so of a multinode
// replica it finds the leader alone.
func OnePodPerReplica(sg *trellisv1alpha1.ScalingGroup) string {
	selector := labels.Set(maps.Clone(groupSelector(sg.Spec.Graph, sg.Name)))
	switch {
	case InSets(sg):
		selector[LabelRole] = RoleLeader
	case sg.Spec.Multinode:
		selector[LabelPodIndex] = "0"
	}
	return selector.String()
}
