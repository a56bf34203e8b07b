// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/trellis-k8s/trellis/internal/provider"
)

const deviceDriver = "gpu.example.com"

// withDevices has the pods of a graph claim devices by a template.
func withDevices(b *bench, number int) graphs {
	o := asking(number, 2, 0)
	for _, pod := range o.Pods {
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpus", ResourceClaimTemplateName: ptr.To("gpus")}}
	}
	all := graphs{o.DGD.Name: o}
	b.s.objects.reader, b.s.providers = all, provider.New(provider.Options{}, provider.All{Placers: []provider.Placer{silent{}}})
	b.s.queue.add(clientKey(o))
	return all
}

// devicesOf publishes two devices of a host.
func devicesOf(host string) *resourcev1.ResourceSlice {
	return &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: host}, Spec: resourcev1.ResourceSliceSpec{
		Driver: deviceDriver, NodeName: &host, Pool: resourcev1.ResourcePool{Name: host, Generation: 1, ResourceSliceCount: 1},
		Devices: []resourcev1.Device{{Name: "0"}, {Name: "1"}},
	}}
}

// pairTemplate asks for both devices of a host.
func pairTemplate() *resourcev1.ResourceClaimTemplate {
	t := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "gpus"}}
	t.Spec.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{
		DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 2}}}
	return t
}

// used is a claim of others that has a device of a host.
func used(host string) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "theirs", UID: "theirs"}}
	c.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
		Results: []resourcev1.DeviceRequestAllocationResult{{Request: "r", Driver: deviceDriver, Pool: host, Device: "1"}}}}
	return c
}

func gpuClass() *resourcev1.DeviceClass {
	return &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
}

// Claims bind nothing until the devices are known. Then pods wait for the template of their claims, for its class, for the devices, and go where these are.
func TestPodsWaitForTheirDevices(t *testing.T) {
	b := newBench(t, Options{})
	known := false
	b.s.ledger.devicesKnown(func() bool { return known })
	withDevices(b, 1)
	if b.look(); len(b.s.queue.waiting) != 0 {
		t.Fatal("pods wait for a claim that may be there")
	}

	b = newBench(t, Options{})
	known = true
	b.s.ledger.devicesKnown(func() bool { return known })
	all := withDevices(b, 1)
	const needs = "needs 2 pods x 1 gpu in one rack"
	waits := func(why string) {
		t.Helper()
		b.look()
		b.expect("what it waits for", all["g1"], why)
	}
	waits("resource claim template gpus does not exist; " + needs)
	b.s.queue.wakeUp(b.s.ledger.claimSet(pairTemplate()))
	waits("device class gpu of resource claim of template gpus does not exist; " + needs)
	b.s.queue.wakeUp(b.s.ledger.claimSet(gpuClass()))
	waits(needs + "; z/a holds 0 of 2 (2 hosts resource claim of template gpus: 0 of 2 devices of class gpu free); 1 other rack holds no more")
	b.s.queue.wakeUp(b.s.ledger.claimSet(used("b0")))
	for _, host := range []string{"b0", "b1"} {
		b.s.queue.wakeUp(b.s.ledger.claimSet(devicesOf(host)))
	}
	if b.look(); len(b.s.queue.waiting) != 1 {
		t.Fatal("another claim has a device, and the pods are placed")
	}
	b.s.queue.wakeUp(b.s.ledger.claimGone(used("b0")))
	b.look()
	for _, pod := range all["g1"].Pods {
		if node := b.nodeOf(pod); node != "b0" && node != "b1" {
			t.Errorf("%s is on %q, and the devices are in rack b", pod.Name, node)
		}
	}
}

// A released pod keeps its devices from the next gang.
func TestReleasedPodsHaveTheirDevices(t *testing.T) {
	b := newBench(t, Options{})
	b.s.ledger.devicesKnown(func() bool { return true })
	for _, o := range []any{gpuClass(), pairTemplate(), devicesOf("a0"), devicesOf("a1")} {
		b.s.ledger.binders.claims.Set(o)
	}
	withDevices(b, 1)
	if b.look(); len(b.s.queue.waiting) != 0 {
		t.Fatal("the first gang waits")
	}
	withDevices(b, 2)
	if b.look(); len(b.s.queue.waiting) != 1 {
		t.Error("the second gang got the same devices")
	}
}

// What may free devices wakes graphs that wait for them; an allocation does not.
func TestClaimsWakeWhomTheyConcern(t *testing.T) {
	b := newBench(t, Options{})
	for _, step := range []struct {
		name string
		set  any
		want bool
	}{
		{"a template", pairTemplate(), true}, {"the same template", pairTemplate(), false}, {"a class", gpuClass(), true}, {"the same class", gpuClass(), false},
		{"devices", devicesOf("a0"), true}, {"the same devices", devicesOf("a0"), false}, {"a claim", used("a0"), true}, {"the same claim", used("a0"), false},
	} {
		if got := b.s.ledger.binders.claims.Set(step.set); got != step.want {
			t.Errorf("%s: wakes %v, want %v", step.name, got, step.want)
		}
	}
	if !b.s.ledger.claimGone(used("a0")).ruled || b.s.ledger.claimGone(used("a0")).ruled {
		t.Error("a claim that goes wakes, once")
	}
}

// Of a claim that has its devices the cache keeps these alone, of another one what it asks for.
func TestStripClaim(t *testing.T) {
	allocated := used("a0")
	allocated.ManagedFields, allocated.Labels = []metav1.ManagedFieldsEntry{{}}, map[string]string{"a": "b"}
	allocated.Spec = pairTemplate().Spec.Spec
	allocated.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Name: "p"}}
	allocated.Status.Allocation.Devices.Config = []resourcev1.DeviceAllocationConfiguration{{Source: resourcev1.AllocationConfigSourceClass}}
	want := used("a0")
	want.Status.Allocation.Devices.Results[0].Request = ""
	got, err := StripClaim(allocated)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	waiting := &resourcev1.ResourceClaim{Spec: pairTemplate().Spec.Spec}
	if got, err := StripClaim(waiting.DeepCopy()); err != nil || cmp.Diff(waiting, got) != "" {
		t.Errorf("%v, %v: it lost what it asks for", got, err)
	}
}
