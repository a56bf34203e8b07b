// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
)

// Allocator decides which devices claims get.
type Allocator interface {
	// Allocate returns an allocation for each of the claims, in their order; none when the devices that are left do not meet them. The error
	// is what keeps it from deciding: a selector that fails, a pool that is not valid, or that it takes too long ([ErrTooLong]).
	Allocate(Question) ([]resourcev1.AllocationResult, error)
	// Cost is the most that one evaluation of a selector may cost, in the units of CEL; 0 for one that does not compile.
	Cost(expression string) uint64
}

// Question is whether claims can be allocated on a node.
type Question struct {
	// Node has a name and labels.
	Node   *corev1.Node
	Claims []*resourcev1.ResourceClaim
	// Slices are those of all pools that reach the node, in all generations.
	Slices  []*resourcev1.ResourceSlice
	Classes map[string]*resourcev1.DeviceClass
	// Taken are the devices of these pools that others have.
	Taken []resourcev1.DeviceRequestAllocationResult
}

// ErrTooLong is returned for claims whose allocation on a node takes too long.
const ErrTooLong = constant("allocating them takes too long")

type constant string

// Error implements error.
func (c constant) Error() string { return string(c) }

// takes reports whether a result takes its device, or some of it, from others.
func takes(r *resourcev1.DeviceRequestAllocationResult) bool {
	return r.AdminAccess == nil || !*r.AdminAccess
}
