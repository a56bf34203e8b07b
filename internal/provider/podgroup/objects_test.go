// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package podgroup_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/podgroup"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/podgrouptest"
)

func TestGroupsOfABaseGang(t *testing.T) {
	decode, frontend := podgrouptest.Component("Decode", 2, 8, "rack"), podgrouptest.Component("Frontend", 1, 0, "")
	gang := podgrouptest.GangOfAll(true, decode, frontend)
	w := podgroup.Workload(gang.Graph, gang.Groups)
	got := podgroup.Group(gang, gang.Replicas[0], w)
	name := got.Name
	if podgroup.GroupOf(gang.Replicas[0].Pods[0]) != name || !strings.HasPrefix(name, "llm-9983-decode-0-") {
		t.Errorf("the group of a replica of 16 devices is called %s", name)
	}
	got.Name = "NAME"
	const want = `
metadata:
  annotations: {trellis.dev/gang: llm-3f9a1c0b2d, trellis.dev/graph: llm, trellis.dev/groups-of-gang: "2"}
  labels: {nvidia.com/dynamo-graph-deployment-name: llm, trellis.dev/replica: "0", trellis.dev/scaling-group: llm-decode}
  name: NAME
  namespace: ns
  ownerReferences:
  - {apiVersion: v1, kind: Pod, name: llm-decode-0-0, uid: uid-of-llm-decode-0-0}
  - {apiVersion: v1, kind: Pod, name: llm-decode-0-1, uid: uid-of-llm-decode-0-1}
spec:
  disruptionMode: {all: {}}
  parentCompositePodGroupName: llm-3f9a1c0b2d
  schedulingConstraints: {topology: [{key: k/rack}]}
  schedulingPolicy: {gang: {minCount: 2}}
  workloadRef: {templateName: gang-of-2-in-one-rack, workloadName: WORKLOAD}
`
	same(t, strings.ReplaceAll(want, "WORKLOAD", w.Name), got)

	later := gang
	later.Base = false
	if g := podgroup.Group(later, later.Replicas[0], w); g.Spec.ParentCompositePodGroupName != nil || g.Annotations[podgroup.AnnotationGroups] != "" {
		t.Errorf("a later replica has the parent %s", *g.Spec.ParentCompositePodGroupName)
	}
}

func TestWorkload(t *testing.T) {
	decode, frontend := podgrouptest.Component("Decode", 2, 8, "rack"), podgrouptest.Component("Frontend", 1, 0, "")
	gang := podgrouptest.GangOfAll(true, frontend, decode)
	w := podgroup.Workload(gang.Graph, gang.Groups)
	if again := podgroup.Workload(gang.Graph, gang.Groups); again.Name != w.Name {
		t.Error("the same deployment has two Workloads")
	}
	changed := podgrouptest.Component("Decode", 3, 8, "rack")
	if podgroup.Workload(gang.Graph, []*trellisv1alpha1.ScalingGroup{changed, frontend}).Name == w.Name {
		t.Error("another shape has the same Workload, which cannot be changed")
	}
	several := podgrouptest.Component("Decode", 2, 8, "rack")
	several.Spec.MinAvailable = ptr.To[int32](3)
	if got := podgroup.Workload(gang.Graph, []*trellisv1alpha1.ScalingGroup{several, frontend}).Spec.CompositePodGroupTemplates[0].SchedulingPolicy.Gang.MinGroupCount; got != 4 {
		t.Errorf("a base gang of 3 and 1 replicas has %d groups", got)
	}
	w.Name = "NAME"
	w.OwnerReferences = nil
	same(t, `
metadata: {name: NAME, namespace: ns, labels: {nvidia.com/dynamo-graph-deployment-name: llm}}
spec:
  controllerRef: {apiGroup: nvidia.com, kind: DynamoGraphDeployment, name: llm}
  compositePodGroupTemplates:
  - name: base-gang
    schedulingPolicy: {gang: {minGroupCount: 2}}
    schedulingConstraints: {topology: [{key: k/zone}]}
    podGroupTemplates:
    - {name: gang-of-2-in-one-rack, schedulingPolicy: {gang: {minCount: 2}}, schedulingConstraints: {topology: [{key: k/rack}]}}
    - {name: gang-of-1, schedulingPolicy: {gang: {minCount: 1}}}
`, w)
}

// A Workload holds eight templates; a deployment may have more shapes.
func TestWorkloadWithManyShapes(t *testing.T) {
	var groups []*trellisv1alpha1.ScalingGroup
	for i := range int32(25) {
		groups = append(groups, podgrouptest.Component(fmt.Sprintf("S%d", i), i+1, 1, "rack"))
	}
	w := podgroup.Workload(&nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Name: "llm"}}, groups)
	templates := w.Spec.CompositePodGroupTemplates[0].PodGroupTemplates
	if len(templates) != 8 || templates[0].Name != "gang-of-25-in-one-rack" || templates[7].Name != podgroup.OtherTemplate {
		t.Errorf("%d templates, from %s to %s", len(templates), templates[0].Name, templates[len(templates)-1].Name)
	}
	if got := podgroup.TemplateName(w, groups[0]); got != podgroup.OtherTemplate {
		t.Errorf("the smallest cites %s", got)
	}
	if got := podgroup.TemplateName(w, groups[24]); got != "gang-of-25-in-one-rack" {
		t.Errorf("the largest cites %s", got)
	}
}

// The scheduler takes groups created in one second by name: the largest first.
func TestLargestGroupComesFirstByName(t *testing.T) {
	want := []*trellisv1alpha1.ScalingGroup{podgrouptest.Component("Z", 16, 8, ""), podgrouptest.Component("B", 1, 8, ""), podgrouptest.Component("Y", 2, 1, ""), podgrouptest.Component("A", 1, 0, "")}
	var names []string
	for _, sg := range want {
		names = append(names, podgroup.GroupName(sg, 0, "x"))
	}
	if !slices.IsSorted(names) {
		t.Error(names)
	}
	if n := len(podgroup.GroupName(podgrouptest.Component(strings.Repeat("S", 63), 1, 0, ""), 100, "abcde")); n > 253 {
		t.Errorf("a name of %d characters", n)
	}
}

func TestGenerations(t *testing.T) {
	sg := podgrouptest.Component("Decode", 3, 8, "rack")
	first, second := podgrouptest.Prepared(sg, 0), podgrouptest.Prepared(sg, 0)
	if !podgroup.Kept(first) || !podgroup.Kept(second) || podgroup.GroupOf(first[0]) == podgroup.GroupOf(second[0]) {
		t.Errorf("two generations: %s and %s", podgroup.GroupOf(first[0]), podgroup.GroupOf(second[0]))
	}
	t.Log("the rest of a generation that was cut short joins it")
	rest := []*corev1.Pod{render.BuildPod(sg, 0, 2)}
	podgroup.Prepare(sg, 0, rest, first[:2], "other")
	if podgroup.GroupOf(rest[0]) != podgroup.GroupOf(first[0]) {
		t.Errorf("it is of %s, the others of %s", podgroup.GroupOf(rest[0]), podgroup.GroupOf(first[0]))
	}
	if podgroup.Kept([]*corev1.Pod{first[0], second[1]}) {
		t.Error("halves of two generations pass for one")
	}
	t.Log("a field that the API server dropped, and a pod of another provider, are noticed")
	stripped := first[0].DeepCopy()
	stripped.Spec.SchedulingGroup = nil
	if podgroup.Kept([]*corev1.Pod{stripped}) || podgroup.Kept([]*corev1.Pod{render.BuildPod(sg, 0, 0)}) {
		t.Error("they pass")
	}
}

func TestUnsuited(t *testing.T) {
	cases := map[string]struct {
		change func(a, b *trellisv1alpha1.ScalingGroup)
		want   string
	}{
		"equal": {},
		"one priority": {
			change: func(a, _ *trellisv1alpha1.ScalingGroup) { podgroup.PodSpec(a).PriorityClassName = "high" },
			want:   `must have one priorityClassName: component A has "high", component B has ""`,
		},
		"one scheduler": {
			change: func(_, b *trellisv1alpha1.ScalingGroup) { podgroup.PodSpec(b).SchedulerName = "mine" },
			want:   `must have one schedulerName: component A has "default-scheduler", component B has "mine"`,
		},
		"the default scheduler by name": {change: func(a, _ *trellisv1alpha1.ScalingGroup) { podgroup.PodSpec(a).SchedulerName = "default-scheduler" }},
		"no tree, no matter": {change: func(a, b *trellisv1alpha1.ScalingGroup) {
			podgroup.PodSpec(a).PriorityClassName = "high"
			a.Spec.Topology.GraphPackDomain, b.Spec.Topology.GraphPackDomain = "", ""
		}},
		"a group of its own": {
			change: func(_, b *trellisv1alpha1.ScalingGroup) {
				podgroup.PodSpec(b).SchedulingGroup = &corev1.PodSchedulingGroup{}
			},
			want: "component B names a schedulingGroup of its own; remove it from podTemplate.spec,",
		},
		"responders": {
			change: func(a, _ *trellisv1alpha1.ScalingGroup) {
				podgroup.PodSpec(a).EvictionResponders = []corev1.EvictionResponder{{}}
			},
			want: "component A has evictionResponders, which pods of a group may not have; remove them from podTemplate.spec,",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			a, b := podgrouptest.Component("A", 1, 1, "rack"), podgrouptest.Component("B", 1, 1, "rack")
			if c.change != nil {
				c.change(a, b)
			}
			if got := podgroup.Unsuited([]*trellisv1alpha1.ScalingGroup{a, b}); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// same compares objects as YAML, without what is empty.
func same(t *testing.T, want string, got any) {
	t.Helper()
	var a, b any
	raw, err := yaml.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(raw, &b); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal([]byte(want), &a); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(a, prune(b)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// prune drops nulls and what a type writes out when it is empty.
func prune(v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		if list, ok := v.([]any); ok {
			for i := range list {
				list[i] = prune(list[i])
			}
		}
		return v
	}
	for key, value := range m {
		if value == nil || key == "status" || key == "creationTimestamp" {
			delete(m, key)
			continue
		}
		m[key] = prune(value)
	}
	return m
}
