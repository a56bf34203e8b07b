// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Release is where one pod goes, and how: a gated pod is patched, and one that does not exist yet is created.
type Release struct {
	Pod *corev1.Pod
	Pin Pin
	// Group of the pod, set for releases to recorded places.
	Group *trellisv1alpha1.ScalingGroup
	// New: the pod does not exist. It is created with its pins and without Trellis' gate. Pod is what stands for it in plans; see [Creation].
	New bool
	// Domain that the pod is pinned to.
	Domain topology.Path
	// Base: of the gang that a graph in one domain begins with.
	Base bool
	// Undecided are the domains, broadest first, that it shares with others and that no released pod decides yet: that of its graph, and
	// that of its single-node component. The first pod that is released in one decides where the others go.
	Undecided []string
}

// Base is the gang that a graph in one domain begins with. The zero value is that of a graph which has begun.
type Base struct {
	Name string
	// Replicas of it.
	Replicas []Key
}

// Base returns the gang that a plan begins a graph with.
func (r *Request) Base(planned *placement.Result) Base {
	var members []placement.ReplicaResult
	var keys []Key
	for _, replica := range planned.Replicas {
		if replica.Refusal == nil && replica.Base {
			members = append(members, replica)
			keys = append(keys, Key{Component: replica.Component, Ordinal: replica.Ordinal})
		}
	}
	return Base{Name: name(r.Graph.Name, members...), Replicas: keys}
}

// Identity is equal for gangs of the same replicas.
func (b Base) Identity() string {
	lines := make([]string, 0, len(b.Replicas))
	for _, key := range b.Replicas {
		lines = append(lines, fmt.Sprintf("%s %d\n", key.Component, key.Ordinal))
	}
	slices.Sort(lines)
	return digest(lines)
}

// name is the same for the same pods and differs for their successors.
func name(dgd string, members ...placement.ReplicaResult) string {
	var lines []string
	for _, replica := range members {
		for _, pod := range replica.Pods {
			lines = append(lines, pod.ID+"\n")
		}
	}
	return dgd + "-" + digest(lines)
}

func digest(lines []string) string {
	hash := sha256.Sum256([]byte(strings.Join(lines, "")))
	return hex.EncodeToString(hash[:5])
}

// Releases pins one replica's pods to their planned hosts, and to the path labels of the domain around them (docs/providers.md#gates).
// c is the cluster that the replica was planned on.
func (r *Request) Releases(c *topology.Cluster, replica placement.ReplicaResult, base Base) []Release {
	key := Key{Component: replica.Component, Ordinal: replica.Ordinal}
	gang := cmp.Or(r.gangs[key], r.rests[key].gang)
	if gang == "" && replica.Base {
		gang = base.Name
	}
	if gang == "" {
		gang = name(r.Graph.Name, replica)
	}
	place := r.Graph.PlaceOf(replica.Component)
	domain := PinnedDomain(c, place.Levels, replica)
	labels := place.Labels(domain)
	of := r.component(replica.Component)
	begins, created := replica.Base && gang == base.Name, r.Creation(replica) != nil
	replicas := r.rests[key].replicas
	if begins && len(base.Replicas) > 1 {
		replicas = base.Identity()
	}
	out := make([]Release, 0, len(replica.Pods))
	for _, planned := range replica.Pods {
		pin := Pin{Graph: r.Graph.Name, Gang: gang, Labels: labels, Node: planned.Node, Apart: of.Apart}
		pin.GangReplicas = replicas
		if replica.Preempts != nil {
			pin.Preempts, pin.Wide = true, place.Labels(r.widest(of, replica))
		}
		out = append(out, Release{
			Pod: r.Gated[planned.ID], Pin: pin, New: created, Domain: domain, Base: begins, Undecided: r.undecided(of),
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
