// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package volumes_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
	"github.com/trellis-k8s/trellis/internal/volumes"
)

const (
	gpu    = "nvidia.com/gpu"
	zone   = "topology.kubernetes.io/zone"
	driver = "csi.example.com"
)

var levels = topology.Levels{{Domain: "zone", Key: zone}}

// nodes are two zones of two hosts with four GPUs: a-1, a-2, b-1, b-2.
func nodes() (list []*corev1.Node) {
	for _, z := range []string{"a", "b"} {
		for h := 1; h <= 2; h++ {
			name := fmt.Sprintf("%s-%d", z, h)
			list = append(list, &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{zone: z, corev1.LabelHostname: name}},
				Status: corev1.NodeStatus{
					Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
					Allocatable: corev1.ResourceList{gpu: resource.MustParse("4"), corev1.ResourcePods: resource.MustParse("10")},
				},
			})
		}
	}
	return list
}

// pods makes n pods of some GPUs that use claims.
func pods(n int, gpus string, claims ...string) (list []*corev1.Pod) {
	for i := range n {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprintf("x-%d", i)},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{gpu: resource.MustParse(gpus)}}}}},
		}
		for _, claim := range claims {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: claim, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}})
		}
		list = append(list, p)
	}
	return list
}

// withOwn gives each pod a claim that is made for it.
func withOwn(list []*corev1.Pod, class string) []*corev1.Pod {
	for _, p := range list {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "own", VolumeSource: corev1.VolumeSource{
			Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
				Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class}}}}})
	}
	return list
}

func claim(name, class string, change ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "uid-" + "c", Annotations: map[string]string{}},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}},
		},
	}
	for _, f := range change {
		f(c)
	}
	return c
}

func boundTo(name string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) {
		c.Spec.VolumeName, c.Annotations[volumes.AnnBindCompleted] = name, "yes"
	}
}

func once(c *corev1.PersistentVolumeClaim) {
	c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
}

// pv is a volume of a class in a zone; "": everywhere.
func pv(name, class, in string) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: class, Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("20Gi")},
			AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: name}},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeAvailable},
	}
	if in != "" {
		v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: zone, Operator: corev1.NodeSelectorOpIn, Values: []string{in}}}}}}}
	}
	return v
}

func class(name, provisioner string, waits bool, zones ...string) *storagev1.StorageClass {
	c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner, VolumeBindingMode: ptr.To(storagev1.VolumeBindingImmediate)}
	if waits {
		c.VolumeBindingMode = ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)
	}
	if len(zones) > 0 {
		c.AllowedTopologies = []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: zone, Values: zones}}}}
	}
	return c
}

// csiNodes say that the driver is on all hosts, with topology zone, and how many volumes each attaches.
func csiNodes(limit int32) (list []any) {
	for _, n := range nodes() {
		list = append(list, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: n.Name}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{
			Name: driver, TopologyKeys: []string{zone}, Allocatable: &storagev1.VolumeNodeResources{Count: &limit}}}}})
	}
	return list
}

func capacity(in, size string) *storagev1.CSIStorageCapacity {
	return &storagev1.CSIStorageCapacity{
		ObjectMeta: metav1.ObjectMeta{Namespace: "csi", Name: "in-" + in}, StorageClassName: "wait", Capacity: ptr.To(resource.MustParse(size)),
		NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{zone: in}},
	}
}

func TestPlan(t *testing.T) {
	wait, reports := class("wait", driver, true), &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driver}}
	reports.Spec.StorageCapacity = ptr.To(true)
	user := pods(1, "0", "models")[0]
	user.Name, user.Spec.NodeName = "user", "a-1"
	tests := map[string]struct {
		objects []any
		partial bool
		bound   []*corev1.Pod
		pods    []*corev1.Pod
		want    []string
		why     string
	}{
		"where the volume is": {
			objects: []any{claim("models", "", boundTo("v")), pv("v", "", "b")}, pods: pods(2, "4", "models"), want: []string{"b-1", "b-2"},
		},
		"where the volume's zone label says": {
			objects: []any{claim("models", "", boundTo("v")), func() any {
				v := pv("v", "", "")
				v.Labels = map[string]string{corev1.LabelFailureDomainBetaZone: "b__c"}
				return v
			}()}, pods: pods(1, "4", "models"), want: []string{"b-1"},
		},
		"more than the volume's zone holds": {
			objects: []any{claim("models", "", boundTo("v")), pv("v", "", "b")}, pods: pods(3, "4", "models"),
			why: "needs 3 pods x 4 nvidia.com/gpu in the cluster; it holds 2 of 3 (2 hosts volume v is elsewhere",
		},
		"no such claim":                     {pods: pods(1, "1", "models"), why: "volume claim models does not exist; needs 1 pod x 1 nvidia.com/gpu in the cluster"},
		"no such claim, as far as is known": {partial: true, pods: pods(1, "1", "models"), want: []string{"a-1"}},
		"a claim of another namespace": {
			objects: []any{claim("models", "", boundTo("v"), func(c *corev1.PersistentVolumeClaim) { c.Namespace = "other" }), pv("v", "", "")},
			pods:    pods(1, "1", "models"), why: "volume claim models does not exist",
		},
		"a lost claim": {
			objects: []any{claim("models", "", boundTo("v"), func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimLost })},
			pods:    pods(1, "1", "models"), why: "volume claim models has lost its volume",
		},
		"a claim that is being deleted": {
			objects: []any{claim("models", "", boundTo("v"), func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }), pv("v", "", "")},
			pods:    pods(1, "1", "models"), why: "volume claim models is being deleted",
		},
		"a volume that is gone": {
			objects: []any{claim("models", "", boundTo("v"))}, pods: pods(1, "1", "models"), why: "volume v of claim models does not exist",
		},
		"no class":                  {objects: []any{claim("models", "")}, pods: pods(1, "1", "models"), why: "claim models has no volume, and no storage class"},
		"a class that is not there": {objects: []any{claim("models", "x")}, pods: pods(1, "1", "models"), why: "storage class x does not exist"},
		"a class that binds at once": {
			objects: []any{claim("models", "now"), class("now", driver, false)}, pods: pods(1, "1", "models"), why: "volume claim models is not bound yet",
		},
		"allowed topologies": {
			objects: []any{claim("models", "wait"), class("wait", driver, true, "b")}, pods: pods(1, "1", "models"), want: []string{"b-1"},
		},
		"capacity": {
			objects: []any{claim("models", "wait"), wait, reports, capacity("a", "5Gi"), capacity("b", "50Gi")}, pods: pods(1, "1", "models"), want: []string{"b-1"},
		},
		"capacity nowhere": {
			objects: []any{claim("models", "wait"), wait, reports, capacity("a", "5Gi")}, pods: pods(1, "1", "models"), why: "storage class wait is short of capacity",
		},
		"a volume that is there": {
			objects: []any{claim("models", "local"), class("local", volumes.NoProvisioner, true), pv("v", "local", "b")},
			pods:    pods(1, "1", "models"), want: []string{"b-1"},
		},
		"no volume that is there": {
			objects: []any{claim("models", "local"), class("local", volumes.NoProvisioner, true)}, pods: pods(1, "1", "models"), why: "no volume of class local for claim models",
		},
		"a node is chosen already": {
			objects: []any{claim("models", "wait", func(c *corev1.PersistentVolumeClaim) { c.Annotations[volumes.AnnSelectedNode] = "b-2" }), wait},
			pods:    pods(1, "1", "models"), want: []string{"b-2"},
		},
		"pods that share a claim without a volume share a zone": {
			objects: append(csiNodes(100), claim("models", "wait"), wait), pods: pods(2, "4", "models"), want: []string{"a-1", "a-2"},
		},
		"more of them than a zone holds": {
			objects: append(csiNodes(100), claim("models", "wait"), wait), pods: pods(3, "4", "models"), why: "volume of claim models is made elsewhere",
		},
		"more of them than there are, of a driver without topology": {
			objects: []any{claim("models", "wait"), wait}, pods: pods(3, "4", "models"), want: []string{"a-1", "a-2", "b-1"},
		},
		"one pod at a time": {
			objects: []any{claim("models", "", boundTo("v"), once), pv("v", "", "")}, pods: pods(2, "1", "models"), why: "volume claim models (ReadWriteOncePod) has one pod",
		},
		"in use by another pod": {
			objects: []any{claim("models", "", boundTo("v"), once), pv("v", "", "")}, bound: []*corev1.Pod{user}, pods: pods(1, "1", "models"),
			why: "volume claim models (ReadWriteOncePod) is in use by ns/user",
		},
		"volumes of their own, as many as nodes attach": {
			objects: append(csiNodes(2), wait), pods: withOwn(pods(4, "1"), "wait"), want: []string{"a-1", "a-1", "a-2", "a-2"},
		},
		"a volume whose claim is lost is attached all the same": {
			objects: append(csiNodes(1), wait, claim("models", "", boundTo("v"), func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimLost }), pv("v", "", "")),
			bound:   []*corev1.Pod{user}, pods: withOwn(pods(1, "1"), "wait"), want: []string{"a-2"},
		},
		"volumes of their own, more than nodes attach": {
			objects: append(csiNodes(1), wait), pods: withOwn(pods(5, "1"), "wait"), why: "volume limit of csi.example.com reached: 1",
		},
		"a volume that pods share is attached once": {
			objects: append(csiNodes(1), claim("models", "", boundTo("v")), pv("v", "", "")), pods: pods(4, "1", "models"), want: []string{"a-1", "a-1", "a-1", "a-1"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			store := volumes.NewStore()
			store.Partial = tc.partial
			for _, o := range tc.objects {
				store.Set(o)
			}
			c := topology.NewCluster()
			c.Binders = []topology.Binder{store}
			for _, n := range nodes() {
				c.SetNode(n)
			}
			for _, p := range tc.bound {
				c.SetPod(p)
			}
			r := placement.PlanGraph(c, graphOf(tc.pods), placement.Options{}).Replicas[0]
			if tc.why != "" {
				if r.Refusal == nil || !strings.Contains(r.Refusal.Message(), tc.why) {
					t.Fatalf("not refused for %q: %v, %+v", tc.why, r.Pods, r.Refusal)
				}
				if got := r.Refusal.Blocked; (got != "") != everywhere.MatchString(tc.why) || !strings.Contains(r.Refusal.Message(), got) {
					t.Errorf("what keeps it off every node is %q, of %s", got, r.Refusal.Message())
				}
				return
			}
			if r.Refusal != nil {
				t.Fatal("refused: " + r.Refusal.Message())
			}
			var got []string
			for _, p := range r.Pods {
				got = append(got, p.Node)
			}
			slices.Sort(got)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// everywhere matches what no free capacity would change.
var everywhere = regexp.MustCompile(`not exist|lost its volume|being deleted|not bound|no storage class|in use by|the pod's own`)

func graphOf(list []*corev1.Pod) placement.Demand {
	replica := placement.Replica{}
	for _, p := range list {
		replica.Pods = append(replica.Pods, placement.Pod{ID: topology.PodID(p), Name: p.Name, Shape: topology.ShapeOf(p)})
	}
	return placement.Demand{
		Name: "g", Levels: levels, Required: topology.NoLevel, Preferred: topology.NoLevel,
		Components: []placement.Component{{
			Name: "s", Multinode: true, Required: topology.NoLevel, Preferred: topology.NoLevel, Waiting: []placement.Replica{replica},
		}},
	}
}

// A claim that is made, bound or deleted between two plans changes the next answer.
func TestStoreChanges(t *testing.T) {
	store, plan := planner()
	got := []string{plan()}
	store.Set(claim("models", "", boundTo("v")))
	store.Set(pv("v", "", "a"))
	got = append(got, plan())
	store.Set(pv("v", "", "b"))
	got = append(got, plan())
	store.Delete(claim("models", ""))
	got = append(got, plan())
	if diff := cmp.Diff([]string{"refused", "a-1", "b-1", "refused"}, got); diff != "" {
		t.Error(diff)
	}
}

// A claim that will be made gets the default class. One whose class waits counts as if it were there, and of others nothing is known.
func TestExpect(t *testing.T) {
	asDefault := func(c *storagev1.StorageClass) *storagev1.StorageClass {
		c.Annotations = map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
		return c
	}
	for name, tc := range map[string]struct {
		classes []*storagev1.StorageClass
		there   *corev1.PersistentVolumeClaim
		want    string
	}{
		"the default class waits":  {classes: []*storagev1.StorageClass{class("now", driver, false), asDefault(class("wait", driver, true, "b"))}, want: "b-1"},
		"the default class binds":  {classes: []*storagev1.StorageClass{asDefault(class("now", driver, false))}, want: "a-1"},
		"no default class":         {want: "a-1"},
		"there is one of its name": {there: claim("models", ""), want: "refused"},
	} {
		t.Run(name, func(t *testing.T) {
			store := volumes.NewStore()
			for _, c := range tc.classes {
				store.Set(c)
			}
			if tc.there != nil {
				store.Set(tc.there)
			}
			store.Expect(claim("models", "", func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = nil }))
			c := topology.NewCluster()
			c.Binders = []topology.Binder{store}
			for _, n := range nodes() {
				c.SetNode(n)
			}
			got := "refused"
			if r := placement.PlanGraph(c, graphOf(pods(1, "1", "models")), placement.Options{}).Replicas[0]; r.Refusal == nil {
				got = r.Pods[0].Node
			}
			if got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

// planner returns a store of a cluster, and a function that returns the planned node of a pod with the claim models, or "refused".
func planner() (*volumes.Store, func() string) {
	store := volumes.NewStore()
	c := topology.NewCluster()
	c.Binders = []topology.Binder{store}
	for _, n := range nodes() {
		c.SetNode(n)
	}
	return store, func() string {
		c.Begin()
		defer c.Rollback()
		r := placement.PlanGraph(c, graphOf(pods(1, "1", "models")), placement.Options{}).Replicas[0]
		if r.Refusal != nil {
			return "refused"
		}
		return r.Pods[0].Node
	}
}
