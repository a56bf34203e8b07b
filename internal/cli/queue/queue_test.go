// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/cli/live"
	"github.com/trellis-k8s/trellis/internal/cli/text"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/whatif"
	"github.com/trellis-k8s/trellis/test/testutil/golden"
)

var noon = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)

func waiting(namespace, name, class string, age, since time.Duration, status metav1.ConditionStatus) *nvidiav1beta1.DynamoGraphDeployment {
	dgd := &nvidiav1beta1.DynamoGraphDeployment{}
	dgd.Namespace, dgd.Name, dgd.Spec.PriorityClassName = namespace, name, class
	dgd.CreationTimestamp = metav1.NewTime(noon.Add(-age))
	dgd.Status.Conditions = []metav1.Condition{{
		Type: nvidiav1beta1.ConditionPlaced, Status: status, Reason: "InsufficientCapacity", LastTransitionTime: metav1.NewTime(noon.Add(-since)),
		Message: "1 of 2 packed replicas are placed. Worker-1: needs 2 pods x 8 nvidia.com/gpu in one rack; zone-0/block-0/rack-1 holds 1 of 2 (1 host cordoned); 3 other racks hold fewer",
	}}
	return dgd
}

// requesting is a template of pods with so many GPUs each.
func requesting(gpus string) *corev1.PodTemplateSpec {
	limits := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse(gpus)}
	return &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Limits: limits}}}}}
}

func world() Deployments {
	class := func(name string, value int32, fallback bool) *schedulingv1.PriorityClass {
		return &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value, GlobalDefault: fallback}
	}
	mixed := waiting("team-b", "mixed", "high", 3*time.Hour, time.Minute, metav1.ConditionFalse)
	mixed.Spec.Components = []nvidiav1beta1.ComponentSpec{
		{Name: "a"}, {Name: "b", PodTemplate: &corev1.PodTemplateSpec{Spec: corev1.PodSpec{PriorityClassName: "low"}}},
	}
	held := waiting("team-c", "held", "high", 4*time.Hour, 30*time.Minute, metav1.ConditionFalse)
	held.Status.Conditions[0].Reason = gang.CodeWaitingForAdmission
	held.Status.Conditions[0].Message = `0 of 2 packed replicas are placed. Worker-0,1: waits for admission: another controller has to remove the scheduling gate "kueue.x-k8s.io/admission" from pod held-worker-0-0`
	held.Status.Conditions = append(held.Status.Conditions, metav1.Condition{
		Type: nvidiav1beta1.ConditionQuotaReserved, Status: metav1.ConditionFalse, Reason: nvidiav1beta1.ReasonQuotaPending,
		Message: "0 of 1 Workloads have quota in queue gpus; Workload held-base-5d41402a: insufficient unused quota for nvidia.com/gpu in flavor gpu, 8 more needed",
	})
	eval := waiting("team-b", "eval", "high", time.Minute, 55*time.Second, metav1.ConditionFalse)
	eval.Spec.Components = []nvidiav1beta1.ComponentSpec{
		{Name: "Worker", Replicas: ptr.To(int32(3)), Multinode: &nvidiav1beta1.MultinodeSpec{NodeCount: 2}, PodTemplate: requesting("8")}, {Name: "Frontend"},
	}
	eval.Status.Components = map[string]nvidiav1beta1.ComponentStatus{"Worker": {ScheduledReplicas: ptr.To(int32(1))}}
	held.Spec.Components = []nvidiav1beta1.ComponentSpec{{Name: "Worker", Replicas: ptr.To(int32(2)), PodTemplate: requesting("4")}}
	leaving := waiting("team-a", "leaving", "high", time.Hour, time.Hour, metav1.ConditionFalse)
	leaving.DeletionTimestamp = &metav1.Time{Time: noon}
	return Deployments{Snapshot: live.Snapshot{World: whatif.World{
		Now:        noon,
		Priorities: []*schedulingv1.PriorityClass{class("high", 1000, false), class("low", -5, false), class("usual", 10, true)},
		Graphs: []*nvidiav1beta1.DynamoGraphDeployment{
			waiting("team-a", "young", "", time.Minute, 50*time.Second, metav1.ConditionFalse), waiting("team-a", "old", "", 2*time.Hour, 100*time.Minute, metav1.ConditionFalse),
			eval, waiting("team-b", "placed", "high", time.Minute, 55*time.Second, metav1.ConditionTrue),
			waiting("team-c", "newest", "", time.Second, time.Second, metav1.ConditionFalse), held, mixed, leaving, {ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "not-looked-at-yet"}},
		},
	}}}
}

// TestText: higher priority first, then the namespaces in turn, each with its oldest first; what is placed, leaves, or was not looked at yet does not wait.
// What waits for admission is not planned: it comes last, without a number.
func TestText(t *testing.T) {
	golden.Check(t, "testdata/all.golden", Build(world()).Text(text.Page{}))
	one := world()
	one.Only, one.Denied = "team-a", []string{"list priorityclasses.scheduling.k8s.io"}
	golden.Check(t, "testdata/wide.golden", Build(world()).Text(text.Page{Wide: true}))
	golden.Check(t, "testdata/namespace.golden", Build(one).Text(text.Page{}))
	golden.Check(t, "testdata/nothing.golden", Build(Deployments{}).Text(text.Page{}))
}

// TestNothingInANamespace: that nothing waits there does not hide what waits elsewhere, nor that the namespace does not exist.
func TestNothingInANamespace(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Deployments)
		want   string
	}{
		"empty":            {func(s *Deployments) { s.Only = "team-d" }, "Nothing waits in namespace team-d. 6 deployments wait in other namespaces; -A shows them.\n"},
		"no such":          {func(s *Deployments) { s.Only, s.OnlyMissing = "nope", true }, "Namespace nope does not exist. 6 deployments wait in other namespaces; -A shows them.\n"},
		"one elsewhere":    {func(s *Deployments) { s.Only, s.Graphs = "team-d", s.Graphs[:1] }, "Nothing waits in namespace team-d. 1 deployment waits in another namespace; -A shows it.\n"},
		"nothing anywhere": {func(s *Deployments) { s.Only, s.Graphs = "team-d", nil }, "Nothing waits in namespace team-d.\n"},
	} {
		s := world()
		tc.change(&s)
		if got := Build(s).Text(text.Page{}); got != tc.want {
			t.Errorf("%s: got %s", name, got)
		}
	}
}

// TestMissingPods: a deployment whose pods are gone is not passed over because its status says that it is placed.
func TestMissingPods(t *testing.T) {
	dgd := waiting("team-a", "chat", "", time.Hour, time.Hour, metav1.ConditionTrue)
	dgd.Spec.Components = []nvidiav1beta1.ComponentSpec{{Name: "Worker", Multinode: &nvidiav1beta1.MultinodeSpec{NodeCount: 2}}, {Name: "Frontend"}}
	dgd.Status.Components = map[string]nvidiav1beta1.ComponentStatus{"Worker": {ScheduledReplicas: ptr.To(int32(2))}, "Frontend": {ScheduledReplicas: ptr.To(int32(1))}}
	pods := func(list ...string) (out []metav1.PartialObjectMetadata) {
		for _, short := range list {
			f := strings.Fields(short)
			out = append(out, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Labels: map[string]string{
				render.LabelGraph: "chat", render.LabelComponent: f[0], render.LabelReplica: f[1], render.LabelPodIndex: f[2],
			}}})
		}
		return out
	}
	all := []string{"Worker 0 0", "Worker 0 1", "Worker 1 0", "Worker 1 1", "Frontend 0 0"}
	const waits = "No deployment reports that it waits.\n\nPods are missing that the status counts, and the operator has not reported it: team-a/chat "
	for name, tc := range map[string]struct {
		pods   []metav1.PartialObjectMetadata
		change func(*Deployments)
		want   string
	}{
		"all there":          {pods(all...), nil, "Nothing waits.\n"},
		"one gone":           {pods(all[1:]...), nil, waits + "(1 of 5\n  pods)\n"},
		"a replica gone":     {pods(all[2:]...), nil, waits + "(2 of 5\n  pods)\n"},
		"a component gone":   {pods(all[:4]...), nil, waits + "(1 of 5\n  pods)\n"},
		"one too many":       {pods(append(all, "Worker 2 0")...), nil, "Nothing waits.\n"},
		"made by a provider": {pods("Worker x x", "Frontend x x"), nil, "Nothing waits.\n"},
		"of others alone": {nil, func(s *Deployments) { s.PodsHidden, s.PodsOf = true, "team-b" },
			"Nothing waits.\n\nYou may not list pods in the whole cluster, so pods that are missing are not known.\n"},
		"not asked about": {nil, func(s *Deployments) { s.Only = "team-b" }, "Nothing waits in namespace team-b.\n"},
		"being deleted":   {nil, func(s *Deployments) { s.Graphs[0].DeletionTimestamp = &metav1.Time{Time: noon} }, "Nothing waits.\n"},
	} {
		s := Deployments{Members: tc.pods}
		s.Graphs = []*nvidiav1beta1.DynamoGraphDeployment{dgd.DeepCopy()}
		if tc.change != nil {
			tc.change(&s)
		}
		if got := Build(s).Text(text.Page{}); got != tc.want {
			t.Errorf("%s: got\n%s", name, got)
		}
	}
}

// TestGPUs: replicas that are placed wait for none, the status knows those of claims, and unknown ones are not shown as 0.
func TestGPUs(t *testing.T) {
	two := nvidiav1beta1.ComponentSpec{Name: "Worker", Replicas: ptr.To(int32(2)), PodTemplate: requesting("8")}
	claims := *two.DeepCopy()
	claims.PodTemplate.Spec.Containers[0].Resources = corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "gpus"}}}
	claims.PodTemplate.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpus", ResourceClaimTemplateName: ptr.To("t")}}
	for name, tc := range map[string]struct {
		component nvidiav1beta1.ComponentSpec
		status    nvidiav1beta1.ComponentStatus
		want      string
	}{
		"nothing placed":         {two, nvidiav1beta1.ComponentStatus{}, "16"},
		"one of two":             {two, nvidiav1beta1.ComponentStatus{ScheduledReplicas: ptr.To(int32(1))}, "8/16"},
		"more than wanted":       {two, nvidiav1beta1.ComponentStatus{ScheduledReplicas: ptr.To(int32(3))}, "0/16"},
		"without a template":     {nvidiav1beta1.ComponentSpec{Name: "Worker"}, nvidiav1beta1.ComponentStatus{}, "0"},
		"claims in the status":   {claims, nvidiav1beta1.ComponentStatus{GPUsPerReplica: ptr.To(int64(4))}, "8"},
		"claims that no one has": {claims, nvidiav1beta1.ComponentStatus{}, "-"},
	} {
		dgd := waiting("team-a", "g", "", 0, 0, metav1.ConditionFalse)
		dgd.Spec.Components = []nvidiav1beta1.ComponentSpec{tc.component}
		dgd.Status.Components = map[string]nvidiav1beta1.ComponentStatus{"Worker": tc.status}
		if got := gpusOf(dgd).cell(); got != tc.want {
			t.Errorf("%s: got %s, want %s", name, got, tc.want)
		}
	}
}

// TestWidths: on a terminal no line is longer than the terminal is wide.
func TestWidths(t *testing.T) {
	s := world()
	for i := range 200 {
		s.Graphs = append(s.Graphs, waiting(fmt.Sprintf("team-%d", i%7), fmt.Sprintf("llama-70b-disaggregated-%d", i), "", time.Hour, time.Hour, metav1.ConditionFalse))
	}
	for _, columns := range []int{80, 100, 160} {
		shown := Build(s).Text(text.Page{Columns: columns, Color: true})
		if lines := strings.Count(shown, "InsufficientCapacity"); lines != 205 || strings.Count(shown, "\n") > 210 {
			t.Errorf("%d columns: %d lines for 206 deployments:\n%s", columns, strings.Count(shown, "\n"), shown)
		}
		if columns > 80 != strings.Contains(shown, "PRIORITY") {
			t.Errorf("%d columns: the priority is shown: %t", columns, strings.Contains(shown, "PRIORITY"))
		}
		for line := range strings.Lines(shown) {
			if width := text.Width(strings.TrimSuffix(line, "\n")); width > columns {
				t.Errorf("%d of %d columns: %s", width, columns, line)
			}
		}
	}
}

// TestPriority: the priority is the one that admission gives the pods, by classes of their own and by those that every cluster has.
func TestPriority(t *testing.T) {
	for name, tc := range map[string]struct {
		graph      string
		components []string
		want       int32
	}{
		"of no class":                    {"", nil, 10},
		"of a class":                     {"high", []string{"", ""}, 1000},
		"of the least component":         {"high", []string{"", "low"}, -5},
		"of a component alone":           {"", []string{"high"}, 1000},
		"of a class of every cluster":    {"system-cluster-critical", []string{""}, 2_000_000_000},
		"of a class that does not exist": {"none", []string{""}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			dgd := waiting("team-a", "g", tc.graph, 0, 0, metav1.ConditionFalse)
			for _, class := range tc.components {
				template := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{PriorityClassName: class}}
				dgd.Spec.Components = append(dgd.Spec.Components, nvidiav1beta1.ComponentSpec{PodTemplate: template})
			}
			if got := world().priority(dgd); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}
