// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package smallworld

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/trellis-k8s/trellis/internal/volumes"
)

const driver = "csi.example.com"

// DrawVolumes draws a world with shared claims, which are bound or cannot be used, and pods' own claims, which are not bound yet.
func DrawVolumes(t *rapid.T) World {
	w := drawWorld(t)
	for i := range rapid.IntRange(1, 4).Draw(t, "nodes") {
		w.Nodes = append(w.Nodes, drawNode(t, i))
	}
	w.drawProviders(t)
	w.drawClaims(t)
	return w
}

// drawProviders draws the CSI driver's node information, and storage classes.
func (w *World) drawProviders(t *rapid.T) {
	w.Volumes = append(w.Volumes, &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: storagev1.CSIDriverSpec{
			StorageCapacity:               ptr.To(rapid.Bool().Draw(t, "reports capacity")),
			PreventPodSchedulingIfMissing: rapid.SampledFrom([]*bool{nil, ptr.To(false), ptr.To(true), ptr.To(true)}).Draw(t, "needs the driver"),
		},
	})
	for _, n := range w.Nodes {
		if rapid.IntRange(0, 3).Draw(t, n.Name+" driver") == 0 {
			continue
		}
		w.Volumes = append(w.Volumes, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: n.Name}, Spec: storagev1.CSINodeSpec{
			Drivers: []storagev1.CSINodeDriver{{
				Name: driver, NodeID: n.Name, TopologyKeys: []string{zone},
				Allocatable: &storagev1.VolumeNodeResources{Count: ptr.To(int32(rapid.IntRange(1, 3).Draw(t, n.Name+" limit")))}}}}})
	}
	modes := map[string]storagev1.VolumeBindingMode{"wait": storagev1.VolumeBindingWaitForFirstConsumer,
		"now": storagev1.VolumeBindingImmediate}
	for _, name := range []string{"now", "wait"} {
		c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: driver, VolumeBindingMode: ptr.To(modes[name])}
		if rapid.Bool().Draw(t, name+" everywhere") {
			c.AllowedTopologies = []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: zone,
				Values: []string{"z1"}}}}}
		}
		w.Volumes = append(w.Volumes, c)
	}
	w.Volumes = append(w.Volumes, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "local"}, Provisioner: volumes.NoProvisioner, VolumeBindingMode: ptr.To(modes["wait"]),
	})
	for i := range 2 {
		w.Volumes = append(w.Volumes, &storagev1.CSIStorageCapacity{
			ObjectMeta: metav1.ObjectMeta{Namespace: "csi", Name: strconv.Itoa(i)}, StorageClassName: "wait",
			Capacity:     ptr.To(resource.MustParse(rapid.SampledFrom([]string{"1Gi", "100Gi"}).Draw(t, fmt.Sprint("capacity ", i)))),
			NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{zone: "z" + strconv.Itoa(i+1)}},
		})
	}
}

// drawClaims draws pods and their claims.
func (w *World) drawClaims(t *rapid.T) {
	shared := []string{"shared-0", "shared-1"}
	for _, name := range shared {
		if rapid.IntRange(0, 7).Draw(t, name+" exists") > 0 {
			w.drawClaim(t, name, rapid.SampledFrom([]string{"bound", "bound", "bound", "lost", "now", ""}).Draw(t, name+" is"))
		}
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "pods") {
		p := plainPod(fmt.Sprintf("pod-%d", i), rapid.IntRange(0, 2).Draw(t, fmt.Sprint("gpus ", i)))
		if rapid.Bool().Draw(t, p.Name+" shares") {
			use(p, rapid.SampledFrom(shared).Draw(t, p.Name+" uses"))
		}
		if kind := rapid.SampledFrom([]string{"", "", "wait", "local"}).Draw(t, p.Name+" own"); kind != "" {
			w.drawClaim(t, "own-"+p.Name, kind)
			use(p, "own-"+p.Name)
		}
		w.Gang = append(w.Gang, p)
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "bound") {
		p := plainPod(fmt.Sprintf("bound-%d", i), 0)
		p.Spec.NodeName = rapid.SampledFrom(w.Nodes).Draw(t, "on").Name
		use(p, rapid.SampledFrom(shared).Draw(t, "used"))
		w.Bound = append(w.Bound, p)
	}
}

func plainPod(name string, gpus int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{gpu: resource.MustParse(strconv.Itoa(gpus))}}}}},
	}
}

func use(p *corev1.Pod, claim string) {
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: claim, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}})
}

// drawClaim draws a claim that is bound to a volume, has lost it, or has a class that provisions a volume; "": neither volume nor class.
func (w *World) drawClaim(t *rapid.T, name, kind string) {
	c := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Annotations: map[string]string{}},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{rapid.SampledFrom([]corev1.PersistentVolumeAccessMode{
				corev1.ReadWriteMany, corev1.ReadWriteMany, corev1.ReadWriteOncePod}).Draw(t, name+" access")},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}},
		},
	}
	switch kind {
	case "bound", "lost":
		c.Spec.VolumeName, c.Annotations[volumes.AnnBindCompleted], c.Spec.StorageClassName = "v-"+name, "yes", ptr.To("")
		if kind == "lost" {
			c.Status.Phase = corev1.ClaimLost
		}
		v := drawVolume(t, "v-"+name, "")
		v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "ns", Name: name, UID: c.UID}
		w.Volumes = append(w.Volumes, v)
	case "":
		c.Spec.StorageClassName = ptr.To("")
	case "local":
		if rapid.Bool().Draw(t, name+" volume") {
			w.Volumes = append(w.Volumes, drawVolume(t, "local-"+name, "local"))
		}
		c.Spec.StorageClassName = &kind
		c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"volume": "local-" + name}} // each pod has its own volume
	default:
		c.Spec.StorageClassName = &kind
	}
	w.Volumes = append(w.Volumes, c)
}

func drawVolume(t *rapid.T, name, class string) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"volume": name}},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: class, Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("20Gi")},
			AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany, corev1.ReadWriteOncePod},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: name}},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeAvailable},
	}
	in := rapid.SampledFrom([]string{"", "z1", "z2"}).Draw(t, name+" in")
	switch {
	case in == "":
	case rapid.Bool().Draw(t, name+" by label"):
		v.Labels[corev1.LabelTopologyZone] = in
	default:
		v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: zone, Operator: corev1.NodeSelectorOpIn, Values: []string{in}}}}}}}
	}
	return v
}
