// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package filters

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// devices are the objects of device claims, in the form that the plugin DynamicResources reads. Claims have the allocations of the bound
// pods.
type devices struct {
	// slices have the taints of the rules.
	slices  []*resourcev1.ResourceSlice
	classes map[string]*resourcev1.DeviceClass
	// initial are the claims before any pod is bound, claims the current ones.
	initial, claims map[string]*resourcev1.ResourceClaim
	// reached are the claims after each sequence of bindings that was replayed.
	reached map[string]map[string]*resourcev1.ResourceClaim
}

func newDevices(t testing.TB, objects []runtime.Object) *devices {
	d := &devices{
		classes: map[string]*resourcev1.DeviceClass{}, initial: map[string]*resourcev1.ResourceClaim{}, reached: map[string]map[string]*resourcev1.ResourceClaim{},
	}
	for _, o := range objects {
		switch o := o.(type) {
		case *resourcev1.DeviceClass:
			d.classes[o.Name] = o
		case *resourcev1.ResourceClaim:
			d.initial[o.Namespace+"/"+o.Name] = o
		}
	}
	d.claims = d.initial
	if len(objects) > 0 {
		d.slices = tainted(t, objects)
	}
	return d
}

// tainted returns the slices as the kube-scheduler's tracker has them, with the taints of the rules.
func tainted(t testing.TB, objects []runtime.Object) []*resourcev1.ResourceSlice {
	ctx := t.Context()
	client := fake.NewClientset(objects...)
	informed := informers.NewSharedInformerFactory(client, 0)
	resources := informed.Resource().V1()
	started, err := tracker.StartTracker(ctx, tracker.Options{
		EnableDeviceTaintRules: true, SliceInformer: resources.ResourceSlices(), TaintInformer: resources.DeviceTaintRules(),
		KubeClient: client,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer started.Stop()
	informed.Start(ctx.Done())
	<-started.HasSyncedChecker().Done()
	list, err := started.ListPatchedResourceSlices()
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(list, func(a, b *resourcev1.ResourceSlice) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// replay binds pods one after the other, as the scheduler would, and allocates their claims.
func (s *scheduler) replay(pods []*corev1.Pod) {
	d := s.devices
	d.claims = d.initial
	var before strings.Builder
	for i, pod := range pods {
		fmt.Fprintf(&before, " %s@%s", pod.Name, pod.Spec.NodeName)
		if known := d.reached[before.String()]; known != nil {
			d.claims = known
			continue
		}
		d.claims = maps.Clone(d.claims)
		s.SharedLister = internalcache.NewSnapshot(pods[:i], s.nodes)
		s.reserve(pod)
		d.reached[before.String()] = d.claims
	}
}

// reserve allocates the devices of a pod on its node, if possible.
func (s *scheduler) reserve(pod *corev1.Pod) {
	unbound, ctx, state := pod.DeepCopy(), s.t.Context(), framework.NewCycleState()
	unbound.Spec.NodeName = ""
	if _, status, _ := s.plugins.RunPreFilterPlugins(ctx, state, unbound); !status.IsSuccess() {
		return
	}
	info, err := s.NodeInfos().Get(pod.Spec.NodeName)
	if err != nil {
		s.t.Fatal(err)
	}
	if s.plugins.RunFilterPlugins(ctx, state, unbound, info).IsSuccess() {
		if status := s.plugins.RunReservePluginsReserve(ctx, state, unbound, pod.Spec.NodeName); !status.IsSuccess() {
			s.t.Fatal(status.AsError())
		}
	}
}

// ResourceClaims implements fwk.SharedDRAManager.
func (d *devices) ResourceClaims() fwk.ResourceClaimTracker { return claimTracker{d} }

// ResourceSlices implements fwk.SharedDRAManager.
func (d *devices) ResourceSlices() fwk.ResourceSliceLister { return d }

// DeviceClasses implements fwk.SharedDRAManager.
func (d *devices) DeviceClasses() fwk.DeviceClassLister { return classLister{d} }

// DeviceClassResolver implements fwk.SharedDRAManager.
func (d *devices) DeviceClassResolver() fwk.DeviceClassResolver { return d }

// ListWithDeviceTaintRules implements fwk.ResourceSliceLister.
func (d *devices) ListWithDeviceTaintRules() ([]*resourcev1.ResourceSlice, error) {
	return d.slices, nil
}

// GetDeviceClass implements fwk.DeviceClassResolver.
func (d *devices) GetDeviceClass(resource corev1.ResourceName) *resourcev1.DeviceClass {
	if name, implicit := strings.CutPrefix(string(resource), resourcev1.ResourceDeviceClassPrefix); implicit {
		return d.classes[name]
	}
	for _, c := range d.classes {
		if c.Spec.ExtendedResourceName != nil && *c.Spec.ExtendedResourceName == string(resource) {
			return c
		}
	}
	return nil
}

// classLister implements fwk.DeviceClassLister.
type classLister struct{ *devices }

// List implements fwk.DeviceClassLister.
func (l classLister) List() ([]*resourcev1.DeviceClass, error) {
	return slices.Collect(maps.Values(l.classes)), nil
}

// Get implements fwk.DeviceClassLister.
func (l classLister) Get(name string) (*resourcev1.DeviceClass, error) {
	if c := l.classes[name]; c != nil {
		return c, nil
	}
	return nil, apierrors.NewNotFound(resourcev1.Resource("deviceclasses"), name)
}

// claimTracker implements fwk.ResourceClaimTracker. A reservation allocates at once.
type claimTracker struct{ *devices }

// List implements fwk.ResourceClaimTracker.
func (t claimTracker) List() ([]*resourcev1.ResourceClaim, error) {
	return slices.Collect(maps.Values(t.claims)), nil
}

// Get implements fwk.ResourceClaimTracker.
func (t claimTracker) Get(namespace, name string) (*resourcev1.ResourceClaim, error) {
	if c := t.claims[namespace+"/"+name]; c != nil {
		return c, nil
	}
	return nil, apierrors.NewNotFound(resourcev1.Resource("resourceclaims"), name)
}

// ListAllAllocatedDevices implements fwk.ResourceClaimTracker.
func (t claimTracker) ListAllAllocatedDevices() (sets.Set[structured.DeviceID], error) {
	state, err := t.GatherAllocatedState()
	return state.AllocatedDevices, err
}

// GatherAllocatedState implements fwk.ResourceClaimTracker.
func (t claimTracker) GatherAllocatedState() (*structured.AllocatedState, error) {
	state := &structured.AllocatedState{
		AllocatedDevices: sets.New[structured.DeviceID](), AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity: structured.NewConsumedCapacityCollection(),
	}
	for _, c := range t.claims {
		if c.Status.Allocation == nil {
			continue
		}
		for _, r := range c.Status.Allocation.Devices.Results {
			if r.AdminAccess == nil || !*r.AdminAccess {
				state.AllocatedDevices.Insert(structured.MakeDeviceID(r.Driver, r.Pool, r.Device))
			}
		}
	}
	return state, nil
}

// SignalClaimPendingAllocation implements fwk.ResourceClaimTracker.
func (t claimTracker) SignalClaimPendingAllocation(uid types.UID, claim *resourcev1.ResourceClaim) error {
	name := claim.Namespace + "/" + claim.Name
	if t.claims[name] == nil {
		name += " " + string(uid) // the claim created for extended resources
	}
	t.claims[name] = claim
	return nil
}

// GetPendingAllocation implements fwk.ResourceClaimTracker.
func (t claimTracker) GetPendingAllocation(types.UID) *resourcev1.AllocationResult { return nil }

// MaybeRemoveClaimPendingAllocation implements fwk.ResourceClaimTracker.
func (t claimTracker) MaybeRemoveClaimPendingAllocation(types.UID, bool) bool { return false }

// AssumeClaimAfterAPICall implements fwk.ResourceClaimTracker.
func (t claimTracker) AssumeClaimAfterAPICall(*resourcev1.ResourceClaim) error { return nil }

// AssumedClaimRestore implements fwk.ResourceClaimTracker.
func (t claimTracker) AssumedClaimRestore(string, string) {}
