// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
)

// Allocator chooses the devices that are allocated to claims.
type Allocator interface {
	// Allocate returns an allocation for each of the claims, in their order; none when the free devices are insufficient. It returns an
	// error when it cannot determine the allocations: a selector fails, a pool is invalid, or the allocation takes too long ([ErrTooLong]).
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
	// Taken are the devices of these pools that are already allocated to other claims.
	Taken []resourcev1.DeviceRequestAllocationResult
}

// ErrTooLong is the error that is returned when the allocation of claims on a node takes too long.
const ErrTooLong = constant("allocating them takes too long")

type constant string

// Error implements error.
func (c constant) Error() string { return string(c) }

// takes reports whether an allocation result consumes its device, or a share of the device.
func takes(r *resourcev1.DeviceRequestAllocationResult) bool {
	return r.AdminAccess == nil || !*r.AdminAccess
}
