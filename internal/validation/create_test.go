// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/test/testutil/hub"
)

// withImages gives each component a main container with an image.
func withImages(d *deployment) {
	for _, s := range d.Spec.Services {
		s.ExtraPodSpec = &nvidiav1alpha1.ExtraPodSpec{MainContainer: &corev1.Container{Image: "i"}}
	}
}

// TestGraphCreate: what only new objects must keep.
func TestGraphCreate(t *testing.T) {
	const noImage = "extraPodSpec.mainContainer.image: Required value: name the image of the main container"
	const noClaims = "cannot be combined with the annotation dynamo.nvidia.com/gpu-power-limit: the planner does not count the power of claimed devices; remove one of the two"
	tests := map[string]struct {
		change func(*deployment)
		want   []string
	}{
		"images": {},
		"no main container": {
			change: func(d *deployment) { d.Spec.Services["Frontend"].ExtraPodSpec = nil },
			want:   []string{"spec.services[Frontend]." + noImage},
		},
		"a main container that says other things": {
			change: worker(func(s *componentSpec) { s.ExtraPodSpec.MainContainer = &corev1.Container{Command: []string{"a"}} }),
			want:   []string{"spec.services[Worker]." + noImage},
		},
		"sidecars without an image, which v1alpha1 takes": {
			change: worker(func(s *componentSpec) {
				s.ExtraPodSpec.PodSpec = &corev1.PodSpec{Containers: []corev1.Container{{Name: "side"}}, InitContainers: []corev1.Container{{Name: "first"}}}
			}),
		},
		"a restart": {
			change: func(d *deployment) { d.Spec.Restart = &nvidiav1alpha1.Restart{ID: "1"} },
			want: []string{"spec.restart: Forbidden: spec.restart must be unset on create; set spec.restart.id after creation to request a restart: " +
				"apply the object without it, then set it"},
		},
		"more replicas in the base gang than there are": {
			change: worker(func(s *componentSpec) { s.MinAvailable = ptr.To[int32](3) }),
			want:   []string{"spec.services[Worker].minAvailable: Invalid value: 3: " + tooFewReplicas},
		},
		"a service that is stopped": {
			change: worker(func(s *componentSpec) { s.MinAvailable, s.Replicas = ptr.To[int32](3), ptr.To[int32](0) }),
		},
		"a power limit that is no number, and claims": {
			change: worker(func(s *componentSpec) {
				s.ExtraPodMetadata = &nvidiav1alpha1.ExtraPodMetadata{Annotations: map[string]string{annotationPowerLimit: "1.5kW"}}
				s.Resources = &nvidiav1alpha1.Resources{Claims: []corev1.ResourceClaim{{Name: "gpus"}}, Limits: &nvidiav1alpha1.ResourceItem{GPU: "1"}}
				s.GPUMemoryService = &nvidiav1alpha1.GPUMemoryService{Enabled: true}
				s.ExtraPodSpec.PodSpec = &corev1.PodSpec{
					Containers:     []corev1.Container{{Name: "side", Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "gpus"}}}}},
					InitContainers: []corev1.Container{{Name: "first", Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "gpus"}}}}},
				}
			}),
			want: []string{
				`spec.services[Worker].annotations[dynamo.nvidia.com/gpu-power-limit]: Invalid value: "1.5kW": must be a whole number of watts, 1 or more`,
				`spec.services[Worker].gpuMemoryService: Forbidden: ` + noClaims,
				`spec.services[Worker].resources.claims: Forbidden: ` + noClaims,
				`spec.services[Worker].extraPodSpec.containers[side].resources.claims: Forbidden: ` + noClaims,
				`spec.services[Worker].extraPodSpec.initContainers[first].resources.claims: Forbidden: ` + noClaims,
			},
		},
		"an unknown strategy of Grove": {
			change: func(d *deployment) { d.Annotations["nvidia.com/grove-update-strategy"] = "Recreate" },
			want:   []string{`metadata.annotations[nvidia.com/grove-update-strategy]: Unsupported value: "Recreate": must be "RollingRecreate" or "OnDelete"`},
		},
		"a known strategy of Grove": {change: func(d *deployment) { d.Annotations["nvidia.com/grove-update-strategy"] = "OnDelete" }},
		"what holds for every object": {
			change: func(d *deployment) { d.Spec.BackendFramework = "tgi" },
			want:   []string{`spec.backendFramework: Unsupported value: "tgi": supported values: "sglang", "trtllm", "vllm"`},
		},
	}
	for name, tc := range tests {
		dgd := newGraph(withImages)
		if tc.change != nil {
			tc.change(dgd)
		}
		if diff := cmp.Diff(tc.want, texts(GraphCreate(written(dgd)))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestSidecarsOfV1beta1: all containers of a podTemplate name their image.
func TestSidecarsOfV1beta1(t *testing.T) {
	dgd := hub.Of(newGraph(withImages))
	pod := &dgd.Component("Worker").PodTemplate.Spec
	pod.Containers = append(pod.Containers, corev1.Container{Name: "side"}, corev1.Container{Name: "other", Image: "i"})
	pod.InitContainers = []corev1.Container{{Name: "first"}}
	want := []string{
		"spec.services[Worker].extraPodSpec.containers[side].image: Required value: name the image of this container",
		"spec.services[Worker].extraPodSpec.initContainers[first].image: Required value: name the image of this container",
	}
	got := GraphCreate(Written{DynamoGraphDeployment: dgd})
	if diff := cmp.Diff(want, texts(got)); diff != "" {
		t.Error(diff)
	}
	if got := got.In(nvidiav1beta1.GroupVersion.Version)[0].Field; got != "spec.components[1].podTemplate.spec.containers[side].image" {
		t.Errorf("in v1beta1: %s", got)
	}
}

const tooFewReplicas = "minAvailable must be less than or equal to replicas unless replicas is 0; raise replicas, or set it to 0 to stop the service"

func TestMinAvailable(t *testing.T) {
	least := func(n int32) func(*deployment) { return worker(func(s *componentSpec) { s.MinAvailable = &n }) }
	const fixed = "spec.services[Worker].minAvailable: Forbidden: minAvailable is immutable after creation; put it back, or delete and recreate the DynamoGraphDeployment"
	none := worker(func(s *componentSpec) { s.MinAvailable = nil })
	scaled := func(n int32) func(*deployment) { return worker(func(s *componentSpec) { s.Replicas = &n }) }
	tests := map[string]struct {
		old, change func(*deployment)
		want        []string
	}{
		"set later":                       {old: none, change: least(2)},
		"changed":                         {old: least(2), change: least(1), want: []string{fixed}},
		"removed":                         {old: least(2), change: none, want: []string{fixed}},
		"scaled below":                    {old: least(2), change: scaled(1), want: []string{"spec.services[Worker].minAvailable: Invalid value: 2: " + tooFewReplicas}},
		"scaled to 0":                     {old: least(2), change: scaled(0)},
		"scaled where it never was right": {old: func(d *deployment) { least(9)(d); scaled(3)(d) }, change: scaled(5)},
	}
	for name, tc := range tests {
		old := newGraph(tc.old)
		updated := old.DeepCopy()
		tc.change(updated)
		if diff := cmp.Diff(tc.want, texts(GraphUpdate(written(updated), written(old)))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for n, refused := range map[int32]bool{0: false, 1: true, 2: false, 3: false} {
		if got := len(ScaleFloor(hub.Of(newGraph(least(2))), "Worker", n)) > 0; got != refused {
			t.Errorf("scaled to %d: refused %v", n, got)
		}
	}
	if errs := texts(ProviderUpdate(hub.Of(newGraph(least(2))), hub.Of(newGraph(none)), specs.Grove.Name)); len(errs) != 1 || !strings.Contains(errs[0], "cannot be set later under the provider Grove") {
		t.Errorf("set later under Grove: %q", errs)
	}
	if errs := ProviderUpdate(hub.Of(newGraph(least(1))), hub.Of(newGraph(none)), specs.Grove.Name); errs != nil {
		t.Errorf("the default set later under Grove: %v", errs)
	}
}

func TestPowerLimit(t *testing.T) {
	limited := func(watts string) func(*deployment) {
		return worker(func(s *componentSpec) {
			s.ExtraPodMetadata = &nvidiav1alpha1.ExtraPodMetadata{Annotations: map[string]string{annotationPowerLimit: watts}}
			s.Resources = &nvidiav1alpha1.Resources{Limits: &nvidiav1alpha1.ResourceItem{GPU: "8"}}
		})
	}
	const path = "spec.services[Worker].annotations[dynamo.nvidia.com/gpu-power-limit]: Forbidden: is immutable and cannot be added, removed, or changed after creation; " +
		"delete and recreate the DynamoGraphDeployment"
	const frozen = ": Forbidden: " + immutableBesidePower
	tests := map[string]struct {
		old, change func(*deployment)
		want        []string
	}{
		"added":   {change: limited("500"), want: []string{path}},
		"removed": {old: limited("500"), change: worker(func(s *componentSpec) { s.ExtraPodMetadata = nil }), want: []string{path}},
		"changed": {old: limited("500"), change: limited("600"), want: []string{path}},
		"GPUs": {old: limited("500"), change: worker(func(s *componentSpec) { s.Resources.Limits.GPU = "4" }),
			want: []string{"spec.services[Worker].resources.limits.gpu" + frozen}},
		"nodeCount": {old: limited("500"), change: worker(func(s *componentSpec) { s.Multinode.NodeCount = 8 }),
			want: []string{"spec.services[Worker].multinode.nodeCount" + frozen}},
		"replicas": {old: limited("500"), change: worker(func(s *componentSpec) { *s.Replicas = 9 })},
		"GPUs of one without the limit": {change: worker(func(s *componentSpec) {
			s.Resources = &nvidiav1alpha1.Resources{Limits: &nvidiav1alpha1.ResourceItem{GPU: "4"}}
		})},
	}
	for name, tc := range tests {
		old := newGraph()
		if tc.old != nil {
			tc.old(old)
		}
		updated := old.DeepCopy()
		tc.change(updated)
		if diff := cmp.Diff(tc.want, texts(GraphUpdate(written(updated), written(old)))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
