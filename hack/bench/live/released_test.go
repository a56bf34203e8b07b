// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"fmt"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/hack/bench/hall"
	"github.com/trellis-k8s/trellis/internal/render"
)

// TestAsReleased checks that bare pods have only the pins of the packed ones, gang by gang.
func TestAsReleased(t *testing.T) {
	shape := hall.Shape{Hosts: 8, HostsPerRack: 4, RacksPerBlock: 1_000, BlocksPerZone: 1}
	p := &pods{byName: map[string]*corev1.Pod{}}
	for i := range 4 {
		pod := barePod(fmt.Sprintf("graph-%d-worker-%d", i/2, i%2), "", hall.GPUs)
		pod.Labels[render.LabelGraph] = fmt.Sprintf("graph-%d", i/2)
		pinLabel(pod, shape, i/2)
		if i < 2 {
			require(pod, corev1.NodeSelectorTerm{})
			pod.Spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{}
		}
		p.byName[pod.Name] = pod
	}
	byGang, err := releasedGangs(p)
	if err != nil {
		t.Fatal(err)
	}
	way := asReleased(byGang)
	members := way.objects(shape, 2, 2)[0]
	if len(members) != 4 {
		t.Fatalf("there are %d pods", len(members))
	}
	for i, o := range members {
		pod, from := o.(*corev1.Pod), p.byName[fmt.Sprintf("graph-%d-worker-%d", i/2, i%2)]
		if way.gangOf(pod) != Packed.gangOf(from) || !reflect.DeepEqual(pod.Spec.NodeSelector, from.Spec.NodeSelector) {
			t.Errorf("pod %d: %v in gang %s", i, pod.Spec.NodeSelector, way.gangOf(pod))
		}
		if pinned := pod.Spec.Affinity != nil; pinned != (i < 2) || pinned && (pod.Spec.Affinity.PodAntiAffinity != nil ||
			!reflect.DeepEqual(pod.Spec.Affinity.NodeAffinity, from.Spec.Affinity.NodeAffinity)) {
			t.Errorf("pod %d has the affinity %v", i, pod.Spec.Affinity)
		}
	}
	p.byName["graph-0-worker-0"].Spec.NodeSelector = nil
	if _, err := releasedGangs(p); err == nil {
		t.Error("a pod without pins is compared with")
	}
}
