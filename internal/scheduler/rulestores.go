// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"github.com/trellis-k8s/trellis/internal/affinity"
	"github.com/trellis-k8s/trellis/internal/claims"
	"github.com/trellis-k8s/trellis/internal/claims/allocator"
	"github.com/trellis-k8s/trellis/internal/topology"
	"github.com/trellis-k8s/trellis/internal/volumes"
)

// +kubebuilder:rbac:groups="",resources=namespaces;persistentvolumeclaims;persistentvolumes,verbs=list;watch
// +kubebuilder:rbac:groups=storage.k8s.io,resources=csidrivers;csinodes;csistoragecapacities;storageclasses,verbs=list;watch

// binders are the binders of the cluster cache. They apply the rules that go beyond the resources, ports, taints and labels of one node.
type binders struct {
	affinity *affinity.Binder
	volumes  *volumes.Store
	claims   *claims.Store
	// allocator chooses the devices for claims.
	allocator *allocator.Allocator
	// known reports whether all volume objects are known, and claimed whether all devices and claims are known. A nil function means that
	// not all are known.
	known, claimed func() bool
}

func newBinders() binders {
	b := binders{affinity: &affinity.Binder{Namespaces: map[string]map[string]string{}}, volumes: volumes.NewStore(),
		allocator: allocator.New()}
	b.claims = claims.NewStore(b.allocator)
	b.volumes.Partial, b.claims.Partial = true, true
	return b
}

func (b *binders) all() []topology.Binder { return []topology.Binder{b.affinity, b.volumes, b.claims} }

// refresh updates the field Partial of the stores. If a store is not partial, a claim that is missing in the store does not exist.
func (b *binders) refresh() {
	if b.volumes.Partial {
		b.volumes.Partial = b.known == nil || !b.known()
	}
	if b.claims.Partial {
		b.claims.Partial = b.claimed == nil || !b.claimed()
	}
}
