// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"github.com/trellis-k8s/trellis/internal/topology"
)

// order contains the claims of pods that are bound one after the other. The order matters where pods share an unbound claim, because the
// first of these pods chooses the volume. It does not matter for attachments and exclusive claims.
type order struct {
	*binding
	pods []topology.Waiting
}

// Order implements topology.Binding.
func (b *binding) Order(pods []topology.Waiting) topology.Order { return &order{b, pods} }

// choosing returns the shared claims of a pod for which no volume is chosen yet.
func (o *order) choosing(i int) (list []*use) {
	class := o.classOf(o.pods[i].Shape)
	if class == nil || !class.rule.together {
		return nil
	}
	for _, c := range class.claims {
		if u := o.uses[c.name]; u != nil && c.class != nil {
			list = append(list, u)
		}
	}
	return list
}

// Ties implements topology.Order.
func (o *order) Ties(i int) (list []string) {
	for _, u := range o.choosing(i) {
		list = append(list, "volume of "+u.claim.name.String())
	}
	return list
}

// Refuses implements topology.Order.
func (o *order) Refuses(i int) bool {
	return o.Bars(o.pods[i].Shape, o.pods[i].Node, topology.Root) != ""
}

// Free implements topology.Order. Once one pod has chosen the volume, the order of the other pods does not matter.
func (o *order) Free(i int) bool {
	for _, u := range o.choosing(i) {
		if u.total == 0 {
			return false
		}
	}
	return true
}

// Alike implements topology.Order.
func (o *order) Alike(i int) string {
	if len(o.choosing(i)) > 0 {
		return ""
	}
	return "any"
}

// Orderly implements topology.Order.
func (o *order) Orderly([]int) (every, known bool) { return false, false }

// State implements topology.Order.
func (o *order) State() uint64 { return 0 }
