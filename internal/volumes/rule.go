// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"slices"
	"strconv"
	"strings"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// rule contains the constraints that the claims of a class impose on nodes regardless of other pods of the plan.
type rule struct {
	key      string
	claims   []*claim
	together bool
	// full contains the nodes on which a driver is missing or attaches no further volume, each with the reason.
	full map[string]string
	// used is the reason that keeps the pods off every node because another pod has exclusive use of a claim; "" for none.
	used string
}

// judge completes the rules with the volumes that existing pods use.
func (b *binding) judge() {
	for _, class := range b.ofRule {
		r := class.rule
		if !slices.ContainsFunc(class.claims, b.binds) {
			delete(b.ofRule, r)
			class.rule = nil
			continue
		}
		r.together = slices.ContainsFunc(class.claims, b.matters)
		for _, c := range class.claims {
			if u := b.uses[c.name]; u != nil && c.exclusive() && u.total > 0 {
				r.used = "volume claim " + c.name.Name + " (ReadWriteOncePod) is in use by " + u.first
			}
		}
		r.full = map[string]string{}
		b.cluster.EachNode(func(n topology.NodeID) {
			b.cluster.Spend(len(class.claims))
			if why := b.full(class, n); why != "" {
				r.full[b.cluster.NodeName(n)] = why
			}
		})
		r.key = strings.Join([]string{
			"volumes", r.key, strconv.FormatInt(int64(b.store.version), 10), strconv.FormatBool(r.together), r.used, joined(r.full),
		}, "\x01")
		r.key = strconv.FormatUint(topology.HashOf(r.key), 16) + " " + r.used
	}
}

func joined(m map[string]string) string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ",")
}

// binds reports whether a claim may keep its pods off some node.
func (b *binding) binds(c *claim) bool {
	driver, _ := c.handle()
	return c.unusable != "" || c.class != nil || b.matters(c) || b.store.requires(driver) ||
		c.volume != nil && (c.volume.Spec.NodeAffinity != nil || zoned(c.volume.PersistentVolume))
}

// matters reports whether other pods of the plan affect pods with a claim: the pods share a volume that is not chosen yet, only one of them
// may use the claim, or a driver limits the volumes that it attaches.
func (b *binding) matters(c *claim) bool {
	if c.class != nil && !c.own || c.exclusive() {
		return true
	}
	driver, _ := c.handle()
	for _, node := range b.store.nodes {
		if _, limited := limitOf(node, driver); limited {
			return true
		}
	}
	return false
}

// Key implements topology.Rule.
func (r *rule) Key() string { return r.key }

// Together implements topology.Rule.
func (r *rule) Together() bool { return r.together }

// Blocked implements topology.Blocker.
func (r *rule) Blocked() string {
	for _, c := range r.claims {
		if c.unusable != "" {
			return c.unusable
		}
	}
	return r.used
}

// Keeps implements topology.Rule.
func (r *rule) Keeps(node string, labels map[string]string) string {
	if r.used != "" {
		return r.used
	}
	for _, c := range r.claims {
		if why := c.keeps(node, labels); why != "" {
			return why
		}
	}
	return r.full[node]
}
