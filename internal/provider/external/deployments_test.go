// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package external_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/kai"
	"github.com/trellis-k8s/trellis/test/testutil/hub"
	"github.com/trellis-k8s/trellis/test/testutil/providertest"
)

// TestEveryPodHasItsLeaf: each pod that is released names a leaf that is in its PodGroup, and the leaves' minima are the pods there are.
func TestEveryPodHasItsLeaf(t *testing.T) {
	for name, c := range semantics {
		t.Run(name, func(t *testing.T) {
			dgd := deployment(t, c.spec)
			k := providertest.KAI(t, dgd)
			least := map[string]int32{}
			if pg := kai.RenderPodGroup(k); pg != nil {
				for _, sub := range pg.Spec.SubGroups {
					if sub.MinMember != nil {
						least[pg.Name+"/"+sub.Name] = *sub.MinMember
					}
				}
			}
			pods := map[string]int32{}
			for _, pod := range providertest.Pods(k) {
				if pod.Annotations[kai.AnnotationPodGroup] == "" {
					continue // free
				}
				if pod.Spec.SchedulerName != kai.SchedulerName || pod.Annotations[kai.AnnotationSkipGrouper] != "true" || pod.Labels[kai.LabelQueue] != k.Queue {
					t.Errorf("pod %s is not KAI's: %q %v %v", pod.Name, pod.Spec.SchedulerName, pod.Labels, pod.Annotations)
				}
				pods[pod.Annotations[kai.AnnotationPodGroup]+"/"+pod.Labels[kai.LabelSubGroup]]++
			}
			for leaf, n := range pods {
				if least[leaf] == 0 || least[leaf] > n {
					t.Errorf("%d pods name %q, which wants %d", n, leaf, least[leaf])
				}
				delete(least, leaf)
			}
			if len(least) > 0 {
				t.Errorf("leaves without a pod: %v", least)
			}
		})
	}
}

// TestLeaderWorkerSetsJoin: the pods of a set wait in the way of their placer, like pods of Trellis' own.
func TestLeaderWorkerSetsJoin(t *testing.T) {
	dgd := providertest.Deployment(t, `
metadata: {name: g, namespace: ns}
spec:
  services:
    Deep: {componentType: worker, replicas: 2, multinode: {nodeCount: 4}}`)
	k := providertest.KAI(t, dgd)
	for provider, c := range map[string]struct {
		groups []*trellisv1alpha1.ScalingGroup
		join   func(*corev1.Pod, *trellisv1alpha1.ScalingGroup)
		want   string
	}{
		"Gates": {providertest.Groups(t, dgd, "Gates"), nil, "g-deep-r0 size 4 gate trellis.dev/placement\ng-deep-r1 size 4 gate trellis.dev/placement\n"},
		"KAI":   {k.Groups, k.Prepare, "g-deep-r0 size 4 gate trellis.dev/placement for kai-scheduler\ng-deep-r1 size 4 gate trellis.dev/placement for kai-scheduler\n"},
	} {
		if diff := cmp.Diff(c.want, providertest.SketchLWS(providertest.Sets(c.groups, c.join))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", provider, diff)
		}
	}
}

// deployment has the spec and, in every component, a command.
func deployment(t *testing.T, spec string) *nvidiav1beta1.DynamoGraphDeployment {
	t.Helper()
	dgd := providertest.Deployment(t, "metadata: {name: g, namespace: ns}\nspec:\n"+indent(spec))
	for i := range dgd.Spec.Components {
		dgd.Spec.Components[i].PodTemplate = hub.Main(&corev1.Container{Command: []string{"serve"}})
	}
	return dgd
}

func indent(text string) string { return strings.ReplaceAll(text, "\n", "\n  ") }

func contains(list []string, group string, ordinal int32) bool {
	for _, entry := range list {
		if entry == fmt.Sprintf("%s/%d", group, ordinal) {
			return true
		}
	}
	return false
}
