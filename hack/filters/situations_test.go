// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package filters

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/trellis-k8s/trellis/internal/topology"
	"github.com/trellis-k8s/trellis/internal/volumes"
	"github.com/trellis-k8s/trellis/test/testutil/smallworld"
)

// situation is a node, and a pod that one plugin refuses on it. Without the changes, the plugin accepts the pod.
type situation struct {
	// plugin is the refusing plugin; "": the plugin with the situation's name.
	plugin string
	node   func(*corev1.Node)
	pod    func(*corev1.Pod)
	// bound changes a pod on the node; nil: there is none. other changes a second node without CPUs; nil: there is none.
	bound func(*corev1.Pod)
	other func(*corev1.Node)
	// objects are the objects of volumes, and devices the objects of devices.
	objects, devices []runtime.Object
}

const zone, driver = "topology.kubernetes.io/zone", "csi.example.com"

func cpus(n string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(n)}
}

func as(*corev1.Pod) {}

// situations maps plugins and gates to situations.
var situations = map[string]situation{
	"NodeUnschedulable": {pod: as, node: func(n *corev1.Node) { n.Spec.Unschedulable = true }},
	"TaintToleration": {pod: as, node: func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "t", Effect: corev1.TaintEffectNoSchedule}}
	}},
	"NodeAffinity":     {pod: func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"pool": "x"} }},
	"NodePorts":        {pod: port, bound: port},
	"NodeResourcesFit": {pod: requests("3")},
	"SidecarContainers": {plugin: "NodeResourcesFit", pod: func(p *corev1.Pod) {
		p.Spec.InitContainers = []corev1.Container{{Name: "side", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways),
			Resources: corev1.ResourceRequirements{Requests: cpus("2")}}}
	}},
	"PodLevelResources": {plugin: "NodeResourcesFit", pod: func(p *corev1.Pod) {
		p.Spec.Resources = &corev1.ResourceRequirements{Requests: cpus("3")}
	}},
	"InPlacePodVerticalScaling": {plugin: "NodeResourcesFit", pod: as, bound: func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", AllocatedResources: cpus("2"),
			Resources: &corev1.ResourceRequirements{Requests: cpus("2")}}}
	}},
	"InPlacePodLevelResourcesVerticalScaling": {plugin: "NodeResourcesFit", pod: as, bound: func(p *corev1.Pod) {
		p.Spec.Resources = &corev1.ResourceRequirements{Requests: cpus("1")}
		p.Status.AllocatedResources, p.Status.Resources = cpus("2"), &corev1.ResourceRequirements{Requests: cpus("2")}
	}},
	"NodeDeclaredFeatures": {pod: func(p *corev1.Pod) {
		p.Spec.Containers[0].RestartPolicyRules = []corev1.ContainerRestartRule{{Action: corev1.ContainerRestartRuleActionRestartAllContainers}}
	}},
	"InterPodAffinity": {pod: func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "other"}}}}}}
	}},
	"PodTopologySpread": {pod: spread(corev1.TopologySpreadConstraint{TopologyKey: "missing"})},
	"MatchLabelKeysInPodTopologySpread": {
		plugin: "PodTopologySpread", bound: as, other: func(*corev1.Node) {},
		pod: spread(corev1.TopologySpreadConstraint{
			TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{}, MatchLabelKeys: []string{"app"}}),
	},
	"NodeInclusionPolicyInPodTopologySpread": {
		plugin: "PodTopologySpread", bound: as, other: func(*corev1.Node) {}, node: func(n *corev1.Node) { n.Labels["pool"] = "x" },
		pod: func(p *corev1.Pod) {
			spread(corev1.TopologySpreadConstraint{TopologyKey: corev1.LabelHostname, NodeAffinityPolicy: ptr.To(corev1.NodeInclusionPolicyIgnore)})(p)
			p.Spec.NodeSelector = map[string]string{"pool": "x"}
		},
	},
	"VolumeRestrictions": {pod: uses("a"), bound: uses("a"), objects: []runtime.Object{
		claimOf("a", func(c *corev1.PersistentVolumeClaim) {
			c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
		}), volume("a"),
	}},
	"NodeVolumeLimits": {pod: uses("b"), bound: uses("a"), objects: []runtime.Object{
		claimOf("a"), volume("a"), claimOf("b"), volume("b"), csiNode(storagev1.CSINodeDriver{
			Name: driver, NodeID: "n", Allocatable: &storagev1.VolumeNodeResources{Count: ptr.To(int32(1))}}),
	}},
	"VolumeLimitScaling": {plugin: "NodeVolumeLimits", pod: uses("a"), objects: []runtime.Object{
		claimOf("a"), volume("a"), csiNode(), &storagev1.CSIDriver{
			ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: storagev1.CSIDriverSpec{PreventPodSchedulingIfMissing: ptr.To(true)}},
	}},
	"VolumeBinding": {pod: uses("a"), objects: []runtime.Object{claimOf("a"), volume("a", func(v *corev1.PersistentVolume) {
		v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: zone, Operator: corev1.NodeSelectorOpIn, Values: []string{"z2"}}}}}}}
	})}},
	"VolumeAttributesClass": {plugin: "VolumeBinding", pod: uses("a"), objects: []runtime.Object{
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "local"}, Provisioner: volumes.NoProvisioner,
			VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)},
		claimOf("a", func(c *corev1.PersistentVolumeClaim) {
			c.Spec.VolumeName, c.Annotations, c.Spec.StorageClassName = "", nil, ptr.To("local")
		}),
		volume("a", func(v *corev1.PersistentVolume) {
			v.Spec.ClaimRef, v.Spec.StorageClassName, v.Spec.VolumeAttributesClassName = nil, "local", ptr.To("gold")
		}),
	}},
	"VolumeZone": {pod: uses("a"), objects: []runtime.Object{claimOf("a"), volume("a", func(v *corev1.PersistentVolume) {
		v.Labels = map[string]string{corev1.LabelTopologyZone: "z2"}
	})}},
	"DynamicResources": {
		devices: []runtime.Object{deviceClass("gpu"), &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "one", UID: "one"},
			Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{Name: "gpu",
				Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1}}}}}}},
		pod: func(p *corev1.Pod) {
			p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "one", ResourceClaimName: ptr.To("one")}}
		},
	},
	"DRAExtendedResource": {plugin: "DynamicResources", devices: []runtime.Object{deviceClass("gpu")}, pod: func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests["example.com/device"] = resource.MustParse("1")
	}},
}

// TestCounterparts checks that the named plugin of the kube-scheduler refuses every situation, and that the planner refuses it, too.
func TestCounterparts(t *testing.T) {
	for name, tc := range situations {
		t.Run(name, func(t *testing.T) {
			w := tc.world()
			s := newScheduler(t, w.Nodes, w.Devices, w.Objects()...)
			s.Set(w.Bound)
			want := tc.plugin
			if want == "" {
				want = name
			}
			if got := s.refusedBy(w.Gang[0], "n"); got != want {
				t.Errorf("refused by %q", got)
			}
			if plan := w.Plan(); plan.Refusal == nil {
				t.Errorf("planned on %v", plan.Pods)
			} else {
				t.Log(plan.Refusal.Message())
			}
		})
	}
	plain := situation{pod: as, bound: as}.world()
	s := newScheduler(t, plain.Nodes, nil, plain.Objects()...)
	s.Set(plain.Bound)
	if by, plan := s.refusedBy(plain.Gang[0], "n"), plain.Plan(); by != "" || plan.Refusal != nil {
		t.Errorf("a pod without rules is refused by %q, %v", by, plan.Refusal)
	}
}

func (tc situation) world() smallworld.World {
	w := smallworld.World{Required: topology.NoLevel, Volumes: tc.objects, Devices: tc.devices}
	w.Nodes = append(w.Nodes, newNode("n", "2", tc.node))
	if tc.other != nil {
		w.Nodes = append(w.Nodes, newNode("other", "0", tc.other))
	}
	w.Gang = []*corev1.Pod{newPod("waiting", tc.pod)}
	if tc.bound != nil {
		p := newPod("bound", tc.bound)
		p.Spec.NodeName = "n"
		w.Bound = append(w.Bound, p)
	}
	return w
}

func newNode(name, cpu string, change func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name, zone: "z1"}},
		Status: corev1.NodeStatus{
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourcePods: resource.MustParse("10")},
		},
	}
	if change != nil {
		change(n)
	}
	return n
}

func newPod(name string, change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"app": "x"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Resources: corev1.ResourceRequirements{Requests: cpus("1")},
		}}},
	}
	change(p)
	return p
}

func port(p *corev1.Pod) {
	p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80, Protocol: corev1.ProtocolTCP}}
}

func requests(n string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = cpus(n) }
}

func spread(c corev1.TopologySpreadConstraint) func(*corev1.Pod) {
	c.MaxSkew, c.WhenUnsatisfiable = 1, corev1.DoNotSchedule
	if c.LabelSelector == nil {
		c.LabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}
	}
	return func(p *corev1.Pod) { p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{c} }
}

func uses(claim string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}}
	}
}

// claimOf returns a claim that is bound to its volume.
func claimOf(name string, change ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Annotations: map[string]string{volumes.AnnBindCompleted: "yes"}},
		Spec: corev1.PersistentVolumeClaimSpec{
			VolumeName: name, StorageClassName: ptr.To(""), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
	for _, f := range change {
		f(c)
	}
	return c
}

func volume(name string, change ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany, corev1.ReadWriteOncePod},
			ClaimRef:               &corev1.ObjectReference{Namespace: "ns", Name: name},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: name}},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeAvailable},
	}
	for _, f := range change {
		f(v)
	}
	return v
}

func csiNode(drivers ...storagev1.CSINodeDriver) *storagev1.CSINode {
	return &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: storagev1.CSINodeSpec{Drivers: drivers}}
}

func deviceClass(name string) *resourcev1.DeviceClass {
	return &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourcev1.DeviceClassSpec{ExtendedResourceName: ptr.To("example.com/device")}}
}
