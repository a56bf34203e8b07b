// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Release is where one pod goes: a gated pod is patched, and a [Planned] one is created.
type Release struct {
	Pod *corev1.Pod
	Pin Pin
	// Group of the pod, set for releases to recorded places.
	Group *trellisv1alpha1.ScalingGroup
	// Domain that the pod is pinned to.
	Domain topology.Path
	// Base: of the gang that a graph in one domain begins with. Rest: of a base gang of which other replicas are released.
	Base, Rest bool
	// Undecided are the domains, broadest first, that it shares with others and that no released pod decides yet: that of its graph, and
	// that of its single-node component. The first pod that is released in one decides where the others go.
	Undecided []string
}

// BaseName returns the name of the gang that a plan begins a graph with.
func (r *Request) BaseName(planned *placement.Result) string {
	var members []placement.ReplicaResult
	for _, replica := range planned.Replicas {
		if replica.Refusal == nil && replica.Base {
			members = append(members, replica)
		}
	}
	return r.name(members...)
}

// name is the same for the same pods and differs for their successors. Planned pods have the ID of their predecessors, and another attempt.
func (r *Request) name(members ...placement.ReplicaResult) string {
	var lines []string
	for _, replica := range members {
		for _, pod := range replica.Pods {
			if lines = append(lines, pod.ID+"\n"); isPlanned(pod.ID) && r.o.Record != nil {
				lines = append(lines, fmt.Sprintln(r.o.Record.AttemptOf(Key{Component: replica.Component, Ordinal: replica.Ordinal})))
			}
		}
	}
	hash := sha256.Sum256([]byte(strings.Join(lines, "")))
	return r.Graph.Name + "-" + hex.EncodeToString(hash[:5])
}

// Releases pins one replica's pods to their planned hosts, and to the path labels of the domain around them (docs/providers.md#gates).
// c is the cluster that the replica was planned on, base the name of the base gang.
func (r *Request) Releases(c *topology.Cluster, replica placement.ReplicaResult, base string) []Release {
	key := Key{Component: replica.Component, Ordinal: replica.Ordinal}
	gang := cmp.Or(r.gangs[key], r.rests[key].gang)
	if gang == "" && replica.Base {
		gang = base
	}
	if gang == "" {
		gang = r.name(replica)
	}
	place := r.Graph.PlaceOf(replica.Component)
	domain := PinnedDomain(c, place.Levels, replica)
	labels := place.Labels(domain)
	of := r.component(replica.Component)
	begins := replica.Base && gang == base
	out := make([]Release, 0, len(replica.Pods))
	for _, planned := range replica.Pods {
		pin := Pin{Graph: r.Graph.Name, Gang: gang, Labels: labels, Node: planned.Node, Apart: of.Apart}
		if replica.Preempts != nil {
			pin.Preempts, pin.Wide = true, place.Labels(r.widest(of, replica))
		}
		out = append(out, Release{
			Pod: r.Gated[planned.ID], Pin: pin, Domain: domain, Base: begins, Rest: r.rests[key].gang != "",
			Undecided: r.undecided(of),
		})
	}
	return out
}

// OfGraph is the domain of the graph in [Release.Undecided].
const OfGraph = "graph"

// undecided are the domains that the replicas of a component share and that no released pod decides yet, broadest first.
func (r *Request) undecided(of *placement.Component) (domains []string) {
	if r.Graph.Required != topology.NoLevel && r.Graph.Anchor == nil {
		domains = append(domains, OfGraph)
	}
	if undecidedComponent(of) {
		domains = append(domains, "component "+of.Name) // as [ofComponent] has it
	}
	return domains
}

// undecidedComponent reports whether the replicas of a component share a domain that no released pod decides yet.
func undecidedComponent(of *placement.Component) bool {
	return !of.Multinode && of.Required != topology.NoLevel && of.Anchor == nil
}

func (r *Request) component(name string) *placement.Component {
	for i := range r.Graph.Components {
		if s := &r.Graph.Components[i]; s.Name == name {
			return s
		}
	}
	return &placement.Component{Name: name}
}

// widest is the domain that a preempting replica has to be pinned to whatever its scheduler knows of domains: the graph's, which other
// replicas are in, the one that it is spread to, and that of a single-node component, all of whose replicas share it. Its pods' pins are
// where these are read from.
func (r *Request) widest(s *placement.Component, replica placement.ReplicaResult) topology.Path {
	switch {
	case !s.Multinode:
		return replica.Domain
	case s.Spread != nil:
		return replica.Domain.Truncate(max(r.Graph.Required, s.Spread.Required))
	}
	return replica.Domain.Truncate(r.Graph.Required)
}

// PinnedDomain is the narrowest domain, above the host, that holds all planned nodes of a replica. Its labels anchor the graph, also for
// earlier versions of the operator.
func PinnedDomain(c *topology.Cluster, levels topology.Levels, replica placement.ReplicaResult) topology.Path {
	var common topology.Path
	for i, pod := range replica.Pods {
		path := levels.PathOf(c.NodeLabels(pod.Node))
		if i == 0 {
			common = path
		}
		n := 0
		for n < min(len(common), len(path)) && common[n] == path[n] {
			n++
		}
		common = common[:n]
	}
	if host := levels.IndexOfKey(corev1.LabelHostname); host != topology.NoLevel {
		common = common.Truncate(host - 1)
	}
	if len(common) < len(replica.Domain) {
		return replica.Domain
	}
	return common
}
