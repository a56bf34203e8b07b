// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package constraint

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/field"
)

// Kinds of problems that callers distinguish.
var (
	// ErrTopologyNotFound: a constraint names a ClusterTopology that does not exist.
	ErrTopologyNotFound = errors.New("ClusterTopology not found")
	// ErrUnknownDomain: a constraint names a level that the ClusterTopology does not have.
	ErrUnknownDomain = errors.New("packDomain not found in cluster topology")
	// ErrNoTopologyName: a constraint names no ClusterTopology.
	ErrNoTopologyName = errors.New("clusterTopologyName is required")
)

// Paths of constraint fields.
var (
	pathConstraint   = field.NewPath("spec", "topologyConstraint")
	pathTopologyName = pathConstraint.Child("clusterTopologyName")
	pathAnnotations  = field.NewPath("metadata", "annotations")
)

// Sources are the inputs, other than the deployment itself, from which a deployment's constraints are resolved.
type Sources struct {
	// Topology is the current ClusterTopology that the deployment names; nil when it does not exist.
	Topology *grovev1alpha1.ClusterTopology
	// Defaults are the cluster's default topologies, oldest first. They apply to deployments without a stated constraint; see [Defaults].
	Defaults []*grovev1alpha1.ClusterTopology
	// Nodes are the nodes of the cluster, which determine the choice if several default topologies suit a component; empty if the nodes are
	// unknown.
	Nodes []*corev1.Node
	// Frozen holds, by component name, the constraint that was stored when the component was first reconciled. It takes precedence over
	// every other source. A nil value means that the component was frozen without a constraint.
	Frozen map[string]*trellisv1alpha1.ResolvedTopology
	// OnlyRoutes: Trellis does not place the pods, so a kvTransferPolicy affects only the routing of requests.
	OnlyRoutes bool
}

// Problem is the reason why a constraint cannot be resolved.
type Problem struct {
	// Path is the path of the field.
	Path *field.Path
	// Message describes the problem and the fix.
	Message field.Text
	// Kind is ErrTopologyNotFound, ErrUnknownDomain or ErrNoTopologyName.
	Kind error
}

// Resolved is the result of [Of].
type Resolved struct {
	// Topologies are the constraints of the components by name; components without a constraint are missing.
	Topologies map[string]*trellisv1alpha1.ResolvedTopology
	// Problems are the reasons why constraints cannot be resolved.
	Problems []Problem
	// Undecided lists the components for which several default topologies are equally suitable.
	Undecided []Undecided
}

// Of resolves the constraint of every component of a deployment. Frozen constraints do not change. If the operator stopped between two
// writes, a component may have no frozen constraint although its siblings have one. Such a component gets the levels of its siblings, so
// that a graph never mixes two versions of a topology.
func Of(dgd *nvidiav1beta1.DynamoGraphDeployment, stated Statement, s Sources) Resolved {
	out := map[string]*trellisv1alpha1.ResolvedTopology{}
	base, problems := baseOf(dgd, stated, s)
	if base != nil && !s.OnlyRoutes && !transferFrozen(s.Frozen, dgd) {
		transfer(base, dgd)
	}
	if len(problems) > 0 {
		return Resolved{Topologies: out, Problems: problems}
	}
	if len(s.Frozen) == 0 && !stated.Any() {
		return Resolved{Topologies: out, Undecided: followDefaults(dgd, s, out)}
	}
	for i := range dgd.Spec.Components {
		c := &dgd.Spec.Components[i]
		if frozen, ok := s.Frozen[c.Name]; ok {
			out[c.Name] = frozen.DeepCopy()
			continue
		}
		if base == nil {
			continue
		}
		if base.Automatic {
			if t := followSiblings(c, s); t != nil {
				out[c.Name] = t
			}
			continue
		}
		resolved := base.DeepCopy()
		out[c.Name] = resolved
		if !transfers(c) {
			resolved.KVTransferDomain, resolved.KVTransferRequired = "", false
		}
		if own := c.TopologyConstraint; own != nil {
			resolved.PackDomain, resolved.PreferredPackDomain = own.PackDomain, own.PreferredPackDomain
			path := field.Component(i, c.Name).Child("topologyConstraint")
			problems = append(problems, unknownDomain(resolved, path, "packDomain", resolved.PackDomain)...)
			problems = append(problems, unknownDomain(resolved, path, "preferredPackDomain", resolved.PreferredPackDomain)...)
			problems = append(problems, unknownDomain(resolved, path, "spreadDomain", own.SpreadDomain)...)
			problems = append(problems, unknownDomain(resolved, path, "preferredSpreadDomain", own.PreferredSpreadDomain)...)
		}
		spread(resolved, dgd, c)
	}
	return Resolved{Topologies: out, Problems: problems}
}

// baseOf returns the part of the constraint that all components share: the levels and the deployment-level domains. Nil means
// unconstrained.
func baseOf(dgd *nvidiav1beta1.DynamoGraphDeployment, stated Statement, s Sources) (*trellisv1alpha1.ResolvedTopology, []Problem) {
	if base, frozen := frozenBase(s.Frozen, dgd); frozen {
		return base, nil
	}
	switch {
	case stated.ByFields:
		return baseOfFields(dgd, s)
	case stated.Annotated.Set():
		return baseOfAnnotations(stated.Annotated, s)
	}
	return nil, nil
}

// newBase returns a constraint with the name, levels and node selector of a topology, but without domains.
func newBase(ct *grovev1alpha1.ClusterTopology) *trellisv1alpha1.ResolvedTopology {
	base := &trellisv1alpha1.ResolvedTopology{ClusterTopology: ct.Name, NodeSelector: ct.Spec.NodeSelector}
	for _, level := range ct.Spec.Levels {
		base.Levels = append(base.Levels, trellisv1alpha1.ResolvedLevel{Domain: level.Domain, Key: level.Key})
	}
	return base
}

func baseOfFields(dgd *nvidiav1beta1.DynamoGraphDeployment, s Sources) (*trellisv1alpha1.ResolvedTopology, []Problem) {
	asked := dgd.Spec.TopologyConstraint
	if asked == nil || asked.ClusterTopologyName == "" {
		return nil, []Problem{{Path: pathTopologyName, Kind: ErrNoTopologyName,
			Message: field.Say("%s is required when any topology constraint is set (at spec or %s level); name a ClusterTopology",
				field.WordTopologyName, field.WordComponent)}}
	}
	if s.Topology == nil || s.Topology.Name != asked.ClusterTopologyName {
		return nil, topologyNotFound(pathTopologyName, asked.ClusterTopologyName)
	}
	base := newBase(s.Topology)
	base.GraphPackDomain, base.GraphPreferredPackDomain = asked.PackDomain, asked.PreferredPackDomain
	problems := unknownDomain(base, pathConstraint, "packDomain", base.GraphPackDomain)
	problems = append(problems, unknownDomain(base, pathConstraint, "preferredPackDomain", base.GraphPreferredPackDomain)...)
	problems = append(problems, unknownDomain(base, pathConstraint, "spreadDomain", asked.SpreadDomain)...)
	return base, append(problems, unknownDomain(base, pathConstraint, "preferredSpreadDomain", asked.PreferredSpreadDomain)...)
}

// baseOfAnnotations resolves the label keys in annotations to domains.
func baseOfAnnotations(a Annotated, s Sources) (*trellisv1alpha1.ResolvedTopology, []Problem) {
	if s.Topology == nil || s.Topology.Name != a.Topology {
		return nil, topologyNotFound(pathAnnotations.Key(AnnotationTopology), a.Topology)
	}
	base := newBase(s.Topology)
	var problems []Problem
	domain := func(annotation, key string) string {
		if key == "" {
			return ""
		}
		name, found := DomainOf(s.Topology, key)
		if !found {
			problems = append(problems, Problem{Path: pathAnnotations.Key(annotation), Kind: ErrUnknownDomain, Message: field.Say(UnknownKey(key,
				s.Topology))})
		}
		return name
	}
	base.GraphPackDomain = domain(AnnotationRequired, a.Required)
	base.GraphPreferredPackDomain = domain(AnnotationPreferred, a.Preferred)
	return base, problems
}

// preferNarrowest sets the constraint of a multinode component with a default topology: each replica prefers the narrowest level
// (docs/placement.md#where-a-constraint-comes-from).
func preferNarrowest(t *trellisv1alpha1.ResolvedTopology, c *nvidiav1beta1.ComponentSpec) {
	if _, multinode := c.PodsPerReplica(); multinode && len(t.Levels) > 0 {
		t.PreferredPackDomain = t.Levels[len(t.Levels)-1].Domain
	}
}

func topologyNotFound(path *field.Path, name string) []Problem {
	return []Problem{{Path: path, Kind: ErrTopologyNotFound, Message: field.Say(NotFound(name))}}
}

func unknownDomain(t *trellisv1alpha1.ResolvedTopology, path *field.Path, name, domain string) []Problem {
	var available []string
	for _, level := range t.Levels {
		available = append(available, level.Domain)
	}
	if domain == "" || slices.Contains(available, domain) {
		return nil
	}
	return []Problem{{Path: path.Child(name), Kind: ErrUnknownDomain,
		Message: field.Say(UnknownDomain(name, domain, grovev1alpha1.KindClusterTopology, t.ClusterTopology, available))}}
}

// NotFound is the message about a missing ClusterTopology, with the fix.
func NotFound(name string) string {
	return fmt.Sprintf("ClusterTopology not found: topology-aware scheduling requires a ClusterTopology resource %q but it was not found, "+
		"nor a ClusterTopologyBinding of that name; ask a cluster admin to create it, or name one that exists (kubectl get clustertopologies)",
		name)
}

// UnknownDomain is the message about a field that names an unknown level. The topology is read from an object of the given kind.
func UnknownDomain(field, domain, kind, topology string, available []string) string {
	return fmt.Sprintf("%s not found in cluster topology: domain %q does not exist in %s %q; available domains: [%s]",
		field, domain, kind, topology, strings.Join(available, ", "))
}

// UnknownKey is the message about an annotation with a label key that no level has.
func UnknownKey(key string, ct *grovev1alpha1.ClusterTopology) string {
	keys := make([]string, 0, len(ct.Spec.Levels))
	for _, level := range ct.Spec.Levels {
		keys = append(keys, level.Key)
	}
	return fmt.Sprintf("%s is not the node label key of any level of %s %q; available keys: [%s]", key, ct.Source(), ct.Name,
		strings.Join(keys, ", "))
}
