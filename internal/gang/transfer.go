// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// RoleOf returns the role of a group whose replicas a kvTransferPolicy places; NoRole for other groups.
func RoleOf(sg *trellisv1alpha1.ScalingGroup) placement.Role {
	if !constraint.Transfers(sg.Spec.Topology) || len(sg.Spec.Roles) == 0 {
		return placement.NoRole
	}
	labels := sg.Spec.Roles[0].Template.Labels
	switch cmp.Or(labels[render.LabelSubComponentType], labels[render.LabelComponentType]) {
	case placement.Prefill.String():
		return placement.Prefill
	case placement.Decode.String():
		return placement.Decode
	}
	return placement.NoRole
}

// pair adds the replicas of a component to the pairing of the graph.
func (r *Request) pair(sg *trellisv1alpha1.ScalingGroup, component *placement.Component, states []replicaState) {
	role := RoleOf(sg)
	if role == placement.NoRole {
		return
	}
	component.Role = role
	t := sg.Spec.Topology
	if r.Graph.Pairing == nil {
		r.Graph.Pairing = &placement.Pairing{Level: LevelsOf(t).Index(t.KVTransferDomain), Required: t.KVTransferRequired}
	}
	p := r.Graph.Pairing
	if role == placement.Prefill {
		p.Prefill += int(sg.Spec.Replicas)
	} else {
		p.Decode += int(sg.Spec.Replicas)
	}
	for _, state := range states {
		if len(state.open) > 0 && len(state.closed) == 0 && state.absent == 0 && !state.replaced() {
			p.At = append(p.At, placement.Paired{Role: role, Generation: generationOf(sg, state), Domain: state.path})
		}
	}
}

// generationOf returns the generation of workers to which a replica belongs, or will belong; "" for none.
func generationOf(sg *trellisv1alpha1.ScalingGroup, state replicaState) string {
	for _, pods := range [][]*corev1.Pod{state.open, state.closed} {
		if len(pods) > 0 {
			return pods[0].Labels[render.LabelWorkerHash]
		}
	}
	if len(sg.Spec.Roles) == 0 {
		return ""
	}
	return sg.Spec.Roles[0].Template.Labels[render.LabelWorkerHash]
}

// Transfer describes which prefill and decode replicas share a domain. Replicas share a domain if they are of one generation of workers,
// and are in one domain of the level that the deployment's kvTransferPolicy names.
type Transfer struct {
	// Level is the name of the level. Required: the first replicas in a domain must include both roles.
	Level    string
	Required bool
	// Prefill and Decode count the bound replicas of the two roles.
	Prefill, Decode PairedReplicas
	// Domains are the domains with replicas of the roles, sorted by path.
	Domains []TransferIn
}

// PairedReplicas counts the bound replicas of one role. Paired is how many of them have replicas of the other role in their domain.
type PairedReplicas struct {
	Role          placement.Role
	Bound, Paired int
}

// TransferIn counts the replicas of the two roles in one domain, of one generation. The empty path stands for replicas in no domain.
type TransferIn struct {
	Domain          topology.Path
	Prefill, Decode int

	generation string
}

// alone reports whether only one of the roles is in the domain, or the replicas are in no domain.
func (in *TransferIn) alone() bool { return len(in.Domain) == 0 || in.Prefill == 0 || in.Decode == 0 }

// Transferring is one replica with its role.
type Transferring struct {
	Role       placement.Role
	Generation string
	// Domain is the domain, of any level, that holds the replica's pods.
	Domain topology.Path
}

// TransferOf counts bound replicas by the current labels of their pods' nodes; nil when no kvTransferPolicy places the replicas.
func TransferOf(groups []*trellisv1alpha1.ScalingGroup, pods []*corev1.Pod, nodeLabels func(string) map[string]string) *Transfer {
	var policy *trellisv1alpha1.ResolvedTopology
	var list []Transferring
	for _, sg := range groups {
		role := RoleOf(sg)
		if role == placement.NoRole {
			continue
		}
		policy = sg.Spec.Topology
		levels := LevelsOf(policy)
		own := slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool { return !render.Member(pod, sg) || Leaving(pod) })
		for _, of := range podsByOrdinal(own) {
			if path, bound := SharedDomain(levels, of, nodeLabels); bound && len(of) == render.ReplicaSize(sg, of[0]) {
				list = append(list, Transferring{role, of[0].Labels[render.LabelWorkerHash], path})
			}
		}
	}
	return NewTransfer(policy, list)
}

// SharedDomain returns the narrowest domain that holds all the pods; false when there are no pods, or when a pod has no node.
func SharedDomain(levels topology.Levels, pods []*corev1.Pod, nodeLabels func(string) map[string]string) (
	shared topology.Path, bound bool,
) {
	for i, pod := range pods {
		if pod.Spec.NodeName == "" {
			return nil, false
		}
		path := levels.PathOf(nodeLabels(pod.Spec.NodeName))
		if i == 0 {
			shared = path
		}
		for !shared.Contains(path) {
			shared = shared[:len(shared)-1]
		}
	}
	return shared, len(pods) > 0
}

// NewTransfer counts replicas by their domains of the policy's level; nil without a policy.
func NewTransfer(policy *trellisv1alpha1.ResolvedTopology, replicas []Transferring) *Transfer {
	if !constraint.Transfers(policy) {
		return nil
	}
	t := &Transfer{
		Level: policy.KVTransferDomain, Required: policy.KVTransferRequired,
		Prefill: PairedReplicas{Role: placement.Prefill}, Decode: PairedReplicas{Role: placement.Decode},
	}
	level := constraint.Level(policy, policy.KVTransferDomain)
	for _, one := range replicas {
		var domain topology.Path
		if len(one.Domain) > level {
			domain = one.Domain.Truncate(level)
		}
		t.add(one, domain)
	}
	slices.SortFunc(t.Domains, func(a, b TransferIn) int {
		return cmp.Or(a.Domain.Compare(b.Domain), cmp.Compare(a.generation, b.generation))
	})
	for i := range t.Domains {
		in := &t.Domains[i]
		t.Prefill.Bound += in.Prefill
		t.Decode.Bound += in.Decode
		if !in.alone() {
			t.Prefill.Paired += in.Prefill
			t.Decode.Paired += in.Decode
		}
	}
	return t
}

func (t *Transfer) add(one Transferring, domain topology.Path) {
	at := slices.IndexFunc(t.Domains, func(in TransferIn) bool { return in.generation == one.Generation && in.Domain.Equal(domain) })
	if at < 0 {
		at = len(t.Domains)
		t.Domains = append(t.Domains, TransferIn{Domain: domain, generation: one.Generation})
	}
	if one.Role == placement.Prefill {
		t.Domains[at].Prefill++
	} else {
		t.Domains[at].Decode++
	}
}

// Percent returns the percentage of bound replicas that have replicas of the other role in their domain; false when no replica is bound.
func (p PairedReplicas) Percent() (percent int32, known bool) {
	if p.Bound == 0 {
		return 0, false
	}
	return int32(100 * p.Paired / p.Bound), true
}

// Alone returns the domains with only one of the roles, and the entry for replicas in no domain.
func (t *Transfer) Alone() (domains []TransferIn) {
	if t == nil {
		return nil
	}
	for i := range t.Domains {
		if t.Domains[i].alone() {
			domains = append(domains, t.Domains[i])
		}
	}
	return domains
}

// Text returns a summary: "4 of 5 decode replicas have prefill in their rack, 5 of 5 prefill replicas have decode".
func (t *Transfer) Text() string {
	return fmt.Sprintf("%d of %d decode replicas have prefill in their %s, %d of %d prefill replicas have decode",
		t.Decode.Paired, t.Decode.Bound, t.Level, t.Prefill.Paired, t.Prefill.Bound)
}

// maxAlone is the maximum number of domains that a message names.
const maxAlone = 3

// AloneText describes the first domains of [Transfer.Alone], and counts the others; "" when there are none.
func (t *Transfer) AloneText() string {
	alone := t.Alone()
	if len(alone) == 0 {
		return ""
	}
	named := make([]string, 0, maxAlone)
	for _, in := range alone[:min(len(alone), maxAlone)] {
		named = append(named, in.aloneText(t.Level))
	}
	return limit.Join(named, len(alone), maxAlone, "; ")
}

func (in *TransferIn) aloneText(level string) string {
	n, role, other := in.Decode, placement.Decode, placement.Prefill
	if in.Decode == 0 {
		n, role, other = in.Prefill, placement.Prefill, placement.Decode
	}
	switch {
	case len(in.Domain) == 0:
		return fmt.Sprintf("%d prefill and %d decode replicas are in no %s", in.Prefill, in.Decode, level)
	case n == 1:
		return fmt.Sprintf("1 %s replica in %s has no %s in its %s", role, in.Domain, other, level)
	}
	return fmt.Sprintf("%d %s replicas in %s have no %s in their %s", n, role, in.Domain, other, level)
}
