// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"strconv"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// Excludes implements topology.Binding.
func (b *binding) Excludes(s *topology.Shape, n topology.NodeID, _ topology.DomainID) string {
	return b.Bars(s, n, topology.Root)
}

// Bars implements topology.Binding. Every exclusion is final, because further pods only use more claims and attachments.
func (b *binding) Bars(s *topology.Shape, n topology.NodeID, _ topology.DomainID) string {
	class := b.classOf(s)
	if class == nil || !class.rule.together {
		return ""
	}
	b.cluster.Spend(len(class.claims))
	for _, c := range class.claims {
		u := b.uses[c.name]
		switch {
		case u == nil || u.total == 0:
		case c.exclusive():
			return "volume claim " + c.name.Name + " (ReadWriteOncePod) has one pod"
		case c.class != nil:
			if why := b.tied(u, n); why != "" {
				return why
			}
		}
	}
	return b.full(class, n)
}

// tied returns the reason if a node cannot use the volume that the first pod with a claim gets; "" otherwise.
func (b *binding) tied(u *use, n topology.NodeID) string {
	for at := range u.pods {
		if at == n {
			continue
		}
		v, why := u.claim.choice(b.cluster.NodeName(at), b.cluster.LabelsOf(at), nil)
		switch {
		case why != "": // the first pod gets no volume there
		case v != nil && b.store.reach(v, b.cluster.LabelsOf(n)) != "":
			return "volume " + v.Name + ", which claim " + u.claim.name.Name + " gets, is elsewhere"
		case v == nil && !b.sameSegment(u.claim.class.Provisioner, at, n):
			return "volume of claim " + u.claim.name.Name + " is made elsewhere"
		}
	}
	return ""
}

// sameSegment reports whether a volume that a driver provisions for one node can be used on another node.
func (b *binding) sameSegment(driver string, at, n topology.NodeID) bool {
	node := b.store.nodes[b.cluster.NodeName(at)]
	if node == nil {
		return true
	}
	for i := range node.Spec.Drivers {
		if node.Spec.Drivers[i].Name != driver {
			continue
		}
		for _, key := range node.Spec.Drivers[i].TopologyKeys {
			if b.cluster.LabelsOf(at)[key] != b.cluster.LabelsOf(n)[key] {
				return false
			}
		}
	}
	return true
}

// Mark implements topology.Binding.
func (b *binding) Mark(n topology.NodeID) (mark uint64) {
	for _, u := range b.uses {
		if u.claim.chooses() {
			if v, _ := u.claim.choice(b.cluster.NodeName(n), b.cluster.LabelsOf(n), nil); v != nil {
				mark += topology.HashOf(v.Name)
			}
		}
	}
	node := b.store.nodes[b.cluster.NodeName(n)]
	if node == nil {
		return mark
	}
	for i := range node.Spec.Drivers {
		d := &node.Spec.Drivers[i]
		limit, _ := limitOf(node, d.Name)
		mark += topology.HashOf(d.Name, strconv.Itoa(limit), strconv.Itoa(b.perNode[slot{n, d.Name}]))
		for _, key := range d.TopologyKeys {
			mark += topology.HashOf(key, b.cluster.LabelsOf(n)[key])
		}
	}
	return mark
}
