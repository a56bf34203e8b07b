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

// Release is the release of one pod to its place: a gated pod is patched, and a [Planned] pod is created.
type Release struct {
	Pod *corev1.Pod
	Pin Pin
	// Group is the scaling group of the pod, set for releases to recorded places.
	Group *trellisv1alpha1.ScalingGroup
	// Domain is the domain to which the pod is pinned.
	Domain topology.Path
	// Base: the pod belongs to the base gang, the first gang of a graph that must be in one domain. Rest: other replicas of the pod's base
	// gang are already released.
	Base, Rest bool
	// Undecided are the domains, the broadest first, that the pod shares with other pods and that no released pod determines yet: the
	// domains of the pod's graph and single-node component. The first pod that is released into such a domain determines it for the other
	// pods.
	Undecided []string
}

// BaseName returns the name of the base gang that a plan places.
func (r *Request) BaseName(planned *placement.Result) string {
	var members []placement.ReplicaResult
	for _, replica := range planned.Replicas {
		if replica.Refusal == nil && replica.Base {
			members = append(members, replica)
		}
	}
	return r.name(members...)
}

// name returns the name of a gang. The name is the same for the same pods, and differs for their successors. A planned pod has the same ID
// as its predecessor, so the name also depends on the attempt of the pod's replica.
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

// Releases returns the releases that pin one replica's pods to their planned hosts, and to the labels of the domain that contains these
// hosts (docs/providers.md#gates). c is the cluster on which the replica was planned, and base the name of the base gang.
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

// OfGraph stands for the domain of the graph in [Release.Undecided].
const OfGraph = "graph"

// undecided returns the domains that the replicas of a component share and that no released pod determines yet, the broadest first.
func (r *Request) undecided(of *placement.Component) (domains []string) {
	if r.Graph.Required != topology.NoLevel && r.Graph.Anchor == nil {
		domains = append(domains, OfGraph)
	}
	if undecidedComponent(of) {
		domains = append(domains, "component "+of.Name) // same as [ofComponent]
	}
	return domains
}

// undecidedComponent reports whether the replicas of a component share a domain that no released pod determines yet.
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

// widest returns the widest domain to which Trellis must pin a preempting replica, even if the replica's scheduler enforces narrower
// domains itself. This is the domain of the graph, the domain to which the replica is spread, or the domain that all replicas of a
// single-node component share. Later plans read these domains from the pins of the replica's pods.
func (r *Request) widest(s *placement.Component, replica placement.ReplicaResult) topology.Path {
	switch {
	case !s.Multinode:
		return replica.Domain
	case s.Spread != nil:
		return replica.Domain.Truncate(max(r.Graph.Required, s.Spread.Required))
	}
	return replica.Domain.Truncate(r.Graph.Required)
}

// PinnedDomain returns the narrowest domain, above the host, that holds all planned nodes of a replica. The replica's pods are pinned to
// the labels of this domain. Later plans, and earlier versions of the operator, read the graph domain from these labels.
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
