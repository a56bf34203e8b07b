// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/trellis-k8s/trellis/internal/claims/allocator"
	"github.com/trellis-k8s/trellis/internal/cli/text"
	"github.com/trellis-k8s/trellis/test/testutil/golden"
)

// bound is a volume claim with its volume, which can be used in one zone.
func (w *world) bound(name, zone string) {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: name, UID: "claim"}}
	claim.Spec = corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}, StorageClassName: ptr.To("shared"), VolumeName: "models"}
	claim.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
	claim.Status.Phase = corev1.ClaimBound
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "models"}}
	volume.Spec = corev1.PersistentVolumeSpec{
		Capacity: corev1.ResourceList{"storage": resource.MustParse("1Gi")}, AccessModes: claim.Spec.AccessModes, StorageClassName: "shared",
		ClaimRef: &corev1.ObjectReference{Namespace: "team-a", Name: name, UID: "claim"},
		NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{zone}}}}}}},
	}
	volume.Status.Phase = corev1.VolumeBound
	w.Volumes.Claims, w.Volumes.Volumes = append(w.Volumes.Claims, claim), append(w.Volumes.Volumes, volume)
	w.Volumes.Classes = append(w.Volumes.Classes, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "shared"}})
}

// devices are so many of a class on each host, with a template for claims of four of them.
func (w *world) devices(each int) {
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	template := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "four"}}
	template.Spec.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{
		DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 4}}}
	w.Devices, w.Claims.Templates = append(w.Devices, class), append(w.Claims.Templates, template)
	for _, n := range w.Nodes {
		slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: n.Name}}
		slice.Spec = resourcev1.ResourceSliceSpec{Driver: "gpu.example.com", NodeName: &n.Name, Pool: resourcev1.ResourcePool{Name: n.Name, Generation: 1, ResourceSliceCount: 1}}
		for i := range each {
			slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{Name: fmt.Sprint(i)})
		}
		w.Claims.Slices = append(w.Claims.Slices, slice)
	}
}

// The report names the volume, the claim or the pod that is in the way, with numbers.
func TestNamesWhatIsInTheWay(t *testing.T) {
	const volume, away = `volumes: [{name: models, persistentVolumeClaim: {claimName: models}}]`, `affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [
        {topologyKey: rack, namespaces: [other], labelSelector: {matchLabels: {app: web}}}]}}`
	var out strings.Builder
	for _, tc := range []struct {
		name, spec string
		change     func(w *world)
	}{
		{"a claim that does not exist", volume, func(*world) {}},
		{"a volume of another zone", volume, func(w *world) { w.bound("models", "b") }},
		{"too few devices", `resourceClaims: [{name: gpus, resourceClaimTemplateName: four}]`, func(w *world) { w.devices(3) }},
		{"a template that does not exist", `resourceClaims: [{name: gpus, resourceClaimTemplateName: four}]`, func(*world) {}},
		{"pods of others in each rack", away, func(w *world) {
			for i, host := range []string{"a-0-0", "a-1-0"} {
				w.occupy(fmt.Sprintf("web-%d", i), host, "0")
				w.Pods[len(w.Pods)-1].Labels = map[string]string{"app": "web"}
			}
		}},
	} {
		one := strings.Replace(strings.Replace(chat, "replicas: 2", "replicas: 1", 1), "extraPodSpec: {mainContainer: {image: app, command", "extraPodSpec: {"+tc.spec+", mainContainer: {image: app, command", 1)
		w := newWorld(t, nodes(t, 1, 2, 2), topologyManifest, one)
		w.AllVolumes, w.AllClaims, w.Allocator = true, true, allocator.New()
		tc.change(w)
		w.resolve("chat-frontend-0 node a-0-0\nchat-worker-0-0 gated\nchat-worker-0-1 gated")
		words, reason := w.said(), w.reason()
		report := Build(w.condition(placed, false, reason, words).Subject).Text(text.Page{})
		_, why, _ := strings.Cut(report, "WHY IT WAITS\n")
		why, _, _ = strings.Cut(why, "\nOPERATOR")
		fmt.Fprintf(&out, "# %s\n%s\n%s\n", tc.name, words, why)
	}
	golden.Check(t, filepath.Join("testdata", "counted.golden"), out.String())
}
