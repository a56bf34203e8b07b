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

// AdapterName returns the name of a component's scaling adapter: <deployment>-<lower-cased component>. The name is a DNS subdomain, not a
// DNS label, so it keeps dots and rarely needs shortening.
func AdapterName(dgd, component string) string {
	return fit(dgd+"-"+strings.ToLower(component), dgd+"/"+component, validation.DNS1123SubdomainMaxLength)
}

// OnePodPerReplica returns a selector that matches one pod of each replica; in a multinode replica, the leader. An autoscaler divides a
// metric by the number of selected pods.
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
