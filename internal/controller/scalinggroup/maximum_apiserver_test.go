// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/graph"
	"github.com/trellis-k8s/trellis/internal/rollout"
)

// longest are 16 levels, as many as a topology may have, and for each host labels of 63 characters. Hosts share the broader ones: 8 to a rack, and so on.
func longest() (levels []trellisv1alpha1.ResolvedLevel, labels func(host string) map[string]string) {
	for i := range 16 {
		levels = append(levels, trellisv1alpha1.ResolvedLevel{Domain: fmt.Sprintf("level-%d", i), Key: fmt.Sprintf("example.com/level-%d", i)})
	}
	return levels, func(host string) map[string]string {
		var n int
		if _, err := fmt.Sscanf(host, "host-%d", &n); err != nil {
			return nil
		}
		out := map[string]string{}
		for i, level := range levels {
			out[level.Key] = fmt.Sprintf("%063d", n>>(3*(15-i)))
		}
		return out
	}
}

// At the most replicas, and at those of earlier faults, with the longest labels that there may be, every status is stored, read back, says what it leaves
// out, and is not written again.
func TestStatusAtTheMaximum(t *testing.T) {
	for _, c := range []struct {
		replicas, size int32
		cut            string
	}{
		{100, 1, ""}, // listed in full
		{2300, 1, "down to level level-13 only"},
		{10000, 1, "down to level level-13 only"}, // the most by the default of --max-pods-per-graph
		{65536, 1, "down to level level-12 only"}, // by the schema
	} {
		t.Run(fmt.Sprint(c.replicas), func(t *testing.T) {
			s := newServer(t)
			sg := s.startable(group(c.replicas, c.size))
			levels, labels := longest()
			sg.Spec.Topology.Levels, sg.Spec.Topology.PackDomain = levels, "level-14"
			s.must(s.c.Create(t.Context(), sg))
			replicas := map[int32]*replica{}
			template := podsOf(sg, 0, running)[0]
			for n := range c.replicas {
				pod := template.DeepCopy()
				pod.Name, pod.Labels[graph.LabelReplica], pod.Spec.NodeName = graph.PodName(sg, n, 0), fmt.Sprint(n), fmt.Sprintf("host-%d", n)
				replicas[n] = &replica{ordinal: n, size: 1, pods: map[int32]*corev1.Pod{0: pod}}
			}
			for i := range maxFailed {
				sg.Status.FailedReplicas = append(sg.Status.FailedReplicas, trellisv1alpha1.FailedReplica{
					Replica: int32(i), Failures: 1, Reason: strings.Repeat("r", 256), NewestPod: metav1.Now(), RetryAt: metav1.Now(), Revision: strings.Repeat("r", 63),
				})
			}

			status := statusOf(sg, replicas, rollout.Plan{}, labels, nil)
			before := sg.DeepCopy()
			before.Status = trellisv1alpha1.ScalingGroupStatus{}
			if _, err := s.r.report(t.Context(), before, status); err != nil {
				t.Fatalf("writing the status: %v", err)
			}
			stored := &trellisv1alpha1.ScalingGroup{}
			s.must(s.r.Live.Get(t.Context(), client.ObjectKeyFromObject(sg), stored))
			raw, err := json.Marshal(stored)
			s.must(err)
			t.Logf("%d bytes are stored, %d are listed, %d domains", len(raw), len(stored.Status.Placements), len(stored.Status.FurtherPlacements))
			if len(raw) > 1<<20 {
				t.Errorf("%d bytes are stored", len(raw))
			}

			places := gang.Placements(&stored.Status)
			if len(places) != int(c.replicas) {
				t.Fatalf("%d places of %d", len(places), c.replicas)
			}
			for n, p := range places {
				whole := gang.LevelsOf(sg.Spec.Topology).PathOf(labels(fmt.Sprintf("host-%d", n))).String()
				if int(p.Replica) != n || !p.Bound || p.Domain == "" || !strings.HasPrefix(whole+"/", p.Domain+"/") {
					t.Fatalf("replica %d is at %s, and is said to be %+v", n, whole, p)
				}
			}
			condition := meta.FindStatusCondition(stored.Status.Conditions, trellisv1alpha1.ConditionPlacementsComplete)
			if (condition == nil) != (c.cut == "") || condition != nil && !strings.Contains(condition.Message, c.cut) {
				t.Errorf("the condition is %+v, want %q", condition, c.cut)
			}
			if again := statusOf(stored, replicas, rollout.Plan{}, labels, nil); !equality.Semantic.DeepEqual(again, stored.Status) {
				t.Error("it would be written again")
			}
		})
	}
}
