// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"fmt"
	"slices"
	"strings"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/constraint"
)

// Paths of the deployment-level fields.
const (
	pathProfile        = "spec.topologyConstraint.topologyProfile"
	pathGraphPack      = "spec.topologyConstraint.packDomain"
	pathGraphPreferred = "spec.topologyConstraint.preferredPackDomain"
	pathPack           = ".topologyConstraint.packDomain"
	pathPreferred      = ".topologyConstraint.preferredPackDomain"
	pathAnnotations    = "metadata.annotations."
)

// resolveTopology returns the constraint of every service. What a ScalingGroup has frozen stays as it is; a service without one (the
// operator died between two writes) gets the levels its siblings froze, so that a graph never mixes two versions of a topology.
func resolveTopology(dgd *nvidiav1beta1.DynamoGraphDeployment, in Inputs) (map[string]*trellisv1alpha1.ResolvedTopology, []error) {
	out := map[string]*trellisv1alpha1.ResolvedTopology{}
	base, errs := baseTopology(dgd, in)
	if len(errs) > 0 {
		return out, errs
	}
	for _, c := range Components(dgd) {
		name := c.Name
		if frozen, ok := in.Frozen[name]; ok {
			out[name] = frozen.DeepCopy()
			continue
		}
		if base == nil {
			continue
		}
		resolved := base.DeepCopy()
		if resolved.Automatic {
			preferNarrowest(resolved, c)
			out[name] = resolved
			continue
		}
		if own := c.TopologyConstraint; own != nil {
			resolved.PackDomain = own.PackDomain
			resolved.PreferredPackDomain = own.PreferredPackDomain
			errs = append(errs, unknownDomain(resolved, servicePath(name)+pathPack, resolved.PackDomain)...)
			errs = append(errs, unknownDomain(resolved, servicePath(name)+pathPreferred, resolved.PreferredPackDomain)...)
		}
		out[name] = resolved
	}
	return out, errs
}

// baseTopology is what all services share: the levels and the deployment-level domains. Nil means unconstrained.
func baseTopology(dgd *nvidiav1beta1.DynamoGraphDeployment, in Inputs) (*trellisv1alpha1.ResolvedTopology, []error) {
	if base, frozen := frozenBase(dgd, in.Frozen); frozen {
		return base, nil
	}
	annotated := constraint.FromAnnotations(dgd)
	switch {
	case constrained(dgd):
		return baseOfFields(dgd, in)
	case annotated.Set():
		return baseOfAnnotations(annotated, in)
	case in.Default != nil && HasMultinode(dgd):
		base := newBase(in.Default)
		base.Automatic = true
		return base, nil
	}
	return nil, nil
}

// newBase takes over the levels of a topology.
func newBase(ct *grovev1alpha1.ClusterTopology) *trellisv1alpha1.ResolvedTopology {
	base := &trellisv1alpha1.ResolvedTopology{Profile: ct.Name, NodeSelector: ct.Spec.NodeSelector}
	for _, level := range ct.Spec.Levels {
		base.Levels = append(base.Levels, trellisv1alpha1.ResolvedLevel{Domain: level.Domain, Key: level.Key})
	}
	return base
}

func topologyNotFound(path, name string) []error {
	return []error{&Error{Path: path, Kind: ErrTopologyNotFound, Message: fmt.Sprintf(
		"ClusterTopology not found: topology-aware scheduling requires a ClusterTopology resource %q but it was not found; create it, or name one that exists", name)}}
}

// baseOfAnnotations turns label keys into domains.
func baseOfAnnotations(a constraint.Annotated, in Inputs) (*trellisv1alpha1.ResolvedTopology, []error) {
	if in.Topology == nil || in.Topology.Name != a.Topology {
		return nil, topologyNotFound(pathAnnotations+constraint.AnnotationTopology, a.Topology)
	}
	base := newBase(in.Topology)
	var errs []error
	domain := func(annotation, key string) string {
		if key == "" {
			return ""
		}
		name, found := constraint.DomainOf(in.Topology, key)
		if !found {
			errs = append(errs, &Error{Path: pathAnnotations + annotation, Kind: ErrUnknownDomain, Domain: key, Message: fmt.Sprintf(
				"%s is not the node label key of any level of ClusterTopology %q", key, base.Profile)})
		}
		return name
	}
	base.GraphPackDomain = domain(constraint.AnnotationRequired, a.Required)
	base.GraphPreferredPackDomain = domain(constraint.AnnotationPreferred, a.Preferred)
	return base, errs
}

// HasMultinode says that a service of the deployment has replicas of more than one pod.
func HasMultinode(dgd *nvidiav1beta1.DynamoGraphDeployment) bool {
	for i := range dgd.Spec.Components {
		if _, multinode := nodeCount(&dgd.Spec.Components[i]); multinode {
			return true
		}
	}
	return false
}

// preferNarrowest is what the default topology gives a multinode service: each replica as close together as it goes (docs/placement.md#where-a-constraint-comes-from).
func preferNarrowest(t *trellisv1alpha1.ResolvedTopology, c *nvidiav1beta1.ComponentSpec) {
	if _, multinode := nodeCount(c); multinode && len(t.Levels) > 0 {
		t.PreferredPackDomain = t.Levels[len(t.Levels)-1].Domain
	}
}

func baseOfFields(dgd *nvidiav1beta1.DynamoGraphDeployment, in Inputs) (*trellisv1alpha1.ResolvedTopology, []error) {
	asked := dgd.Spec.TopologyConstraint
	if asked == nil || asked.ClusterTopologyName == "" {
		return nil, []error{invalid(pathProfile, "topologyProfile is required when any topology constraint is set (at spec or service level); name a ClusterTopology")}
	}
	ct := in.Topology
	if ct == nil || ct.Name != asked.ClusterTopologyName {
		return nil, topologyNotFound(pathProfile, asked.ClusterTopologyName)
	}
	base := newBase(ct)
	base.GraphPackDomain, base.GraphPreferredPackDomain = asked.PackDomain, asked.PreferredPackDomain
	errs := unknownDomain(base, pathGraphPack, base.GraphPackDomain)
	return base, append(errs, unknownDomain(base, pathGraphPreferred, base.GraphPreferredPackDomain)...)
}

// frozenBase reads what the existing ScalingGroups of the deployment froze, if there are any.
func frozenBase(dgd *nvidiav1beta1.DynamoGraphDeployment, frozen map[string]*trellisv1alpha1.ResolvedTopology) (base *trellisv1alpha1.ResolvedTopology, some bool) {
	for _, c := range Components(dgd) {
		topology, ok := frozen[c.Name]
		some = some || ok
		if base == nil && topology != nil {
			base = topology.DeepCopy()
			base.PackDomain, base.PreferredPackDomain = "", ""
		}
	}
	return base, some
}

// constrained says that the deployment names a domain anywhere.
func constrained(dgd *nvidiav1beta1.DynamoGraphDeployment) bool {
	if c := dgd.Spec.TopologyConstraint; c != nil && (c.PackDomain != "" || c.PreferredPackDomain != "") {
		return true
	}
	for i := range dgd.Spec.Components {
		if c := dgd.Spec.Components[i].TopologyConstraint; c != nil && (c.PackDomain != "" || c.PreferredPackDomain != "") {
			return true
		}
	}
	return false
}

func unknownDomain(topology *trellisv1alpha1.ResolvedTopology, path, domain string) []error {
	var available []string
	for _, level := range topology.Levels {
		available = append(available, level.Domain)
	}
	if domain == "" || slices.Contains(available, domain) {
		return nil
	}
	return []error{&Error{Path: path, Kind: ErrUnknownDomain, Domain: domain, Message: fmt.Sprintf(
		"packDomain not found in cluster topology: domain %q does not exist in ClusterTopology %q; available domains: [%s]",
		domain, topology.Profile, strings.Join(available, ", "))}}
}
