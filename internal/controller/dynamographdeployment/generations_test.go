// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
)

// disaggregated is a deployment of a frontend, 2 prefill and 4 decode, whose groups serve what it says.
func disaggregated(t *testing.T) observed {
	t.Helper()
	dgd := &nvidiav1beta1.DynamoGraphDeployment{}
	dgd.Name, dgd.Namespace = "llm", "team"
	dgd.Spec.Components = []nvidiav1beta1.ComponentSpec{
		{Name: "frontend", Type: nvidiav1beta1.ComponentTypeFrontend},
		{Name: "prefill", Type: nvidiav1beta1.ComponentTypePrefill, Replicas: ptr.To[int32](2)},
		{Name: "decode", Type: nvidiav1beta1.ComponentTypeDecode, Replicas: ptr.To[int32](4)},
	}
	o := observed{dgd: dgd, groups: map[string]*trellisv1alpha1.ScalingGroup{}}
	written(t, &o)
	for _, sg := range o.groups {
		n := sg.Spec.Replicas
		sg.Status = trellisv1alpha1.ScalingGroupStatus{
			Replicas: n, UpdatedReplicas: n, AvailableReplicas: n, UpdatedAvailableReplicas: n, Revision: sg.Spec.Revision, ObservedGeneration: sg.Generation,
		}
	}
	return o
}

// resolvedFrom is the deployment with its steps.
func resolvedFrom(t *testing.T, o observed) *render.Graph {
	t.Helper()
	g, err := render.Resolve(o.dgd, render.Inputs{Provider: specs.Gates.Name, Groups: o.groups})
	if err != nil {
		t.Fatal(err)
	}
	stepWorkers(o, g)
	return g
}

// written has the groups be as they are wanted. Which are written, and which are not yet, is the caller's where it names some.
func written(t *testing.T, o *observed, names ...string) {
	t.Helper()
	groups := map[string]*trellisv1alpha1.ScalingGroup{}
	for name, sg := range o.groups {
		groups[name] = sg
	}
	for _, sg := range resolvedFrom(t, *o).ScalingGroups() {
		if name := sg.Spec.Component; len(names) == 0 || name == names[0] {
			if before := o.groups[name]; before != nil {
				sg.Generation, sg.Status = before.Generation, before.Status
				if !cmp.Equal(before.Spec, sg.Spec) {
					sg.Generation++
				}
			}
			groups[name] = sg
		}
	}
	o.groups = groups
}

// count has a group count its replicas.
func count(o observed, name string, old, updated int32) {
	sg := o.groups[name]
	sg.Status.ObservedGeneration = sg.Generation
	sg.Status.Replicas, sg.Status.AvailableReplicas = old+updated, old+updated
	sg.Status.OutdatedReplicas, sg.Status.UpdatedReplicas, sg.Status.UpdatedAvailableReplicas = old, updated, updated
	sg.Status.Generations = nil
	if old > 0 {
		sg.Status.Generations = []trellisv1alpha1.GenerationCount{{Name: "before", Replicas: old, AvailableReplicas: old}}
	}
	if old == 0 && updated == sg.Spec.Replicas {
		sg.Status.Revision = sg.Spec.Revision
	}
}

func edit(o observed) {
	o.dgd.Spec.Components[2].RuntimeVersionOverride = ""
	o.dgd.Spec.Components[2].ModelRef = &nvidiav1beta1.ModelReference{Name: "another"}
}

// stepsIn are the steps of a graph, as keep and make.
func stepsIn(g *render.Graph) map[string][2]int32 {
	out := map[string][2]int32{}
	for _, s := range g.Components {
		if s.Step != nil {
			out[s.Name] = [2]int32{s.Step.Keep, s.Step.Make}
		}
	}
	return out
}

// TestStepsOfAGeneration follows an update: what the groups may do at each point of it.
func TestStepsOfAGeneration(t *testing.T) {
	o := disaggregated(t)
	const everything = math.MaxInt32
	hold := map[string][2]int32{"prefill": {everything, 0}, "decode": {everything, 0}}
	check := func(title string, want map[string][2]int32) {
		t.Helper()
		if diff := cmp.Diff(want, stepsIn(resolvedFrom(t, o))); diff != "" {
			t.Errorf("%s: keep and make (-want +got):\n%s", title, diff)
		}
	}
	check("one generation", map[string][2]int32{})
	edit(o)
	check("edited", hold)
	written(t, &o, "prefill")
	check("one group is written", hold)
	written(t, &o)
	check("all groups are written, and have not counted", hold)
	count(o, "prefill", 2, 0)
	check("one has counted", hold)
	count(o, "decode", 4, 0)
	first := map[string][2]int32{"prefill": {2, 1}, "decode": {4, 2}} // single-node workers without a constraint surge
	o.dgd.Annotations = map[string]string{"trellis.dev/rolling-update-max-surge": "0", "trellis.dev/rolling-update-max-unavailable": "1"}
	check("all have", map[string][2]int32{"prefill": {1, 1}, "decode": {2, 2}})
	o.dgd.Annotations = nil
	check("all have, with the default", first)
	written(t, &o)
	count(o, "prefill", 2, 1)
	check("the step stays until all have counted again", first)
	count(o, "decode", 4, 1)
	check("the new generation serves a quarter", map[string][2]int32{"prefill": {2, 2}, "decode": {3, 3}})
	written(t, &o)
	o.dgd.Spec.Components[1].Replicas = ptr.To[int32](3)
	check("scaled, and not counted since the last step", map[string][2]int32{"prefill": {everything, 0}, "decode": {everything, 3}})
	o.dgd.Spec.Components[1].Replicas = ptr.To[int32](2)
	edit := o.dgd.Spec.Components[2].ModelRef
	edit.Name = "a third"
	check("edited again", hold)
	edit.Name = "another"
	count(o, "prefill", 0, 2)
	count(o, "decode", 1, 3)
	check("prefill is done", map[string][2]int32{"prefill": {1, 2}, "decode": {1, 4}})
	written(t, &o)
	count(o, "prefill", 0, 2)
	count(o, "decode", 0, 4)
	check("all are", map[string][2]int32{})
}

// TestWhatIsHeldIsRepaired: while one group is not counted, the others replace nothing, and make what they lack.
func TestWhatIsHeldIsRepaired(t *testing.T) {
	o := disaggregated(t)
	edit(o)
	written(t, &o)
	o.dgd.Spec.Components[2].Replicas = ptr.To[int32](6)
	check := func(title string, want int32) {
		t.Helper()
		got := stepsIn(resolvedFrom(t, o))["decode"]
		if diff := cmp.Diff([2]int32{math.MaxInt32, want}, got); diff != "" {
			t.Errorf("%s: keep and make of decode (-want +got):\n%s", title, diff)
		}
	}
	check("scaled out", 2)
	written(t, &o, "decode")
	check("scaled out and written", 2)
	count(o, "decode", 3, 2)
	check("one of the old generation is lost", 3)
	written(t, &o, "decode")
	check("the step does not change before the next count", 3)
	count(o, "decode", 3, 3)
	check("repaired", 3)
}

// TestNoSteps: what is updated by itself.
func TestNoSteps(t *testing.T) {
	cases := map[string]func(o *observed, g *render.Graph){
		"a restart":            func(o *observed, _ *render.Graph) { o.groups["decode"].Status.OutdatedReplicas = 4 },
		"one worker component": func(_ *observed, g *render.Graph) { g.Components = g.Components[:2] },
		"Grove makes the pods": func(_ *observed, g *render.Graph) { g.Provider = specs.Grove.Name },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			o := disaggregated(t)
			if name != "a restart" {
				edit(o)
			}
			g := resolvedFrom(t, o)
			for i := range g.Components {
				g.Components[i].Step = nil
			}
			change(&o, g)
			stepWorkers(o, g)
			if diff := cmp.Diff(map[string][2]int32{}, stepsIn(g)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestBoundsOfAStep: a component's own annotations bound it in replicas, the deployment's all others in steps.
func TestBoundsOfAStep(t *testing.T) {
	o := disaggregated(t)
	edit(o)
	o.dgd.Annotations = map[string]string{"trellis.dev/rolling-update-max-unavailable": "1", "trellis.dev/rolling-update-max-surge": "1"}
	g := resolvedFrom(t, o)
	bounds := func(name string) [2]int32 {
		for _, s := range g.Components {
			if s.Name == name {
				return [2]int32{s.Step.MaxUnavailable, s.Step.MaxSurge}
			}
		}
		return [2]int32{}
	}
	if got, want := bounds("decode"), [2]int32{2, 2}; got != want {
		t.Errorf("decode may miss and have more: %v, want %v", got, want)
	}
	o.dgd.Spec.Annotations = map[string]string{"nvidia.com/deployment-rolling-update-max-unavailable": "50%", "nvidia.com/deployment-rolling-update-max-surge": "0"}
	g = resolvedFrom(t, o)
	if got, want := bounds("prefill"), [2]int32{1, 0}; got != want {
		t.Errorf("prefill may miss and have more: %v, want %v", got, want)
	}
}

// TestHugeBoundsOfAStep: however large a bound is, a step has no more than the replicas of the component.
func TestHugeBoundsOfAStep(t *testing.T) {
	const huge = "2147483647"
	cases := map[string]map[string]string{
		"of the deployment": {"trellis.dev/rolling-update-max-surge": huge, "trellis.dev/rolling-update-max-unavailable": huge},
		"of the components": {"nvidia.com/deployment-rolling-update-max-surge": huge, "nvidia.com/deployment-rolling-update-max-unavailable": huge},
	}
	for name, annotations := range cases {
		t.Run(name, func(t *testing.T) {
			o := disaggregated(t)
			edit(o)
			written(t, &o)
			count(o, "prefill", 2, 0)
			count(o, "decode", 4, 0)
			o.dgd.Annotations = annotations
			got := map[string]trellisv1alpha1.RolloutStep{}
			for _, s := range resolvedFrom(t, o).InStep() {
				got[s.Name] = *s.Step
			}
			want := map[string]trellisv1alpha1.RolloutStep{
				"prefill": {Make: 2, MaxUnavailable: 2, MaxSurge: 2}, "decode": {Make: 4, MaxUnavailable: 4, MaxSurge: 4},
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
		})
	}
}

// TestGenerationThatServes: the annotation and the runtime namespaces follow when all workers are of the new generation.
func TestGenerationThatServes(t *testing.T) {
	o := disaggregated(t)
	first := render.GenerationOf(o.groups["decode"])
	namespace := func(wanted *render.Graph) string {
		o.settled = o.dgd
		statuses, _ := componentStatuses(o, lookAt(o, wanted))
		o.dgd.Status.Components = statuses
		if statuses["prefill"].RuntimeNamespace != statuses["decode"].RuntimeNamespace {
			t.Errorf("two runtime namespaces: %+v", statuses)
		}
		return statuses["decode"].RuntimeNamespace
	}
	check := func(title, serves, in string) {
		t.Helper()
		wanted := resolvedFrom(t, o)
		got, known := servingGeneration(o, wanted)
		if !known {
			got = ""
		}
		if got != serves {
			t.Errorf("%s: generation %q serves, want %q", title, got, serves)
		}
		if got, want := namespace(wanted), "team-llm-"+in; got != want {
			t.Errorf("%s: the runtime namespace is %s, want %s", title, got, want)
		}
	}
	check("one generation", first, first)
	edit(o)
	check("edited", "", first)
	written(t, &o)
	second := render.GenerationOf(o.groups["decode"])
	check("written", "", first)
	count(o, "prefill", 0, 2)
	count(o, "decode", 1, 3)
	check("prefill is done", "", first)
	count(o, "decode", 0, 4)
	check("all are", second, second)
	for _, sg := range o.groups {
		sg.Status.AvailableReplicas = 0
	}
	check("none serves any more", "", second)
}

// TestReturnToTheGenerationThatWasRolledOut: workers that return to it in the middle of an update do so in step, like those of any other update.
func TestReturnToTheGenerationThatWasRolledOut(t *testing.T) {
	o := disaggregated(t)
	first := o.dgd.DeepCopy()
	edit(o)
	written(t, &o)
	second := render.GenerationOf(o.groups["decode"])
	o.dgd = first
	const everything = math.MaxInt32
	check := func(title string, want map[string][2]int32) {
		t.Helper()
		if diff := cmp.Diff(want, stepsIn(resolvedFrom(t, o))); diff != "" {
			t.Errorf("%s: keep and make (-want +got):\n%s", title, diff)
		}
	}
	check("reverted", map[string][2]int32{"prefill": {everything, 0}, "decode": {everything, 0}})
	written(t, &o)
	check("written, and not counted", map[string][2]int32{"prefill": {everything, 0}, "decode": {everything, 0}})
	for name, of := range map[string][2]int32{"prefill": {1, 1}, "decode": {2, 2}} {
		count(o, name, of[0], of[1])
		o.groups[name].Status.Generations[0].Name = second
	}
	check("half of each", map[string][2]int32{"prefill": {1, 2}, "decode": {2, 4}})
	written(t, &o)
	count(o, "prefill", 0, 2)
	count(o, "decode", 0, 4)
	check("done", map[string][2]int32{})
}

// TestWhichEarlierGenerationStays: of two that serve equally much, the one that was rolled out before.
func TestWhichEarlierGenerationStays(t *testing.T) {
	o := disaggregated(t)
	edit(o)
	written(t, &o)
	for name, n := range map[string]int32{"prefill": 1, "decode": 2} {
		count(o, name, 2*n, 0)
		o.groups[name].Status.Generations = []trellisv1alpha1.GenerationCount{
			{Name: "a", Replicas: n, AvailableReplicas: n}, {Name: "b", Replicas: n, AvailableReplicas: n},
		}
	}
	o.dgd.Annotations = map[string]string{
		"trellis.dev/rolling-update-max-surge": "0", "trellis.dev/rolling-update-max-unavailable": "1", render.AnnotationWorkerHash: "b",
	}
	got := map[string][]trellisv1alpha1.GenerationStep{}
	for _, s := range resolvedFrom(t, o).InStep() {
		got[s.Name] = s.Step.Generations
	}
	want := map[string][]trellisv1alpha1.GenerationStep{"prefill": {{Name: "b", Keep: 1}}, "decode": {{Name: "b", Keep: 2}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what stays of each generation (-want +got):\n%s", diff)
	}
	o.groups["decode"].Status.Generations = nil // counted by an operator that did not count generations
	if diff := cmp.Diff(map[string][2]int32{"prefill": {math.MaxInt32, 0}, "decode": {math.MaxInt32, 0}}, stepsIn(resolvedFrom(t, o))); diff != "" {
		t.Errorf("without the counts of one component (-want +got):\n%s", diff)
	}
}

// Where the queue of a component has no quota for surplus replicas, its part of a step is replaced within the quota, and the other
// components follow.
func TestStepsWithinQuota(t *testing.T) {
	for name, tc := range map[string]struct {
		inPlace []string
		another bool
		want    map[string][2]int32
	}{
		"all have quota":       {nil, false, map[string][2]int32{"prefill": {2, 1}, "decode": {4, 2}}},
		"decode has none":      {[]string{"decode"}, false, map[string][2]int32{"prefill": {2, 1}, "decode": {3, 1}}},
		"none has any":         {[]string{"prefill", "decode"}, false, map[string][2]int32{"prefill": {1, 1}, "decode": {2, 2}}},
		"in a former update":   {[]string{"prefill", "decode"}, true, map[string][2]int32{"prefill": {2, 1}, "decode": {4, 2}}},
		"prefill has no quota": {[]string{"prefill"}, false, map[string][2]int32{"prefill": {1, 1}, "decode": {2, 2}}},
	} {
		o := disaggregated(t)
		edit(o)
		written(t, &o)
		count(o, "prefill", 2, 0)
		count(o, "decode", 4, 0)
		for _, component := range tc.inPlace {
			sg := o.groups[component]
			sg.Status.Progress = &trellisv1alpha1.RolloutProgress{Revision: sg.Spec.Revision, InPlace: true}
			if tc.another {
				sg.Status.Progress.Revision = "before"
			}
		}
		if diff := cmp.Diff(tc.want, stepsIn(resolvedFrom(t, o))); diff != "" {
			t.Errorf("%s: keep and make (-want +got):\n%s", name, diff)
		}
	}
}
