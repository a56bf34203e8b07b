// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
)

// Allocator decides which devices are allocated to claims.
type Allocator interface {
	// Allocate returns an allocation for each of the claims, in their order; none when the free devices are insufficient. An error means that
	// it cannot decide: a selector fails, a pool is invalid, or the decision takes too long ([ErrTooLong]).
	Allocate(Question) ([]resourcev1.AllocationResult, error)
	// Cost returns the maximum cost of one evaluation of a selector, in CEL cost units; 0 for a selector that does not compile.
	Cost(expression string) uint64
}

// Question asks whether claims can be allocated on a node.
type Question struct {
	// Node has only a name and labels.
	Node   *corev1.Node
	Claims []*resourcev1.ResourceClaim
	// Slices are the slices of all pools that the node can access, in all generations.
	Slices  []*resourcev1.ResourceSlice
	Classes map[string]*resourcev1.DeviceClass
	// Taken are the devices of these pools that other claims have.
	Taken []resourcev1.DeviceRequestAllocationResult
}

// ErrTooLong is the error for claims whose allocation on a node takes too long.
const ErrTooLong = constant("allocating them takes too long")

type constant string

// Error implements error.
func (c constant) Error() string { return string(c) }

// takes reports whether a result consumes its device, or a share of it.
func takes(r *resourcev1.DeviceRequestAllocationResult) bool {
	return r.AdminAccess == nil || !*r.AdminAccess
}
