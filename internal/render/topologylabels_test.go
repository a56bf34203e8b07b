// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/test/testutil/hub"
)

// packedPod is pod 0 of the example whose deployment level is zone and whose worker sits in one rack.
func packedPod(t *testing.T, change func(*nvidiav1alpha1.DynamoGraphDeployment)) *corev1.Pod {
	t.Helper()
	dgd := constraints{topology: "hall-one", graph: "zone", decode: "rack"}.deployment()
	change(dgd)
	g, err := Resolve(hub.Of(dgd), Inputs{Topology: hallOne(t), Provider: specs.Gates.Name})
	if err != nil {
		t.Fatal(err)
	}
	return BuildPod(g.ScalingGroups()[0], 0, 0)
}

func TestTopologyLabels(t *testing.T) {
	pod := packedPod(t, func(*nvidiav1alpha1.DynamoGraphDeployment) {})
	pins := map[string]string{"topology.kubernetes.io/zone": "z", "topology.trellis.dev/rack": "r", "pool": "p"}
	want := map[string]string{"nvidia.com/dynamo-topology.zone": "z", "nvidia.com/dynamo-topology.rack": "r"}
	if diff := cmp.Diff(want, TopologyLabels(pod, pins)); diff != "" {
		t.Error(diff)
	}
	for _, annotation := range []string{"", "no JSON", "[]"} {
		pod.Annotations[AnnotationLevels] = annotation
		if got := TopologyLabels(pod, pins); len(got) > 0 {
			t.Errorf("annotation %q: %v", annotation, got)
		}
	}
}

func TestPlaceInsideThePod(t *testing.T) {
	main := func(dgd *nvidiav1alpha1.DynamoGraphDeployment) *nvidiav1alpha1.ExtraPodSpec {
		s := dgd.Spec.Services["Decode"]
		s.ExtraPodSpec = &nvidiav1alpha1.ExtraPodSpec{PodSpec: &corev1.PodSpec{}, MainContainer: &corev1.Container{}}
		return s.ExtraPodSpec
	}
	const rack = "metadata.labels['nvidia.com/dynamo-topology.rack']"
	tests := map[string]struct {
		change           func(*nvidiav1alpha1.DynamoGraphDeployment)
		wantEnv, wantDir string
		wantVolumes      int
	}{
		"as it comes": {func(*nvidiav1alpha1.DynamoGraphDeployment) {}, rack, "topology-labels", 1},
		"the user's variable stays": {func(d *nvidiav1alpha1.DynamoGraphDeployment) {
			main(d).MainContainer.Env = []corev1.EnvVar{{Name: "TRELLIS_TOPOLOGY_RACK", Value: "mine"}}
		}, "mine", "topology-labels", 1},
		"the user's folder stays": {func(d *nvidiav1alpha1.DynamoGraphDeployment) {
			main(d).MainContainer.VolumeMounts = []corev1.VolumeMount{{Name: "mine", MountPath: "/etc/dynamo/topology"}}
		}, rack, "mine", 0},
		"unconstrained": {func(d *nvidiav1alpha1.DynamoGraphDeployment) {
			d.Spec.TopologyConstraint, d.Spec.Services["Decode"].TopologyConstraint = nil, nil
		}, "", "", 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pod := packedPod(t, tc.change)
			c := pod.Spec.Containers[0]
			env, dir, volumes := "", "", 0
			if i := indexEnv(c.Env, "TRELLIS_TOPOLOGY_RACK"); i >= 0 {
				env = c.Env[i].Value
				if from := c.Env[i].ValueFrom; from != nil {
					env = from.FieldRef.FieldPath
				}
			}
			for _, m := range c.VolumeMounts {
				if m.MountPath == "/etc/dynamo/topology" {
					dir = m.Name
				}
			}
			for _, v := range pod.Spec.Volumes {
				if v.DownwardAPI != nil {
					volumes++
				}
			}
			if env != tc.wantEnv || dir != tc.wantDir || volumes != tc.wantVolumes {
				t.Errorf("variable %q, folder %q, %d volumes; want %q, %q, %d", env, dir, volumes, tc.wantEnv, tc.wantDir, tc.wantVolumes)
			}
		})
	}
}

// TestTopologyLabelOfLongLevel: a level's name may have 63 characters, a label's name no more in all.
func TestTopologyLabelOfLongLevel(t *testing.T) {
	long := strings.Repeat("a", 63)
	first, second := topologyLabel(long), topologyLabel(long[:62]+"b")
	if problems := validation.IsQualifiedName(first); len(problems) > 0 || first == second {
		t.Errorf("%s, %s: %v", first, second, problems)
	}
}
