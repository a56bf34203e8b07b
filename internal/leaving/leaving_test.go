// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package leaving

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

func TestNodesThatLeave(t *testing.T) {
	taint := func(key string) corev1.NodeSpec {
		return corev1.NodeSpec{Taints: []corev1.Taint{{Key: key, Effect: corev1.TaintEffectNoSchedule}}}
	}
	condition := func(of corev1.NodeConditionType, is corev1.ConditionStatus) corev1.NodeStatus {
		return corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: of, Status: is}}}
	}
	drain := map[string]string{AnnotationDrain: "2026-12-01T00:00:00Z"}
	for name, c := range map[string]struct {
		node corev1.Node
		want string
	}{
		"nothing":                     {corev1.Node{}, ""},
		"cordoned":                    {corev1.Node{Spec: corev1.NodeSpec{Unschedulable: true}}, ""},
		"named, and not cordoned":     {corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: drain}}, ""},
		"cordoned and named":          {corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: drain}, Spec: corev1.NodeSpec{Unschedulable: true}}, "node n is drained"},
		"Karpenter":                   {corev1.Node{Spec: taint("karpenter.sh/disrupted")}, "node n has the taint karpenter.sh/disrupted"},
		"Cluster Autoscaler":          {corev1.Node{Spec: taint("ToBeDeletedByClusterAutoscaler")}, "node n has the taint ToBeDeletedByClusterAutoscaler"},
		"its candidates":              {corev1.Node{Spec: taint("DeletionCandidateOfClusterAutoscaler")}, ""},
		"a taint of the flag":         {corev1.Node{Spec: taint("example.com/gone")}, "node n has the taint example.com/gone"},
		"another taint":               {corev1.Node{Spec: taint("example.com/other")}, ""},
		"maintenance is planned":      {corev1.Node{Status: condition("MaintenancePlanned", corev1.ConditionTrue)}, "node n has the condition MaintenancePlanned"},
		"a drain is in progress":      {corev1.Node{Status: condition("DrainInProgress", corev1.ConditionTrue)}, "node n has the condition DrainInProgress"},
		"no maintenance is planned":   {corev1.Node{Status: condition("MaintenancePlanned", corev1.ConditionFalse)}, ""},
		"whether it is, is not known": {corev1.Node{Status: condition("MaintenancePlanned", corev1.ConditionUnknown)}, ""},
	} {
		c.node.Name = "n"
		if got := (Rules{Taints: []string{"example.com/gone"}}).Why(&c.node); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestEvictions(t *testing.T) {
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		value          string
		closed         bool
		counts, exists bool
	}{
		"none":                                 {"", true, false, false},
		"not readable":                         {"node soon", true, false, false},
		"of something else":                    {"rack 2026-12-01T12:00:00Z", true, false, false},
		"of a pod":                             {"pod 2026-11-01T12:00:00Z", false, true, true},
		"with its node":                        {"node 2026-12-01T11:58:00Z", true, true, true},
		"with its node, which is open again":   {"node 2026-12-01T11:58:00Z", false, false, true},
		"with its node, not repeated":          {"node 2026-12-01T11:55:00Z", true, false, true},
		"with its node, by a clock in future":  {"node 2026-12-01T13:00:00Z", true, true, true},
		"for a place":                          {"place 2026-12-01T11:58:00Z ns/llm", false, true, true},
		"for a place, not repeated":            {"place 2026-12-01T11:55:00Z ns/llm", true, false, true},
		"for a place, within a limit":          {"place 2026-12-01T11:58:00Z ns/llm 16", false, true, true},
		"for a place, within an unknown limit": {"place 2026-12-01T11:58:00Z ns/llm few", false, false, false},
		"for a place, within a negative limit": {"place 2026-12-01T11:58:00Z ns/llm -1", false, false, false},
		"for no one's place":                   {"place 2026-12-01T11:58:00Z", false, false, false},
		"of a pod, for a place":                {"pod 2026-12-01T11:58:00Z ns/llm", false, false, false},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{AnnotationEviction: c.value}}}
		e, exists := EvictionOf(pod)
		counts := false
		if exists {
			counts, _ = e.Counts(now, c.closed)
		}
		if exists != c.exists || counts != c.counts {
			t.Errorf("%s: exists %v, counts %v", name, exists, counts)
		}
	}
}

// TestEvictionsAreWrittenSeldom: what is written is read again, and is written anew after a minute, or for another reason.
func TestEvictionsAreWrittenSeldom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := Eviction{At: time.Unix(rapid.Int64Range(0, 1<<32).Draw(t, "at"), 0).UTC()}
		if e.For = rapid.SampledFrom([]string{"", "", "ns/llm"}).Draw(t, "for"); e.For == "" {
			e.WithNode = rapid.Bool().Draw(t, "with node")
		} else {
			e.MaxGPUs = rapid.Int64Range(0, 64).Draw(t, "GPUs")
		}
		pod := &corev1.Pod{}
		if !e.Replaces(pod) {
			t.Fatal("the first one is not written")
		}
		pod.Annotations = map[string]string{AnnotationEviction: e.String()}
		if got, ok := EvictionOf(pod); !ok || got != e {
			t.Fatalf("read as %+v, want %+v", got, e)
		}
		later := rapid.IntRange(0, 120).Draw(t, "seconds")
		again := Eviction{At: e.At.Add(time.Duration(later) * time.Second), WithNode: rapid.Bool().Draw(t, "still")}
		if want := again.WithNode != e.WithNode || e.For != "" || later >= 60; again.Replaces(pod) != want {
			t.Fatalf("%+v after %+v: written anew is not %v", again, e, want)
		}
	})
}
