// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"fmt"
	"slices"
	"strings"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// Paths of the deployment-level fields.
const (
	pathProfile        = "spec.topologyConstraint.topologyProfile"
	pathGraphPack      = "spec.topologyConstraint.packDomain"
	pathGraphPreferred = "spec.topologyConstraint.preferredPackDomain"
	pathPack           = ".topologyConstraint.packDomain"
	pathPreferred      = ".topologyConstraint.preferredPackDomain"
)

// resolveTopology returns the constraint of every service. What a ScalingGroup has frozen stays as it is; a service without one (the
// operator died between two writes) gets the levels its siblings froze, so that a graph never mixes two versions of a topology.
func resolveTopology(dgd *nvidiav1alpha1.DynamoGraphDeployment, in Inputs) (map[string]*trellisv1alpha1.ResolvedTopology, []error) {
	out := map[string]*trellisv1alpha1.ResolvedTopology{}
	base, errs := baseTopology(dgd, in)
	if len(errs) > 0 {
		return out, errs
	}
	for _, name := range sortedKeys(dgd.Spec.Services) {
		if frozen, ok := in.Frozen[name]; ok {
			out[name] = frozen.DeepCopy()
			continue
		}
		if base == nil {
			continue
		}
		resolved := base.DeepCopy()
		if service := dgd.Spec.Services[name]; service != nil && service.TopologyConstraint != nil {
			resolved.PackDomain = service.TopologyConstraint.PackDomain
			resolved.PreferredPackDomain = service.TopologyConstraint.PreferredPackDomain
			errs = append(errs, unknownDomain(resolved, servicePath(name)+pathPack, resolved.PackDomain)...)
			errs = append(errs, unknownDomain(resolved, servicePath(name)+pathPreferred, resolved.PreferredPackDomain)...)
		}
		out[name] = resolved
	}
	return out, errs
}

// baseTopology is what all services share: the levels and the deployment-level domains. Nil means unconstrained.
func baseTopology(dgd *nvidiav1alpha1.DynamoGraphDeployment, in Inputs) (*trellisv1alpha1.ResolvedTopology, []error) {
	if base, frozen := frozenBase(dgd, in.Frozen); frozen || !constrained(dgd) {
		return base, nil
	}
	constraint := dgd.Spec.TopologyConstraint
	if constraint == nil || constraint.TopologyProfile == "" {
		return nil, []error{invalid(pathProfile, "topologyProfile is required when any topology constraint is set (at spec or service level); name a ClusterTopology")}
	}
	ct := in.Topology
	if ct == nil || ct.Name != constraint.TopologyProfile {
		return nil, []error{&Error{Path: pathProfile, Kind: ErrTopologyNotFound, Message: fmt.Sprintf(
			"ClusterTopology not found: topology-aware scheduling requires a ClusterTopology resource %q but it was not found; create it, or name one that exists", constraint.TopologyProfile)}}
	}
	base := &trellisv1alpha1.ResolvedTopology{
		Profile:                  ct.Name,
		NodeSelector:             ct.Spec.NodeSelector,
		GraphPackDomain:          constraint.PackDomain,
		GraphPreferredPackDomain: constraint.PreferredPackDomain,
	}
	for _, level := range ct.Spec.Levels {
		base.Levels = append(base.Levels, trellisv1alpha1.ResolvedLevel{Domain: level.Domain, Key: level.Key})
	}
	errs := unknownDomain(base, pathGraphPack, base.GraphPackDomain)
	return base, append(errs, unknownDomain(base, pathGraphPreferred, base.GraphPreferredPackDomain)...)
}

// frozenBase reads what the existing ScalingGroups of the deployment froze, if there are any.
func frozenBase(dgd *nvidiav1alpha1.DynamoGraphDeployment, frozen map[string]*trellisv1alpha1.ResolvedTopology) (base *trellisv1alpha1.ResolvedTopology, some bool) {
	for _, name := range sortedKeys(dgd.Spec.Services) {
		topology, ok := frozen[name]
		some = some || ok
		if base == nil && topology != nil {
			base = topology.DeepCopy()
			base.PackDomain, base.PreferredPackDomain = "", ""
		}
	}
	return base, some
}

// constrained says that the deployment names a domain anywhere.
func constrained(dgd *nvidiav1alpha1.DynamoGraphDeployment) bool {
	if c := dgd.Spec.TopologyConstraint; c != nil && (c.PackDomain != "" || c.PreferredPackDomain != "") {
		return true
	}
	for _, service := range dgd.Spec.Services {
		if service == nil || service.TopologyConstraint == nil {
			continue
		}
		if c := service.TopologyConstraint; c.PackDomain != "" || c.PreferredPackDomain != "" {
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
