// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package claims_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/trellis-k8s/trellis/internal/claims"
	"github.com/trellis-k8s/trellis/internal/claims/allocator"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

const (
	zone   = "topology.kubernetes.io/zone"
	driver = "gpu.example.com"
)

var levels = topology.Levels{{Domain: "zone", Key: zone}}

// nodes are two zones of two hosts: a-1, a-2, b-1, b-2. Each takes ten pods.
func nodes() (list []*corev1.Node) {
	for _, name := range []string{"a-1", "a-2", "b-1", "b-2"} {
		list = append(list, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{zone: name[:1], corev1.LabelHostname: name}},
			Status: corev1.NodeStatus{
				Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
				Allocatable: corev1.ResourceList{"cpu": resource.MustParse("10"), corev1.ResourcePods: resource.MustParse("10")},
			},
		})
	}
	return list
}

// device is one with a model and a UUID.
func device(host string, i int, model string) resourcev1.Device {
	return resourcev1.Device{
		Name: fmt.Sprintf("gpu-%d", i),
		Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
			"model": {StringValue: &model}, "uuid": {StringValue: ptr.To(fmt.Sprintf("%s/%d", host, i))},
			"side": {IntValue: ptr.To(int64(i / 2))},
		},
	}
}

// slice is a host's only one, with a device of each model.
func slice(host string, models ...string) *resourcev1.ResourceSlice {
	s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: host + "-" + driver}}
	s.Spec = resourcev1.ResourceSliceSpec{Driver: driver, NodeName: &host, Pool: resourcev1.ResourcePool{Name: host, Generation: 1, ResourceSliceCount: 1}}
	for i, model := range models {
		s.Spec.Devices = append(s.Spec.Devices, device(host, i, model))
	}
	return s
}

// network is devices that all nodes reach.
func network(name string, count int) *resourcev1.ResourceSlice {
	s := slice("", make([]string, count)...)
	s.Name, s.Spec.Driver, s.Spec.NodeName, s.Spec.AllNodes, s.Spec.Pool.Name = name, "net.example.com", nil, ptr.To(true), name
	return s
}

// networkOf is devices that the nodes of a zone reach.
func networkOf(name string, count int) *resourcev1.ResourceSlice {
	s := network(name, count)
	s.Spec.AllNodes, s.Spec.NodeSelector = nil, &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: zone, Operator: corev1.NodeSelectorOpIn, Values: []string{name}}}}}}
	return s
}

// modelled gives the devices of a slice their models.
func modelled(s *resourcev1.ResourceSlice, models ...string) *resourcev1.ResourceSlice {
	for i := range models {
		s.Spec.Devices[i].Attributes["model"] = resourcev1.DeviceAttribute{StringValue: &models[i]}
	}
	return s
}

// everywhere are slices of all hosts with devices of one model.
func everywhere(count int) (list []any) {
	models := make([]string, count)
	for i := range models {
		models[i] = "h100"
	}
	for _, n := range nodes() {
		list = append(list, slice(n.Name, models...))
	}
	return list
}

func class(name string, expressions ...string) *resourcev1.DeviceClass {
	c := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, e := range expressions {
		c.Spec.Selectors = append(c.Spec.Selectors, resourcev1.DeviceSelector{CEL: &resourcev1.CELDeviceSelector{Expression: e}})
	}
	return c
}

// gpus and nics are the classes of the tests.
func gpus() *resourcev1.DeviceClass { return class("gpu", `device.driver == "`+driver+`"`) }
func nics() *resourcev1.DeviceClass { return class("nic", `device.driver == "net.example.com"`) }

// asks is a claim for some devices of a class that a selector takes.
func asks(class string, count int64, expressions ...string) resourcev1.ResourceClaimSpec {
	e := &resourcev1.ExactDeviceRequest{DeviceClassName: class, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: count}
	for _, one := range expressions {
		e.Selectors = append(e.Selectors, resourcev1.DeviceSelector{CEL: &resourcev1.CELDeviceSelector{Expression: one}})
	}
	return resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{Name: "r", Exactly: e}}}}
}

// changed is a claim's spec with its request changed.
func changed(spec resourcev1.ResourceClaimSpec, change func(*resourcev1.ExactDeviceRequest)) resourcev1.ResourceClaimSpec {
	change(spec.Devices.Requests[0].Exactly)
	return spec
}

func template(name string, spec resourcev1.ResourceClaimSpec) *resourcev1.ResourceClaimTemplate {
	t := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	t.Spec.Spec = spec
	return t
}

func claim(name string, spec resourcev1.ResourceClaimSpec) *resourcev1.ResourceClaim {
	return &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}, Spec: spec}
}

// has gives a claim devices of a host.
func has(c *resourcev1.ResourceClaim, host string, devices ...string) *resourcev1.ResourceClaim {
	c.Status.Allocation = &resourcev1.AllocationResult{NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{host}}}}}}}
	for _, d := range devices {
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results, resourcev1.DeviceRequestAllocationResult{
			Request: "r", Driver: driver, Pool: host, Device: d})
	}
	return c
}

// pods makes n pods of one cpu that use templates; names with an @ are claims.
func pods(n int, prefix string, templates ...string) (list []*corev1.Pod) {
	for i := range n {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprintf("%s-%d", prefix, i)},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}}}}},
		}
		for _, name := range templates {
			c := corev1.PodResourceClaim{Name: name, ResourceClaimTemplateName: &name}
			if name[0] == '@' {
				c = corev1.PodResourceClaim{Name: name[1:], ResourceClaimName: ptr.To(name[1:])}
			}
			p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, c)
		}
		list = append(list, p)
	}
	return list
}

// asking makes pods ask for a resource.
func asking(list []*corev1.Pod, name corev1.ResourceName, amount string) []*corev1.Pod {
	for _, p := range list {
		p.Spec.Containers[0].Resources.Requests[name] = resource.MustParse(amount)
	}
	return list
}

// storeOf has objects.
func storeOf(objects ...any) *claims.Store {
	s := claims.NewStore(allocator.New())
	for _, o := range objects {
		s.Set(o)
	}
	return s
}

// clusterOf has the nodes, and what DeviceClasses of objects serve.
func clusterOf(s *claims.Store, objects ...any) *topology.Cluster {
	c := topology.NewCluster()
	c.Binders = []topology.Binder{s}
	var classes []*resourcev1.DeviceClass
	for _, o := range objects {
		if class, is := o.(*resourcev1.DeviceClass); is {
			classes = append(classes, class)
		}
	}
	c.Serve(topology.ServedBy(classes))
	for _, n := range nodes() {
		c.SetNode(n)
	}
	return c
}

// graphOf is one gang of pods; required is the level of which one domain has to hold it.
func graphOf(required int, list ...*corev1.Pod) placement.Demand {
	replica := placement.Replica{}
	for _, p := range list {
		replica.Pods = append(replica.Pods, placement.Pod{ID: topology.PodID(p), Name: p.Name, Shape: topology.ShapeOf(p)})
	}
	return placement.Demand{
		Name: "g", Levels: levels, Required: topology.NoLevel, Preferred: topology.NoLevel,
		Components: []placement.Component{{Name: "s", Multinode: true, Required: required, Preferred: topology.NoLevel, Waiting: []placement.Replica{replica}}},
	}
}
