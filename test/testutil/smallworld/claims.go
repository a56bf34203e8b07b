// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package smallworld

import (
	"errors"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/trellis-k8s/trellis/internal/claims"
	"github.com/trellis-k8s/trellis/internal/claims/allocator"
)

const (
	gpuDriver, nicDriver = "gpu.example.com", "nic.example.com"
	// byClass is a resource that a DeviceClass may serve.
	byClass = "example.com/device"
)

// allocate keeps its compiled selectors from world to world.
var allocate = patient{allocator.New()}

// patient retries an allocation that times out, as on a busy machine: no test result may depend on time.
type patient struct{ *allocator.Allocator }

// Allocate implements claims.Allocator.
func (p patient) Allocate(q claims.Question) ([]resourcev1.AllocationResult, error) {
	for {
		if results, err := p.Allocator.Allocate(q); !errors.Is(err, claims.ErrTooLong) {
			return results, err
		}
	}
}

// DrawClaims draws a world whose pods claim devices: devices of their hosts, and devices that several hosts reach.
func DrawClaims(t *rapid.T) World {
	w := drawWorld(t)
	for i := range rapid.IntRange(1, 3).Draw(t, "nodes") {
		n := drawNode(t, i)
		if rapid.IntRange(0, 5).Draw(t, n.Name+" offers") == 0 {
			n.Status.Allocatable[byClass] = resource.MustParse("1")
		}
		w.Nodes = append(w.Nodes, n)
		w.drawSlice(t, n.Name)
	}
	w.drawNetwork(t)
	w.drawClasses(t)
	w.drawClaimants(t)
	w.drawRules(t)
	return w
}

// DrawPartitions draws a world whose pods claim partitions of devices: a device consumes counters of its card, so that some partitions
// exclude each other.
func DrawPartitions(t *rapid.T) World {
	w := drawWorld(t)
	for i := range rapid.IntRange(1, 3).Draw(t, "nodes") {
		n := drawNode(t, i)
		w.Nodes = append(w.Nodes, n)
		w.drawCards(t, n.Name)
	}
	w.drawClasses(t)
	w.drawClaimants(t)
	w.drawRules(t)
	return w
}

// drawCards draws the cards of a host and their partitions. The counters of the cards have a slice of their own, which is missing if the
// pool is incomplete.
func (w *World) drawCards(t *rapid.T, host string) {
	pool := resourcev1.ResourcePool{Name: host, Generation: 1, ResourceSliceCount: 2}
	counters := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: host + "-counters"},
		Spec: resourcev1.ResourceSliceSpec{Driver: gpuDriver, NodeName: &host, Pool: pool}}
	partitions := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: host + "-gpus"},
		Spec: resourcev1.ResourceSliceSpec{Driver: gpuDriver, NodeName: &host, Pool: pool}}
	for card := range rapid.IntRange(1, 2).Draw(t, host+" cards") {
		name := fmt.Sprintf("%s-card-%d", host, card)
		counters.Spec.SharedCounters = append(counters.Spec.SharedCounters, resourcev1.CounterSet{Name: name,
			Counters: map[string]resourcev1.Counter{"memory": {Value: drawQuantity(t, name+" memory", 1, 4)}}})
		for i := range rapid.IntRange(1, 3).Draw(t, name+" partitions") {
			d := drawDevice(t, fmt.Sprintf("%s-%d", name, i))
			d.ConsumesCounters = []resourcev1.DeviceCounterConsumption{{CounterSet: name,
				Counters: map[string]resourcev1.Counter{"memory": {Value: drawQuantity(t, d.Name+" memory", 1, 3)}}}}
			partitions.Spec.Devices = append(partitions.Spec.Devices, d)
		}
	}
	w.Devices = append(w.Devices, partitions)
	if rapid.IntRange(0, 5).Draw(t, host+" is incomplete") > 0 {
		w.Devices = append(w.Devices, counters)
	}
	if rapid.IntRange(0, 3).Draw(t, host+" used") == 0 {
		used := deviceClaim("theirs-"+host, exactly("gpu", 1))
		used.Status.Allocation = onHost(host, partitions.Spec.Devices[0].Name)
		w.Devices = append(w.Devices, used)
	}
}

// drawRules draws rules that taint devices: those of a driver, of a host, or one device.
func (w *World) drawRules(t *rapid.T) {
	effects := []resourcev1.DeviceTaintEffect{
		resourcev1.DeviceTaintEffectNone, resourcev1.DeviceTaintEffectNoSchedule, resourcev1.DeviceTaintEffectNoExecute,
	}
	for i := range rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "taint rules") {
		name := fmt.Sprint("rule-", i)
		rule := &resourcev1.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
		rule.Spec.Taint = resourcev1.DeviceTaint{
			Key:    rapid.SampledFrom([]string{"broken", "old"}).Draw(t, name+" key"),
			Effect: rapid.SampledFrom(effects).Draw(t, name+" effect"),
		}
		if rapid.IntRange(0, 5).Draw(t, name+" selects") > 0 {
			selector := &resourcev1.DeviceTaintSelector{}
			if rapid.Bool().Draw(t, name+" names a driver") {
				selector.Driver = ptr.To(rapid.SampledFrom([]string{gpuDriver, nicDriver}).Draw(t, name+" driver"))
			}
			if rapid.Bool().Draw(t, name+" names a pool") {
				selector.Pool = ptr.To(rapid.SampledFrom(w.Nodes).Draw(t, name+" pool").Name)
			}
			if device := w.someDevice(); device != nil && rapid.IntRange(0, 2).Draw(t, name+" names a device") == 0 {
				selector.Device = ptr.To(device.Devices.Results[0].Device)
			}
			rule.Spec.DeviceSelector = selector
		}
		w.Devices = append(w.Devices, rule)
	}
}

// drawSlice draws the devices of a host, and a claim of other pods for the first device.
func (w *World) drawSlice(t *rapid.T, host string) {
	count := rapid.IntRange(0, 4).Draw(t, host+" devices")
	s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: host + "-gpus"}}
	s.Spec = resourcev1.ResourceSliceSpec{Driver: gpuDriver, NodeName: &host, Pool: resourcev1.ResourcePool{
		Name: host, Generation: 1, ResourceSliceCount: int64(rapid.SampledFrom([]int{1, 1, 1, 1, 1, 2}).Draw(t, host+" slices"))}}
	for i := range count {
		s.Spec.Devices = append(s.Spec.Devices, drawDevice(t, fmt.Sprintf("%s-%d", host, i)))
	}
	w.Devices = append(w.Devices, s)
	if count > 0 && rapid.IntRange(0, 3).Draw(t, host+" used") == 0 {
		used := deviceClaim("theirs-"+host, exactly("gpu", 1))
		used.Status.Allocation = onHost(host, s.Spec.Devices[0].Name)
		w.Devices = append(w.Devices, used)
	}
}

func drawDevice(t *rapid.T, name string) resourcev1.Device {
	d := resourcev1.Device{Name: name, Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
		"model": {StringValue: ptr.To(rapid.SampledFrom([]string{"a", "b"}).Draw(t, name+" model"))},
		"side":  {IntValue: ptr.To(int64(rapid.IntRange(0, 1).Draw(t, name+" side")))},
		"uuid":  {StringValue: &name},
	}}
	if rapid.IntRange(0, 9).Draw(t, name+" tainted") == 0 {
		d.Taints = []resourcev1.DeviceTaint{{Key: "broken", Effect: resourcev1.DeviceTaintEffectNoSchedule}}
	}
	return d
}

// drawNetwork draws devices that all hosts, or the hosts of a zone, reach.
func (w *World) drawNetwork(t *rapid.T) {
	s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "nics"}}
	s.Spec = resourcev1.ResourceSliceSpec{Driver: nicDriver, Pool: resourcev1.ResourcePool{Name: "nics", Generation: 1, ResourceSliceCount: 1}}
	for i := range rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "nics") {
		s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{Name: "nic-" + strconv.Itoa(i)})
	}
	if rapid.Bool().Draw(t, "nics everywhere") {
		s.Spec.AllNodes = ptr.To(true)
	} else {
		s.Spec.NodeSelector = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: zone, Operator: corev1.NodeSelectorOpIn, Values: []string{"z1"}}}}}}
	}
	if len(s.Spec.Devices) > 0 {
		w.Devices = append(w.Devices, s)
	}
}

func (w *World) drawClasses(t *rapid.T) {
	for name, driver := range map[string]string{"gpu": gpuDriver, "nic": nicDriver} {
		c := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
		c.Spec.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q",
			driver)}}}
		if name == "gpu" && rapid.Bool().Draw(t, "gpu serves") {
			c.Spec.ExtendedResourceName = ptr.To(byClass)
		}
		w.Devices = append(w.Devices, c)
	}
}

// drawClaimants draws the gang: pods with shared claims, claims of their own, or a resource that a class may serve.
func (w *World) drawClaimants(t *rapid.T) {
	shared := deviceClaim("shared", drawRequest(t, "shared"))
	if first := w.someDevice(); first != nil && rapid.IntRange(0, 3).Draw(t, "shared has") == 0 {
		shared.Status.Allocation = first
	}
	w.Devices = append(w.Devices, shared)
	for kind := range rapid.IntRange(1, 2).Draw(t, "kinds") {
		name := "kind-" + strconv.Itoa(kind)
		request := drawRequest(t, name)
		own, shares := rapid.IntRange(0, 4).Draw(t, name+" own") > 0, rapid.IntRange(0, 3).Draw(t, name+" shares") == 0
		asks := rapid.IntRange(0, 3).Draw(t, name+" asks") == 0
		for i := range rapid.IntRange(1, 2).Draw(t, name+" pods") {
			p := plainPod(fmt.Sprintf("%s-%d", name, i), rapid.IntRange(0, 1).Draw(t, name+" gpus"))
			p.UID = types.UID(p.Name)
			if own {
				w.own(p, request)
			}
			if shares {
				p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: "shared", ResourceClaimName: ptr.To("shared")})
			}
			if asks {
				p.Spec.Containers[0].Resources.Requests[byClass] = resource.MustParse("1")
			}
			w.Gang = append(w.Gang, p)
		}
	}
}

// own gives a pod its own claim, like one that the controller creates from a template.
func (w *World) own(p *corev1.Pod, request resourcev1.DeviceClaim) {
	made := deviceClaim("own-"+p.Name, request)
	made.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID, Controller: ptr.To(true)}}
	w.Devices = append(w.Devices, made)
	p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: "own", ResourceClaimTemplateName: ptr.To("own")})
	p.Status.ResourceClaimStatuses = append(p.Status.ResourceClaimStatuses, corev1.PodResourceClaimStatus{Name: "own",
		ResourceClaimName: &made.Name})
}

// drawRequest draws the request of a claim.
func drawRequest(t *rapid.T, name string) resourcev1.DeviceClaim {
	some := exactly("gpu", int64(rapid.IntRange(1, 2).Draw(t, name+" count")))
	e := some.Requests[0].Exactly
	if model := rapid.SampledFrom([]string{"", "", "a", "b"}).Draw(t, name+" model"); model != "" {
		e.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{
			Expression: fmt.Sprintf(`device.attributes[%q].model == %q`, gpuDriver, model)}}}
	}
	if rapid.IntRange(0, 5).Draw(t, name+" tolerates devices") == 0 {
		e.Tolerations = []resourcev1.DeviceToleration{{Key: "broken", Operator: resourcev1.DeviceTolerationOpExists}}
	}
	switch rapid.IntRange(0, 9).Draw(t, name+" special") {
	case 0:
		e.AllocationMode, e.Count = resourcev1.DeviceAllocationModeAll, 0
	case 1:
		e.AdminAccess = ptr.To(true)
	case 2:
		some.Constraints = []resourcev1.DeviceConstraint{{MatchAttribute: ptr.To(resourcev1.FullyQualifiedName(gpuDriver + "/side"))}}
	case 3:
		return exactly("nic", 1)
	case 4:
		some.Requests = append(some.Requests, exactly("nic", 1).Requests...)
		some.Requests[1].Name = "nic"
	case 5:
		some.Requests = []resourcev1.DeviceRequest{{Name: "r", FirstAvailable: []resourcev1.DeviceSubRequest{
			{Name: "nic", DeviceClassName: "nic", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1},
			{Name: "gpu", DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 2},
		}}}
	case 6:
		return exactly("unknown", 1)
	}
	return some
}

func exactly(class string, count int64) resourcev1.DeviceClaim {
	return resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{
		DeviceClassName: class, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: count}}}}
}

func deviceClaim(name string, asks resourcev1.DeviceClaim) *resourcev1.ResourceClaim {
	return &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}, Spec: resourcev1.ResourceClaimSpec{
			Devices: *asks.DeepCopy()},
	}
}

// onHost returns an allocation of a host's device.
func onHost(host, device string) *resourcev1.AllocationResult {
	return &resourcev1.AllocationResult{
		Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{{Request: "r", Driver: gpuDriver,
			Pool: host, Device: device}}},
		NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn,
				Values: []string{host}}}}}},
	}
}

// someDevice returns an allocation of a device that no other claim has; nil if there is none.
func (w *World) someDevice() *resourcev1.AllocationResult {
	for _, o := range w.Devices {
		if s, is := o.(*resourcev1.ResourceSlice); is && s.Spec.NodeName != nil && len(s.Spec.Devices) > 1 {
			return onHost(*s.Spec.NodeName, s.Spec.Devices[len(s.Spec.Devices)-1].Name)
		}
	}
	return nil
}

func (w *World) deviceClasses() (list []*resourcev1.DeviceClass) {
	for _, o := range w.Devices {
		if c, is := o.(*resourcev1.DeviceClass); is {
			list = append(list, c)
		}
	}
	return list
}
