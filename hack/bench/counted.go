// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"runtime"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-k8s/trellis/hack/bench/hall"
	"github.com/trellis-k8s/trellis/hack/bench/ours"
	"github.com/trellis-k8s/trellis/internal/affinity"
	"github.com/trellis-k8s/trellis/internal/claims"
	"github.com/trellis-k8s/trellis/internal/claims/allocator"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

const (
	deviceDriver = "gpu.example.com"
	bareKind     = "without them"
	// devicesPerHost is the number of devices per host, and claimedGang the number of pods of a gang, each of which claims all devices of a
	// host.
	devicesPerHost, claimedGang = 8, 16
)

// devices is a hall whose hosts have devices. Others claim some of them, on all hosts except those of every fourth rack.
type devices struct {
	planner *ours.Planner
	store   *claims.Store
	shape   hall.Shape
}

func newDevices(shape hall.Shape, claimed int) *devices {
	d := &devices{planner: ours.New(shape.Nodes(), nil), store: claims.NewStore(allocator.New()), shape: shape}
	d.planner.Cluster.Binders = []topology.Binder{d.store}
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	class.Spec.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: `device.driver == "` + deviceDriver +
		`"`}}}
	template := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "all"}}
	template.Spec.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{
		DeviceClassName: class.Name, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: devicesPerHost}}}
	d.store.Set(class)
	d.store.Set(template)
	var used []int
	for i := range shape.Hosts {
		d.store.Set(sliceOf(i))
		if i/shape.HostsPerRack%4 != 0 {
			used = append(used, i)
		}
	}
	for k := range claimed {
		d.store.Set(claimOf(k, used[k%len(used)], k/len(used)))
	}
	return d
}

// sliceOf returns the devices of a host, each with a UUID.
func sliceOf(host int) *resourcev1.ResourceSlice {
	name := hall.HostName(host)
	s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}}
	s.Spec = resourcev1.ResourceSliceSpec{Driver: deviceDriver, NodeName: &name, Pool: resourcev1.ResourcePool{Name: name, Generation: 1,
		ResourceSliceCount: 1}}
	model := "h100"
	for i := range devicesPerHost {
		id := fmt.Sprintf("%s/%d", name, i)
		s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{
			Name: fmt.Sprintf("gpu-%d", i), Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"uuid": {StringValue: &id},
				"model": {StringValue: &model}},
		})
	}
	return s
}

// claimOf returns a claim with one device of a host allocated.
func claimOf(k, host, device int) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "others", Name: fmt.Sprintf("claim-%d", k)}}
	c.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
		Results: []resourcev1.DeviceRequestAllocationResult{{
			Request: "r", Driver: deviceDriver, Pool: hall.HostName(host), Device: fmt.Sprintf("gpu-%d", device)}}}}
	return c
}

// gangWith returns a gang in one domain of a level; change changes its pods.
func gangWith(p *ours.Planner, each hall.Level, change func(*corev1.Pod)) placement.Demand {
	g := p.Graph(hall.Ask{Name: "gang", Whole: hall.Cluster, Each: each, Gangs: 1, Pods: claimedGang, GPUs: 1})
	pod := hall.Pod("gang", 1, "")
	pod.Namespace, pod.Labels = "default", map[string]string{"app": "gang"}
	pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
		corev1.ResourceCPU: pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU]}
	change(pod)
	shape := topology.ShapeOf(pod)
	for i := range g.Components[0].Waiting[0].Pods {
		g.Components[0].Waiting[0].Pods[i].Shape = shape
	}
	return g
}

func withClaim(pod *corev1.Pod) {
	name := "all"
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "devices", ResourceClaimTemplateName: &name}}
}

// counted measures gangs with device claims and with rules about other pods, against the same gangs without them.
func counted(_ context.Context, s sizes, r *report) error {
	d := newDevices(s.devices, s.claims)
	with, bare := gangWith(d.planner, hall.Rack, withClaim), gangWith(d.planner, hall.Rack, func(*corev1.Pod) {})
	theirs := claimOf(s.claims, s.devices.HostsPerRack, devicesPerHost-1)
	t, err := medians(s.repeats, planned(d.planner, with, s.steps/20, func() {
		d.store.Set(theirs)
		d.store.Delete(theirs)
	}), planned(d.planner, bare, s.steps/20, func() {}))
	if err != nil {
		return err
	}
	r.compare(fmt.Sprintf("gang of %d that claims devices, %s nodes, %s devices, %s claims", claimedGang, number(float64(s.devices.Hosts)),
		number(float64(s.devices.Hosts*devicesPerHost)), number(float64(s.claims))), "ms", millis(t[0]), millis(t[1]), bareKind)

	p := ours.New(s.ruled.Nodes(), nil)
	p.Cluster.Binders = []topology.Binder{&affinity.Binder{}}
	for i := range 5 * s.ruled.Hosts {
		pod := hall.Pod(fmt.Sprintf("other-%d", i), 1, hall.HostName(i%s.ruled.Hosts))
		pod.Namespace, pod.Labels = "default", map[string]string{"app": fmt.Sprintf("other-%d", i/s.ruled.Hosts)}
		p.Cluster.SetPod(pod)
	}
	sides := []side{planned(p, gangWith(p, hall.Cluster, func(*corev1.Pod) {}), s.steps/20, func() {})}
	names := []string{"anti-affinity over racks", "affinity to pods of its rack", "a spread over racks"}
	for _, rule := range []func(*corev1.Pod){apartByRule, nearByRule, spreadByRule} {
		sides = append(sides, planned(p, gangWith(p, hall.Cluster, rule), s.steps/20, func() {}))
	}
	if t, err = medians(s.repeats, sides...); err != nil {
		return err
	}
	for i, name := range names {
		r.compare(fmt.Sprintf("gang of %d with %s, %s nodes, %s pods", claimedGang, name, number(float64(s.ruled.Hosts)),
			number(float64(5*s.ruled.Hosts))), "ms", millis(t[i+1]), millis(t[0]), bareKind)
	}
	return nil
}

// planned plans a gang repeatedly, after a change each time. It measures CPU time, which other programs on the machine do not affect.
func planned(p *ours.Planner, g placement.Demand, steps int, change func()) side {
	return func() (time.Duration, error) {
		start, err := cpuTime()
		if err != nil {
			return 0, err
		}
		for range steps {
			change()
			p.Cluster.Begin()
			result := p.Plan(g)
			p.Cluster.Rollback()
			if !result.Placed() {
				return 0, ours.Why(result)
			}
		}
		end, err := cpuTime()
		return (end - start) / time.Duration(steps), err
	}
}

func term(app string) corev1.PodAffinityTerm {
	return corev1.PodAffinityTerm{TopologyKey: hall.Rack.Key(), LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{
		"app": app}}}
}

func apartByRule(pod *corev1.Pod) {
	pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term("gang")}}}
}

func nearByRule(pod *corev1.Pod) {
	pod.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term("other-3")}}}
}

func spreadByRule(pod *corev1.Pod) {
	pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: hall.Rack.Key(),
		WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: term("gang").LabelSelector}}
}

// holdDevices builds a tree with devices, claims and pods, and places one gang in it.
func holdDevices(c content) error {
	d := newDevices(c.shape(), c.Claims)
	for i := range c.Pods {
		d.planner.Cluster.SetPod(c.pod(i))
	}
	if result := d.planner.Plan(gangWith(d.planner, hall.Rack, withClaim)); !result.Placed() {
		return ours.Why(result)
	}
	runtime.KeepAlive(d)
	return nil
}
