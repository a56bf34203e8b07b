// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"cmp"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/field"
	"github.com/trellis-k8s/trellis/internal/framework"
	"github.com/trellis-k8s/trellis/internal/render"
)

// distinctHosts checks the distinct-hosts annotation of a component's pods.
func distinctHosts(s component) field.ErrorList {
	return oneOf(s.path.Child("podTemplate", "metadata", "annotations"), s.template().Annotations, render.AnnotationDistinctHosts, "true",
		"false")
}

// distinct reports whether the pods of each multinode replica of a component need different hosts.
func (s component) distinct() bool {
	const key = render.AnnotationDistinctHosts
	return s.multinode() && cmp.Or(s.template().Annotations[key], s.graph.Spec.Annotations[key], s.graph.Annotations[key]) == "true"
}

// distinctOnHost refuses replicas whose pods would have to be both on one host and on different hosts. Without a topology, it recognizes a
// host level by its name.
func distinctOnHost(dgd *nvidiav1beta1.DynamoGraphDeployment, topology *grovev1alpha1.ClusterTopology) field.ErrorList {
	var errs field.ErrorList
	refuse := func(path *field.Path, domain string) {
		errs = append(errs, badValue(field.ErrorTypeInvalid, path.Child("packDomain"), domain,
			"keeps each replica on one host, but the annotation "+
				render.AnnotationDistinctHosts+" keeps its pods on different hosts; use a broader domain or remove the annotation"))
	}
	whole := dgd.Spec.TopologyConstraint
	for _, s := range componentsOf(dgd) {
		switch own := s.TopologyConstraint; {
		case !s.distinct():
		case own != nil && isHost(topology, own.PackDomain):
			refuse(s.path.Child("topologyConstraint"), own.PackDomain)
		case whole != nil && isHost(topology, whole.PackDomain):
			refuse(constraintPath, whole.PackDomain)
			whole = nil // once
		}
	}
	return errs
}

// sharedHostNetwork warns if several pods of a replica may share the network of one host, where they would listen on the same ports.
func sharedHostNetwork(dgd Written, _ *grovev1alpha1.ClusterTopology) []field.Text {
	var names []string
	for _, s := range dgd.components() {
		main := s.mainContainer()
		if s.multinode() && !s.distinct() && s.template().Spec.HostNetwork && main != nil && framework.Found(main) != framework.None {
			names = append(names, short(s.name))
		}
	}
	if len(names) == 0 {
		return nil
	}
	return []field.Text{line(field.Say("pods of one replica may share a host, where they use the same ports because of hostNetwork; "+
		"set the annotation %s: \"true\" on %s", render.AnnotationDistinctHosts, field.WordComponents), names)}
}
