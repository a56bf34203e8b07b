// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package repack

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/leaving"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/whatif"
)

// TestRequest: all pods of the first replica that moves are annotated, and no others, so that the operator knows what for.
func TestRequest(t *testing.T) {
	scheme, err := cli.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	sg := &trellisv1alpha1.ScalingGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "team-b", Name: "embed-worker", UID: "sg"}}
	sg.Spec.Graph, sg.Spec.Component = "embed", "Worker"
	world, c := whatif.World{Groups: []*trellisv1alpha1.ScalingGroup{sg}}, fake.NewClientBuilder().WithScheme(scheme)
	for _, name := range []string{"0-0", "1-0", "1-1"} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team-b", Name: "embed-worker-" + name, UID: types.UID(name), Labels: map[string]string{
			render.LabelScalingGroup: sg.Name, render.LabelReplica: name[:1], render.LabelPodIndex: name[2:],
		}, OwnerReferences: []metav1.OwnerReference{{APIVersion: "trellis.dev/v1alpha1", Kind: "ScalingGroup", Name: sg.Name, UID: sg.UID, Controller: ptr.To(true)}}}}
		world.Pods = append(world.Pods, pod)
		c = c.WithObjects(pod.DeepCopy())
	}
	client := c.Build()
	report := &Report{Namespace: "team-a", Name: "chat", Moves: []Move{{Namespace: "team-b", Name: "embed", Component: "Worker", Replica: 1}}}
	if err := request(t.Context(), client, &world, report, 8, time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)); err != nil {
		t.Fatal(err)
	}
	pods, got := &corev1.PodList{}, map[string]string{}
	if err := client.List(t.Context(), pods); err != nil {
		t.Fatal(err)
	}
	for i := range pods.Items {
		if request, requested := leaving.EvictionOf(&pods.Items[i]); requested {
			got[pods.Items[i].Name] = fmt.Sprintf("%s, at most %d GPUs", request.For, request.MaxGPUs)
		}
	}
	if diff := cmp.Diff(map[string]string{"embed-worker-1-0": "team-a/chat, at most 8 GPUs", "embed-worker-1-1": "team-a/chat, at most 8 GPUs"}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if said := report.requested(); !strings.Contains(said, "team-b/embed Worker-1 moves first") || !strings.Contains(said, "status dgd/chat -n team-a") {
		t.Error(said)
	}
	report.Moves[0].Replica = 7
	if err := request(t.Context(), client, &world, report, 0, time.Now()); err == nil || !strings.Contains(err.Error(), "team-b/embed Worker-7 is gone") {
		t.Errorf("of a replica that is gone: %v", err)
	}
}
