// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func deviceClass(name, resource string) *resourcev1.DeviceClass {
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if resource != "" {
		class.Spec.ExtendedResourceName = ptr.To(resource)
	}
	return class
}

// Each resource is decided for each node as NodeResourcesFit of the kube-scheduler decides it.
func TestFitsLikeNodeResourcesFit(t *testing.T) {
	class := []*resourcev1.DeviceClass{deviceClass("gpu.example.com", gpu)}
	const mem = "example.com/gpumem"
	for name, tc := range map[string]struct {
		node, pod amounts
		classes   []*resourcev1.DeviceClass
		ignored   []string
		used      amounts
		// fit pods of the kind fit alongside the used one; else why is what keeps them out.
		fit int
		why string
	}{
		"a device plugin": {node: amounts{gpu: "8"}, pod: amounts{gpu: "2"}, used: amounts{gpu: "2"}, fit: 3},
		"nobody has it":   {pod: amounts{gpu: "2"}, why: "short of nvidia.com/gpu"},
		"a DeviceClass":   {node: amounts{"cpu": "6"}, pod: amounts{gpu: "2", "cpu": "2"}, classes: class, used: amounts{gpu: "2"}, fit: 3},
		"a DeviceClass, and a plugin that has none": {node: amounts{gpu: "0"}, pod: amounts{gpu: "2"}, classes: class, used: amounts{}, fit: 109},
		"a DeviceClass, and a device plugin":        {node: amounts{gpu: "8"}, pod: amounts{gpu: "4"}, classes: class, used: amounts{gpu: "6"}, why: "short of nvidia.com/gpu"},
		"a DeviceClass of another resource":         {pod: amounts{gpu: "2"}, classes: []*resourcev1.DeviceClass{deviceClass("a", "example.com/a")}, why: "short of nvidia.com/gpu"},
		"a DeviceClass by its name":                 {pod: amounts{"deviceclass.resource.kubernetes.io/a": "2"}, classes: []*resourcev1.DeviceClass{deviceClass("a", "")}, used: amounts{}, fit: 109},
		"ignored by name":                           {node: amounts{gpu: "8"}, pod: amounts{gpu: "4", mem: "3000"}, ignored: []string{mem}, used: amounts{}, fit: 2},
		"ignored by group":                          {node: amounts{gpu: "8"}, pod: amounts{gpu: "4", mem: "3000"}, ignored: []string{"example.com"}, used: amounts{}, fit: 2},
		"ignored, and offered":                      {node: amounts{mem: "10"}, pod: amounts{mem: "3000"}, ignored: []string{mem}, used: amounts{}, fit: 109},
		"another name of the group is ignored":      {pod: amounts{mem: "1"}, ignored: []string{"example.com/other", "com", "example.com/"}, why: "short of " + mem},
		"what cannot be ignored":                    {node: amounts{"cpu": "1"}, pod: amounts{"cpu": "2"}, ignored: []string{"cpu"}, why: "short of cpu"},
		"hugepages cannot be ignored":               {pod: amounts{"hugepages-2Mi": "2Mi"}, ignored: []string{"hugepages-2Mi"}, why: "short of hugepages-2Mi"},
		"Kubernetes' own cannot be ignored": {
			pod: amounts{"attachable.kubernetes.io/x": "2"}, ignored: []string{"attachable.kubernetes.io"}, why: "short of attachable.kubernetes.io/x"},
	} {
		t.Run(name, func(t *testing.T) {
			s := ShapeOf(makePod("p", "", tc.pod))
			for _, order := range []string{"classes first", "classes last"} {
				c := NewCluster()
				c.Ignore(IgnoredResources(tc.ignored))
				serve := func() { c.Serve(ServedBy(tc.classes)) }
				if order == "classes first" {
					serve()
				}
				c.SetNode(makeNode("n", at("a", "1"), tc.node))
				if tc.used != nil {
					c.SetPod(makePod("used", "n", tc.used))
				}
				if order == "classes last" {
					fit(c, zoneRack, s)
					serve()
				}
				if got := fit(c, zoneRack, s, "a"); got != tc.fit {
					t.Errorf("%s: fit %d, want %d", order, got, tc.fit)
				}
				why := ""
				if e, excluded := c.Why("n", s); excluded {
					why = e.String()
				}
				if why != tc.why {
					t.Errorf("%s: reason %q, want %q", order, why, tc.why)
				}
			}
		})
	}
}

// What DeviceClasses serve changes with them, and names nothing of a pod that asks for other things, or for what is ignored.
func TestServed(t *testing.T) {
	c := NewCluster()
	c.Ignore(IgnoredResources([]string{"ignored.example"}))
	c.SetNode(makeNode("plugin", nil, amounts{gpu: "8"}))
	c.SetNode(makeNode("dra", nil, amounts{gpu: "0"}))
	s := ShapeOf(makePod("p", "", amounts{gpu: "1", "cpu": "1", "ignored.example/a": "1", "deviceclass.resource.kubernetes.io/nic": "1"}))
	if got := c.Served(s); got != nil {
		t.Errorf("without a DeviceClass %v are served", got)
	}
	classes := []*resourcev1.DeviceClass{deviceClass("gpu", gpu), deviceClass("nic", ""), deviceClass("ignored", "ignored.example/a")}
	if !c.Serve(ServedBy(classes)) || c.Serve(ServedBy(slices.Concat(classes, classes))) {
		t.Error("a change was not seen, or no change was one")
	}
	if diff := cmp.Diff([]string{"deviceclass.resource.kubernetes.io/nic", gpu}, c.Served(s)); diff != "" {
		t.Errorf("served (-want +got):\n%s", diff)
	}
	for node, want := range map[string]bool{"plugin": true, "dra": false, "unknown": false} {
		if got := c.Offers(node, gpu); got != want {
			t.Errorf("%s offers GPUs: %v, want %v", node, got, want)
		}
	}
	if c.Offers("plugin", string(corev1.ResourceCPU)) {
		t.Error("a node without cpu offers cpu")
	}
	if !c.Serve(nil) || c.Served(s) != nil {
		t.Error("the classes are gone, and what they served is not")
	}
}
