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

// Kinds of problem a caller may want to tell apart.
var (
	// ErrTopologyNotFound: a constraint names a ClusterTopology that is not there.
	ErrTopologyNotFound = errors.New("ClusterTopology not found")
	// ErrUnknownDomain: a constraint names a level that the ClusterTopology does not have.
	ErrUnknownDomain = errors.New("packDomain not found in cluster topology")
	// ErrNoProfile: a constraint names no ClusterTopology.
	ErrNoProfile = errors.New("clusterTopologyName is required")
)

// Where constraints are.
var (
	pathConstraint  = field.NewPath("spec", "topologyConstraint")
	pathProfile     = pathConstraint.Child("clusterTopologyName")
	pathAnnotations = field.NewPath("metadata", "annotations")
)

// Sources are where the constraints of a deployment come from, in addition to the deployment itself.
type Sources struct {
	// Topology is the ClusterTopology that the deployment names, as it is now; nil when it is not there.
	Topology *grovev1alpha1.ClusterTopology
	// Defaults are the cluster's default topologies, the oldest first, for deployments that state no constraint; see [Defaults].
	Defaults []*grovev1alpha1.ClusterTopology
	// Nodes of the cluster tell apart default topologies that a component suits alike; none where that is not known.
	Nodes []*corev1.Node
	// Frozen holds, by component name, the constraint that was taken over when the component was first reconciled. It wins over all others.
	// A key with a nil value means frozen as unconstrained.
	Frozen map[string]*trellisv1alpha1.ResolvedTopology
	// OnlyRoutes: Trellis does not place the pods, so that a kvTransferPolicy decides where requests go and nothing else.
	OnlyRoutes bool
}

// Problem is why a constraint cannot be resolved.
type Problem struct {
	// Path of the field.
	Path *field.Path
	// Message describes what is wrong and the fix.
	Message field.Text
	// Kind is one of the errors above.
	Kind error
}

// Resolved is the outcome of [Of].
type Resolved struct {
	// Topologies are the constraints of the components by name; none for a component that nothing packs.
	Topologies map[string]*trellisv1alpha1.ResolvedTopology
	// Problems are why constraints cannot be resolved.
	Problems []Problem
	// Undecided are the components that several default topologies suit alike.
	Undecided []Undecided
}

// Of resolves the constraint of every component of a deployment that states this. What is frozen stays as it is; a component that has
// nothing frozen (the operator died between two writes) gets the levels its siblings froze, so that a graph never mixes two versions of a
// topology.
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

// baseOf is what all components share: the levels and the deployment-level domains. Nil means unconstrained.
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

// newBase takes over the levels of a topology.
func newBase(ct *grovev1alpha1.ClusterTopology) *trellisv1alpha1.ResolvedTopology {
	base := &trellisv1alpha1.ResolvedTopology{Profile: ct.Name, NodeSelector: ct.Spec.NodeSelector}
	for _, level := range ct.Spec.Levels {
		base.Levels = append(base.Levels, trellisv1alpha1.ResolvedLevel{Domain: level.Domain, Key: level.Key})
	}
	return base
}

func baseOfFields(dgd *nvidiav1beta1.DynamoGraphDeployment, s Sources) (*trellisv1alpha1.ResolvedTopology, []Problem) {
	asked := dgd.Spec.TopologyConstraint
	if asked == nil || asked.ClusterTopologyName == "" {
		return nil, []Problem{{Path: pathProfile, Kind: ErrNoProfile,
			Message: field.Say("%s is required when any topology constraint is set (at spec or %s level); name a ClusterTopology",
				field.WordTopologyName, field.WordComponent)}}
	}
	if s.Topology == nil || s.Topology.Name != asked.ClusterTopologyName {
		return nil, topologyNotFound(pathProfile, asked.ClusterTopologyName)
	}
	base := newBase(s.Topology)
	base.GraphPackDomain, base.GraphPreferredPackDomain = asked.PackDomain, asked.PreferredPackDomain
	problems := unknownDomain(base, pathConstraint, "packDomain", base.GraphPackDomain)
	problems = append(problems, unknownDomain(base, pathConstraint, "preferredPackDomain", base.GraphPreferredPackDomain)...)
	problems = append(problems, unknownDomain(base, pathConstraint, "spreadDomain", asked.SpreadDomain)...)
	return base, append(problems, unknownDomain(base, pathConstraint, "preferredSpreadDomain", asked.PreferredSpreadDomain)...)
}

// baseOfAnnotations turns label keys into domains.
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

// preferNarrowest is what the default topology gives a multinode component: each replica as close together as it goes
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
		Message: field.Say(UnknownDomain(name, domain, grovev1alpha1.KindClusterTopology, t.Profile, available))}}
}

// NotFound is the message about a ClusterTopology that is not there, with the fix.
func NotFound(name string) string {
	return fmt.Sprintf("ClusterTopology not found: topology-aware scheduling requires a ClusterTopology resource %q but it was not found, "+
		"nor a ClusterTopologyBinding of that name; ask a cluster admin to create it, or name one that exists (kubectl get clustertopologies)",
		name)
}

// UnknownDomain is the message about a field that names a level which the topology, read from an object of a kind, does not have.
func UnknownDomain(field, domain, kind, topology string, available []string) string {
	return fmt.Sprintf("%s not found in cluster topology: domain %q does not exist in %s %q; available domains: [%s]",
		field, domain, kind, topology, strings.Join(available, ", "))
}

// UnknownKey is the message about an annotation whose label key is that of no level.
func UnknownKey(key string, ct *grovev1alpha1.ClusterTopology) string {
	keys := make([]string, 0, len(ct.Spec.Levels))
	for _, level := range ct.Spec.Levels {
		keys = append(keys, level.Key)
	}
	return fmt.Sprintf("%s is not the node label key of any level of %s %q; available keys: [%s]", key, ct.Source(), ct.Name,
		strings.Join(keys, ", "))
}
