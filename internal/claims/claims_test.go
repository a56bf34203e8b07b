// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package claims_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

const none = topology.NoLevel

// blocked matches what no free devices would change.
var blocked = regexp.MustCompile(`does not exist|being deleted`)

func TestPlan(t *testing.T) {
	four := []any{gpus(), template("four", asks("gpu", 4))}
	tainted := func(effect resourcev1.DeviceTaintEffect) *resourcev1.DeviceTaintRule {
		r := &resourcev1.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "broken"}}
		r.Spec.DeviceSelector = &resourcev1.DeviceTaintSelector{Driver: ptr.To(driver), Pool: ptr.To("a-1"), Device: ptr.To("gpu-0")}
		r.Spec.Taint = resourcev1.DeviceTaint{Key: "broken", Effect: effect}
		return r
	}
	with := func(objects []any, more ...any) []any { return append(slices.Clone(objects), more...) }
	withSlices := func(list ...[]any) []any { return slices.Concat(list...) }
	either := resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{Name: "r", FirstAvailable: []resourcev1.DeviceSubRequest{
		{Name: "big", DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 4},
		{Name: "small", DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1},
	}}}}}
	pair := asks("gpu", 2)
	pair.Devices.Constraints = []resourcev1.DeviceConstraint{{MatchAttribute: ptr.To(resourcev1.FullyQualifiedName(driver + "/side"))}}
	served := gpus()
	served.Spec.ExtendedResourceName = ptr.To("example.com/gpu")

	for name, tc := range map[string]struct {
		objects  []any
		partial  bool
		bound    []*corev1.Pod
		required int
		pods     []*corev1.Pod
		want     []string
		why      string
	}{
		"as many as a host has": {objects: withSlices(four, everywhere(4)), required: none, pods: pods(2, "x", "four"), want: []string{"a-1", "a-2"}},
		"two on a host":         {objects: withSlices(four, everywhere(8)), required: none, pods: pods(2, "x", "four"), want: []string{"a-1", "a-1"}},
		"more than a zone has": {objects: withSlices(four, everywhere(4)), required: 0, pods: pods(3, "x", "four"),
			why: "needs 3 pods x 1 cpu in one zone; a holds 2 of 3 (2 hosts resource claim of template four: 0 of 4 devices of class gpu free)"},
		"where the devices are": {objects: with(four, slice("a-1", "h", "h", "h"), slice("b-2", "h", "h", "h", "h")), required: 0, pods: pods(1, "x", "four"), want: []string{"b-2"}},
		"too few on each": {objects: withSlices(four, everywhere(3)), required: none, pods: pods(1, "x", "four"),
			why: "4 hosts resource claim of template four: 3 of 4 devices of class gpu free"},
		"others have some": {objects: with(withSlices(four, everywhere(4)), has(claim("theirs", asks("gpu", 1)), "a-1", "gpu-2")), required: none,
			pods: pods(3, "x", "four"), want: []string{"a-2", "b-1", "b-2"}},
		"others have one in admin access": {objects: with(withSlices(four, everywhere(4)), func() any {
			c := has(claim("theirs", asks("gpu", 1)), "a-1", "gpu-2")
			c.Status.Allocation.Devices.Results[0].AdminAccess = ptr.To(true)
			return c
		}()), required: none, pods: pods(1, "x", "four"), want: []string{"a-1"}},
		"admin access": {objects: with(withSlices(four, everywhere(1)), has(claim("theirs", asks("gpu", 1)), "a-1", "gpu-0"),
			template("watch", changed(asks("gpu", 1), func(e *resourcev1.ExactDeviceRequest) { e.AdminAccess = ptr.To(true) }))),
			required: none, pods: pods(2, "x", "watch"), want: []string{"a-1", "a-1"}},
		"no such template":                     {objects: four, required: none, pods: pods(1, "x", "other"), why: "resource claim template other does not exist; needs 1 pod x 1 cpu in the cluster"},
		"no such template, as far as is known": {objects: withSlices(four, everywhere(4)), partial: true, required: none, pods: pods(1, "x", "other"), want: []string{"a-1"}},
		"a template of another namespace": {objects: []any{gpus(), func() any {
			t := template("four", asks("gpu", 4))
			t.Namespace = "other"
			return t
		}()}, required: none, pods: pods(1, "x", "four"), why: "resource claim template four does not exist"},
		"no such claim": {objects: four, required: none, pods: pods(1, "x", "@mine"), why: "resource claim mine does not exist; needs"},
		"no such class": {objects: []any{template("four", asks("gpu", 4))}, required: none, pods: pods(1, "x", "four"),
			why: "device class gpu of resource claim of template four does not exist"},
		"a claim that is being deleted": {objects: with(withSlices(four, everywhere(4)), func() any {
			c := claim("mine", asks("gpu", 1))
			c.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
			return c
		}()), required: none, pods: pods(1, "x", "@mine"), why: "resource claim mine is being deleted"},
		"a selector": {objects: with(four, slice("a-1", "h100", "h100"), slice("b-1", "h100", "b200"),
			template("new", asks("gpu", 1, `device.attributes["gpu.example.com"].model == "b200"`))), required: none, pods: pods(1, "x", "new"), want: []string{"b-1"}},
		"a selector that fails": {objects: with(four, slice("a-1", "h100"), template("new", asks("gpu", 1, `device.attributes["gpu.example.com"].colour == "red"`))),
			required: none, pods: pods(1, "x", "new"), why: "1 host resource claim of template new: claim ns/new: selector #0 on device"},
		"a selector of the class": {objects: []any{class("b200", `device.attributes["gpu.example.com"].model == "b200"`), template("new", asks("b200", 1)),
			slice("a-1", "h100"), slice("b-2", "h100", "b200")}, required: none, pods: pods(1, "x", "new"), want: []string{"b-2"}},
		"all of a host": {objects: with(four, slice("a-1", "h", "h"), has(claim("theirs", asks("gpu", 1)), "a-1", "gpu-1"), slice("a-2", "h", "h"),
			template("all", changed(asks("gpu", 0), func(e *resourcev1.ExactDeviceRequest) { e.AllocationMode = resourcev1.DeviceAllocationModeAll }))),
			required: none, pods: pods(1, "x", "all"), want: []string{"a-2"}},
		"the first alternative that there is": {objects: with(four, slice("a-1", "h", "h", "h", "h", "h"), template("either", either)),
			required: none, pods: pods(2, "x", "either"), want: []string{"a-1", "a-1"}},
		"devices that belong together": {objects: with(four, slice("a-1", "h", "h", "h", "h"), has(claim("theirs", asks("gpu", 2)), "a-1", "gpu-0", "gpu-2"),
			slice("b-1", "h", "h", "h", "h"), has(claim("others", asks("gpu", 2)), "b-1", "gpu-0", "gpu-1"), template("pair", pair)),
			required: none, pods: pods(1, "x", "pair"), want: []string{"b-1"}},
		"a pool that is not complete": {objects: with(four, func() any {
			s := slice("a-1", "h", "h", "h", "h")
			s.Spec.Pool.ResourceSliceCount = 2
			return s
		}()), required: none, pods: pods(1, "x", "four"), why: "4 hosts resource claim of template four: 0 of 4 devices of class gpu free"},
		"a pool that is replaced": {objects: with(four, slice("a-1", "h", "h", "h", "h"), func() any {
			s := slice("a-1", "h")
			s.Name, s.Spec.Pool.Generation = "newer", 2
			return s
		}()), required: none, pods: pods(1, "x", "four"), why: "1 host resource claim of template four: 1 of 4 devices of class gpu free"},
		"a tainted device": {objects: with(withSlices(four, everywhere(4)), tainted(resourcev1.DeviceTaintEffectNoSchedule)), required: none,
			pods: pods(1, "x", "four"), want: []string{"a-2"}},
		"a taint without effect": {objects: with(withSlices(four, everywhere(4)), tainted(resourcev1.DeviceTaintEffectNone)), required: none,
			pods: pods(1, "x", "four"), want: []string{"a-1"}},
		"a taint that is tolerated": {objects: with(withSlices(four, everywhere(4)), tainted(resourcev1.DeviceTaintEffectNoExecute),
			template("brave", changed(asks("gpu", 4), func(e *resourcev1.ExactDeviceRequest) {
				e.Tolerations = []resourcev1.DeviceToleration{{Key: "broken", Operator: resourcev1.DeviceTolerationOpExists}}
			}))), required: none, pods: pods(1, "x", "brave"), want: []string{"a-1"}},
		"a shared claim that has its devices": {objects: with(withSlices(four, everywhere(4)), has(claim("mine", asks("gpu", 4)), "b-1", "gpu-0", "gpu-1", "gpu-2", "gpu-3")),
			required: none, pods: pods(3, "x", "@mine"), want: []string{"b-1", "b-1", "b-1"}},
		"a shared claim without devices": {objects: with(withSlices(four, everywhere(4)), claim("mine", asks("gpu", 4))), required: none,
			pods: pods(3, "x", "@mine"), want: []string{"a-1", "a-1", "a-1"}},
		"more pods than one host takes share a claim": {objects: with(withSlices(four, everywhere(4)), claim("mine", asks("gpu", 4))), required: none,
			pods: pods(11, "x", "@mine"), why: "resource claim mine is allocated elsewhere"},
		"a shared claim of devices that all hosts reach": {objects: []any{nics(), network("n", 1), claim("mine", asks("nic", 1))}, required: none,
			pods: pods(12, "x", "@mine"), want: slices.Concat(slices.Repeat([]string{"a-1"}, 10), slices.Repeat([]string{"a-2"}, 2))},
		"devices that all hosts reach": {objects: []any{nics(), network("n", 2), template("nic", asks("nic", 1))}, required: none,
			pods: pods(2, "x", "nic"), want: []string{"a-1", "a-1"}},
		"more than there are for all hosts": {objects: []any{nics(), network("n", 2), template("nic", asks("nic", 1))}, required: none,
			pods: pods(3, "x", "nic"), why: "resource claim of template nic: 0 of 1 devices of class nic free"},
		"two kinds of pods share the devices of a host": {objects: with(withSlices(four, everywhere(4)), template("two", asks("gpu", 2))), required: 0,
			pods: append(pods(1, "x", "four"), pods(2, "y", "two")...), want: []string{"a-1", "a-2", "a-2"}},
		"two kinds of pods, more than a zone has": {objects: with(withSlices(four, everywhere(4)), template("two", asks("gpu", 2))), required: 0,
			pods: append(pods(1, "x", "four"), pods(3, "y", "two")...), why: "needs"},
		"the first pod to be bound": {objects: with(four, slice("a-1", "b200", "h100"), slice("b-1", "h100", "b200"), template("any", asks("gpu", 1)),
			template("new", asks("gpu", 1, `device.attributes["gpu.example.com"].model == "b200"`))), required: 0,
			pods: append(pods(1, "x", "any"), pods(1, "y", "new")...), want: []string{"b-1", "b-1"}},
		"the first pod to be bound of those that share devices over hosts": {objects: with([]any{nics()},
			modelled(networkOf("a", 2), "fast", "slow"), modelled(networkOf("b", 2), "slow", "fast"), template("any", asks("nic", 1)),
			template("fast", asks("nic", 1, `device.attributes["net.example.com"].model == "fast"`))), required: 0,
			pods: append(asking(pods(1, "x", "any"), "cpu", "5"), asking(pods(1, "y", "fast"), "cpu", "6")...), want: []string{"b-1", "b-2"}},
		"pods get all that they ask for once another has allocated what they share": {
			objects:  []any{served, slice("a-1", "h", "h"), claim("watched", changed(asks("gpu", 2), func(e *resourcev1.ExactDeviceRequest) { e.AdminAccess = ptr.To(true) }))},
			required: none, pods: append(asking(pods(2, "x", "@watched"), "example.com/gpu", "1"), pods(1, "y", "@watched")...), want: []string{"a-1", "a-1", "a-1"}},
		"pods that ask for more than any of them can allocate": {
			objects:  []any{served, slice("a-1", "h", "h"), claim("watched", changed(asks("gpu", 2), func(e *resourcev1.ExactDeviceRequest) { e.AdminAccess = ptr.To(true) }))},
			required: none, pods: asking(pods(2, "x", "@watched"), "example.com/gpu", "1"), why: "no free devices meet it"},
		"a claim of its own that was made already": {objects: with(withSlices(four, everywhere(4)), func() any {
			c := claim("x-0-made", asks("gpu", 4))
			c.OwnerReferences = []metav1.OwnerReference{{UID: "x", Controller: ptr.To(true)}}
			return c
		}()), required: none, pods: func() []*corev1.Pod {
			list := pods(1, "x", "four")
			list[0].UID = "x"
			list[0].Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "four", ResourceClaimName: ptr.To("x-0-made")}}
			return list
		}(), want: []string{"a-1"}},
		"a bound pod whose claim is not known yet": {objects: withSlices(four, everywhere(4)), bound: func() []*corev1.Pod {
			list := pods(1, "bound", "four")
			list[0].Spec.NodeName = "a-1"
			return list
		}(), required: none, pods: pods(1, "x", "four"), want: []string{"a-2"}},
		"a capacity of a device": {objects: with(four, func() any {
			s := slice("a-1", "h")
			s.Spec.Devices[0].AllowMultipleAllocations = ptr.To(true)
			s.Spec.Devices[0].Capacity = map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{"memory": {Value: resource.MustParse("80Gi")}}
			return s
		}(), template("part", changed(asks("gpu", 1), func(e *resourcev1.ExactDeviceRequest) {
			e.Capacity = &resourcev1.CapacityRequirements{Requests: map[resourcev1.QualifiedName]resource.Quantity{"memory": resource.MustParse("30Gi")}}
		}))), required: none, pods: pods(3, "x", "part"), why: "it holds 2 of 3"},
		"a resource that a class serves": {objects: append([]any{served}, everywhere(4)...), required: none,
			pods: asking(pods(2, "x"), "example.com/gpu", "4"), want: []string{"a-1", "a-2"}},
		"more of it than there is": {objects: append([]any{served}, everywhere(4)...), required: 0, pods: asking(pods(3, "x"), "example.com/gpu", "4"),
			why: "devices of example.com/gpu: 0 of 4 devices of class gpu free"},
		"more of it than there is, by the name of the class": {objects: append([]any{gpus()}, everywhere(4)...), required: 0,
			pods: asking(pods(3, "x"), "deviceclass.resource.kubernetes.io/gpu", "4"), why: "devices of deviceclass.resource.kubernetes.io/gpu: 0 of 4 devices"},
		"a resource that a class serves, of which there is none": {objects: []any{served}, required: none, pods: asking(pods(2, "x"), "example.com/gpu", "4"),
			why: "devices of example.com/gpu: 0 of 4 devices of class gpu free"},
		"features that are not counted": {objects: with(four, func() any {
			s := slice("a-1", "h")
			s.Spec.Devices[0].Attributes["list"] = resourcev1.DeviceAttribute{StringValues: []string{"a"}}
			return s
		}()), required: none, pods: pods(1, "x", "four"), want: []string{"a-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := storeOf(tc.objects...)
			s.Partial = tc.partial
			c := clusterOf(s, tc.objects...)
			for _, p := range tc.bound {
				c.SetPod(p)
			}
			r := placement.PlanGraph(c, graphOf(tc.required, tc.pods...), placement.Options{}).Replicas[0]
			if r.Refusal != nil {
				if got := r.Refusal.Message(); tc.why == "" || !strings.Contains(got, tc.why) {
					t.Errorf("refused: %s\nwant %v, or %q", got, tc.want, tc.why)
				}
				if got := r.Refusal.Blocked; (got != "") != blocked.MatchString(tc.why) || !strings.Contains(r.Refusal.Message(), got) {
					t.Errorf("what keeps it off every node is %q, of %s", got, r.Refusal.Message())
				}
				return
			}
			var got []string
			for _, p := range r.Pods {
				got = append(got, p.Node)
			}
			slices.Sort(got)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("hosts (-want +got):\n%s", diff)
			}
		})
	}
}
