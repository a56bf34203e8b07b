// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package allocator allocates devices to claims with the kube-scheduler's allocator (k8s.io/dynamic-resource-allocation). That library
// needs a context, writes logs, and promises no compatibility, so only this package uses it. Its minor version is the minor version of
// Kubernetes in go.mod. This package enables the features that a kube-scheduler of this version enables by default. An older API server
// drops the fields of features that it does not support.
package allocator

import (
	"context"
	"errors"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/klog/v2"
	"k8s.io/utils/lru"

	"github.com/trellis-k8s/trellis/internal/claims"
)

const (
	// within is the time limit of one allocation on one node. The kube-scheduler allows 10 seconds. The limit is lower here, because
	// planning waits for the allocation.
	within = time.Second
	// estimated is the number of selectors whose estimated cost is cached.
	estimated = 4096
)

// Features are the features that a kube-scheduler of this version has by default.
var Features = structured.Features{
	AdminAccess: true, ConsumableCapacity: true, DeviceBindingAndStatus: true, DeviceTaints: true, PartitionableDevices: true,
	PrioritizedList: true,
}

// ofSelectors are the features that concern selectors.
var ofSelectors = cel.Features{EnableConsumableCapacity: true}

// Allocator implements claims.Allocator. It is safe for concurrent use.
//
// Selectors are evaluated inside Allocate, because the kube-scheduler's allocator accepts no precomputed results.
type Allocator struct {
	selectors *cel.Cache
	// costs caches the estimated costs, by expression.
	costs *lru.Cache
}

// New returns an allocator without any compiled selector.
func New() *Allocator {
	return &Allocator{selectors: cel.NewCache(claims.Compiled, ofSelectors), costs: lru.New(estimated)}
}

// Cost implements claims.Allocator. An estimate takes milliseconds and is cached.
func (a *Allocator) Cost(expression string) uint64 {
	if cost, known := a.costs.Get(expression); known {
		return cost.(uint64)
	}
	cost := uint64(0)
	if result := cel.GetCompiler(ofSelectors).CompileCELExpression(expression, cel.Options{}); result.Error == nil {
		cost = result.MaxCost
	}
	a.costs.Add(expression, cost)
	return cost
}

// Compile compiles the selectors of an object and estimates their cost, which takes milliseconds for each selector. A later Allocate or
// Cost then uses the cached results.
func (a *Allocator) Compile(object any) {
	switch o := object.(type) {
	case *resourcev1.DeviceClass:
		a.compile(o.Spec.Selectors)
	case *resourcev1.ResourceClaim:
		if o.Status.Allocation == nil {
			a.compileClaim(&o.Spec)
		}
	case *resourcev1.ResourceClaimTemplate:
		a.compileClaim(&o.Spec.Spec)
	}
}

func (a *Allocator) compileClaim(spec *resourcev1.ResourceClaimSpec) {
	for i := range spec.Devices.Requests {
		r := &spec.Devices.Requests[i]
		if r.Exactly != nil {
			a.compile(r.Exactly.Selectors)
		}
		for k := range r.FirstAvailable {
			a.compile(r.FirstAvailable[k].Selectors)
		}
	}
}

func (a *Allocator) compile(selectors []resourcev1.DeviceSelector) {
	for i := range selectors {
		if selectors[i].CEL != nil {
			a.selectors.GetOrCompile(selectors[i].CEL.Expression)
			a.Cost(selectors[i].CEL.Expression)
		}
	}
}

// Allocate implements claims.Allocator.
func (a *Allocator) Allocate(q claims.Question) ([]resourcev1.AllocationResult, error) {
	ctx, cancel := context.WithTimeout(klog.NewContext(context.Background(), klog.Logger{}), within)
	defer cancel()
	allocator, err := structured.NewAllocator(ctx, Features, stateOf(q.Taken), classes(q.Classes), q.Slices, a.selectors)
	if err != nil {
		return nil, err
	}
	results, err := allocator.Allocate(ctx, q.Node, q.Claims)
	if errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
		return nil, claims.ErrTooLong
	}
	return results, err
}

// stateOf converts the taken devices to the allocator's form.
func stateOf(taken []resourcev1.DeviceRequestAllocationResult) structured.AllocatedState {
	state := structured.AllocatedState{
		AllocatedDevices: sets.New[structured.DeviceID](), AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity: structured.NewConsumedCapacityCollection(),
	}
	for i := range taken {
		r := &taken[i]
		id := structured.MakeDeviceID(r.Driver, r.Pool, r.Device)
		if r.ShareID == nil {
			state.AllocatedDevices.Insert(id)
			continue
		}
		state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, r.ShareID))
		if r.ConsumedCapacity != nil {
			state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, r.ConsumedCapacity))
		}
	}
	return state
}

// classes implements structured.DeviceClassLister.
type classes map[string]*resourcev1.DeviceClass

// List implements structured.DeviceClassLister.
func (c classes) List() (list []*resourcev1.DeviceClass, err error) {
	for _, class := range c {
		list = append(list, class)
	}
	return list, nil
}

// Get implements structured.DeviceClassLister.
func (c classes) Get(name string) (*resourcev1.DeviceClass, error) {
	if class := c[name]; class != nil {
		return class, nil
	}
	return nil, apierrors.NewNotFound(resourcev1.Resource("deviceclasses"), name)
}
