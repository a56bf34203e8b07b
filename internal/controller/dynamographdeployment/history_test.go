// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/rollout"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// annotated has the deployment with one more annotation.
func annotated(o observed, key, value string) {
	metav1.SetMetaDataAnnotation(&o.dgd.ObjectMeta, key, value)
}

// TestPausedUpdate: while an update is paused, no component replaces a replica, also a single worker and what is no worker, and each makes what it lacks.
func TestPausedUpdate(t *testing.T) {
	o := disaggregated(t)
	paused := func() map[string][2]int32 {
		t.Helper()
		g := resolvedFrom(t, o)
		for _, s := range g.Components {
			if s.Step != nil && !s.Step.Paused {
				t.Errorf("%s is not paused: %+v", s.Name, s.Step)
			}
		}
		return stepsIn(g)
	}
	check := func(title string, want map[string][2]int32) {
		t.Helper()
		if diff := cmp.Diff(want, paused()); diff != "" {
			t.Errorf("%s: keep and make (-want +got):\n%s", title, diff)
		}
	}
	annotated(o, rollout.AnnotationPaused, "true")
	const everything = math.MaxInt32
	check("nothing to do", map[string][2]int32{})
	edit(o)
	o.dgd.Spec.Components[0].ModelRef = &nvidiav1beta1.ModelReference{Name: "another"}
	all := map[string][2]int32{"frontend": {everything, 0}, "prefill": {everything, 0}, "decode": {everything, 0}}
	check("edited", all)
	written(t, &o)
	count(o, "frontend", 1, 0)
	count(o, "prefill", 2, 0)
	count(o, "decode", 3, 0)
	check("a decode replica is lost", map[string][2]int32{"frontend": {everything, 0}, "prefill": {everything, 0}, "decode": {everything, 1}})
	delete(o.dgd.Annotations, rollout.AnnotationPaused)
	if got := stepsIn(resolvedFrom(t, o)); len(got) != 2 || got["prefill"][0] == everything {
		t.Errorf("resumed: %v", got)
	}
}

// TestAPauseOutlivesItsRevision: a component without generations whose revision is set back while the update is paused keeps what it made of
// the other one until the update resumes.
func TestAPauseOutlivesItsRevision(t *testing.T) {
	o := disaggregated(t)
	annotated(o, rollout.AnnotationPaused, "true")
	o.dgd.Spec.Components[0].ModelRef = &nvidiav1beta1.ModelReference{Name: "another"}
	written(t, &o)
	o.dgd.Spec.Components[0].ModelRef = nil
	written(t, &o)
	frontend := func(outdated int32) *trellisv1alpha1.RolloutStep {
		count(o, "frontend", outdated, 1)
		o.groups["frontend"].Status.Generations = nil // a frontend has none
		written(t, &o)
		return o.groups["frontend"].Spec.Step
	}
	if step := frontend(1); step == nil || !step.Paused {
		t.Errorf("a replica of the other revision serves: %+v", step)
	}
	if step := frontend(0); step != nil {
		t.Errorf("none does any more: %+v", step)
	}
}

// TestPartition: the new generation takes its part, and then the update pauses, also that of a single worker, until the partition is another one.
func TestPartition(t *testing.T) {
	for name, several := range map[string]bool{"prefill and decode": true, "decode alone": false} {
		t.Run(name, func(t *testing.T) {
			o := disaggregated(t)
			if !several {
				o.dgd.Spec.Components = []nvidiav1beta1.ComponentSpec{o.dgd.Spec.Components[0], o.dgd.Spec.Components[2]}
				delete(o.groups, "prefill")
			}
			annotated(o, rollout.AnnotationPartition, "50%")
			for i := range o.dgd.Spec.Components {
				if c := &o.dgd.Spec.Components[i]; c.Name == "decode" {
					c.ModelRef = &nvidiav1beta1.ModelReference{Name: "another"}
				}
			}
			written(t, &o)
			counted := func(updated int32) *trellisv1alpha1.RolloutStep {
				count(o, "decode", 4-updated, updated)
				if several {
					count(o, "prefill", 2-updated/2, updated/2)
				}
				written(t, &o)
				return o.groups["decode"].Spec.Step
			}
			if step := counted(0); step == nil || step.Paused || step.Keep < 2 || step.Make > 2 || step.Make == 0 {
				t.Errorf("the first step: %+v", step)
			}
			if step := counted(2); step == nil || !step.Paused {
				t.Errorf("the partition is reached: %+v", step)
			}
			decode := &o.groups["decode"].Status
			decode.Conditions = append(decode.Conditions, metav1.Condition{Type: trellisv1alpha1.ConditionRolledOut, Status: metav1.ConditionFalse, Message: "2 of 4"})
			want := "the update is paused at 50% of the workers, its partition. decode: 2 of 4"
			if c := rolloutCondition(o, nil, time.Now()); c == nil || c.reason != nvidiav1beta1.ReasonRolloutPaused || c.message != want {
				t.Errorf("got %+v, want %s", c, want)
			}
			annotated(o, rollout.AnnotationPartition, "75%")
			if step := counted(2); step == nil || step.Paused || step.Make != 3 {
				t.Errorf("the partition is larger: %+v", step)
			}
		})
	}
}

// TestWhereWorkersReturnTo: the generation that was rolled out last, or else the newest other one that served, or else the newest other one.
func TestWhereWorkersReturnTo(t *testing.T) {
	o := disaggregated(t)
	o.provider.Name = specs.Gates.Name
	for i, name := range []string{"cccccccc", "bbbbbbbb", "aaaaaaaa", ""} {
		stored := &render.StoredGeneration{Generation: name}
		revision, err := stored.ControllerRevision(o.dgd, int64(9-i))
		if err != nil {
			t.Fatal(err)
		}
		o.history = append(o.history, revision)
	}
	cases := map[string]struct{ aborted, last, served, want string }{
		"the last one":                          {"cccccccc", "aaaaaaaa", "", "aaaaaaaa"},
		"the last one is aborted":               {"cccccccc", "cccccccc", "", "bbbbbbbb"},
		"the last one is not stored any more":   {"cccccccc", "dddddddd", "", "bbbbbbbb"},
		"the last one has no name":              {"cccccccc", "", "", ""},
		"what is aborted is not stored, either": {"eeeeeeee", "bbbbbbbb", "", "bbbbbbbb"},
		"the one between never served":          {"cccccccc", "cccccccc", "aaaaaaaa", "aaaaaaaa"},
		"the last one, whatever served before":  {"cccccccc", "bbbbbbbb", "aaaaaaaa", "bbbbbbbb"},
	}
	for name, c := range cases {
		o.dgd.Annotations = map[string]string{rollout.AnnotationAborted: c.aborted}
		for _, revision := range o.history {
			revision.Annotations = nil
			if c.served != "" && (generationIn(revision) == c.served || generationIn(revision) == c.last) {
				revision.Annotations = map[string]string{render.AnnotationRolledOut: "true"}
			}
		}
		if c.last != "" {
			annotated(o, render.AnnotationWorkerHash, c.last)
		}
		if back := rollbackOf(o); back == nil || len(back.To) == 0 || back.To[0].Generation != c.want || back.Aborted != c.aborted {
			t.Errorf("%s: %+v", name, back)
		}
	}
	o.dgd.Annotations = nil
	if back := rollbackOf(o); back != nil {
		t.Errorf("nothing is aborted: %+v", back)
	}
	annotated(o, rollout.AnnotationAborted, "cccccccc")
	o.provider.Name = specs.Grove.Name
	if back := rollbackOf(o); back != nil {
		t.Errorf("Grove replaces the pods: %+v", back)
	}
}

// TestAbortedUpdate: the condition says that the update was aborted, while the workers return and afterwards, and what there is to do about it.
func TestAbortedUpdate(t *testing.T) {
	o := disaggregated(t)
	o.provider.Name, o.settled = specs.Gates.Name, o.dgd
	first, _ := render.GenerationIn(o.groups, []string{"prefill", "decode"})
	edit(o)
	written(t, &o)
	aborted := resolvedFrom(t, o).Generation
	annotated(o, rollout.AnnotationAborted, aborted)
	resolve := func() *render.Graph {
		t.Helper()
		g, err := render.Resolve(o.dgd, render.Inputs{Provider: specs.Gates.Name, Groups: o.groups, Rollback: rollbackOf(o)})
		if err != nil {
			t.Fatal(err)
		}
		stepWorkers(o, g)
		return g
	}
	count(o, "prefill", 1, 1)
	count(o, "decode", 2, 2)
	failing := &o.groups["decode"].Status
	failing.Conditions = append(failing.Conditions, metav1.Condition{Type: trellisv1alpha1.ConditionRolledOut, Status: metav1.ConditionFalse, Message: "2 of 4 replicas serve"})
	wanted := resolve()
	if got := stepsIn(wanted); got["decode"] != [2]int32{math.MaxInt32, 2} {
		t.Errorf("nothing is stored to return to: %v", got)
	}
	if c := rolloutCondition(o, wanted, time.Now()); c == nil || c.reason != nvidiav1beta1.ReasonRolloutPaused || !strings.Contains(c.message, "no other generation of the same workers is stored to return to") {
		t.Errorf("nothing is stored to return to: %+v", c)
	}
	revision, err := first.ControllerRevision(o.dgd, 1)
	if err != nil {
		t.Fatal(err)
	}
	o.history = []*appsv1.ControllerRevision{revision}
	wanted = resolve()
	if !wanted.RolledBack || len(stepsIn(wanted)) != 2 {
		t.Errorf("rolled back %v, steps %v", wanted.RolledBack, stepsIn(wanted))
	}
	lead := fmt.Sprintf("generation %s was aborted: the workers are of generation %s until they are changed again, or the annotation trellis.dev/rollout-aborted is removed",
		aborted, first.Generation)
	for _, want := range []string{lead + ". decode: 2 of 4 replicas serve", lead} {
		c := rolloutCondition(o, wanted, time.Now())
		if c == nil || c.reason != nvidiav1beta1.ReasonRolledBack || c.message != want {
			t.Errorf("got %+v, want %s", c, want)
		}
		if c.message != lead {
			annotated(o, rollout.AnnotationPaused, "true")
			if c := rolloutCondition(o, wanted, time.Now()); c.reason != nvidiav1beta1.ReasonRolledBack || c.message != lead+"; the return is paused. decode: 2 of 4 replicas serve" {
				t.Errorf("paused: %+v", c)
			}
		}
		failing.Conditions = nil
	}
	o.dgd.Status.Conditions = []metav1.Condition{{Type: nvidiav1beta1.ConditionRolledOut, Status: metav1.ConditionFalse, Reason: nvidiav1beta1.ReasonRolledBack}}
	followRollout(&o.dgd.Status, o, nil)
	if len(o.dgd.Status.Conditions) != 1 {
		t.Error("the condition goes while the deployment is invalid")
	}
}

var _ = Describe("The history of a deployment", func() {
	It("keeps the last five generations, and those that run or are wanted", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		dgd := &nvidiav1beta1.DynamoGraphDeployment{}
		dgd.Namespace, dgd.Name, dgd.UID = suite.Namespace(api), "llm", types.UID("1b9c0b4e-0b1a-4e0e-9f0a-0d8f0a7f0001")
		dgd.Spec.Components = []nvidiav1beta1.ComponentSpec{{Name: "decode", Type: nvidiav1beta1.ComponentTypeDecode}}
		r := &Reconciler{Client: api, Live: api}
		o := observed{dgd: dgd, groups: map[string]*trellisv1alpha1.ScalingGroup{}}
		o.provider.Name = specs.Gates.Name
		var input string
		turn := func(model string) string {
			GinkgoHelper()
			dgd.Spec.Components[0].ModelRef = &nvidiav1beta1.ModelReference{Name: model}
			wanted, err := render.Resolve(dgd, render.Inputs{Provider: specs.Gates.Name, Groups: o.groups})
			Expect(err).NotTo(HaveOccurred())
			for range 2 { // the second time there is nothing to do
				o.history, err = r.historyOf(ctx, dgd)
				Expect(err).NotTo(HaveOccurred())
				Expect(r.keepHistory(ctx, o, wanted)).To(Succeed())
			}
			before := o.history
			o.history, err = r.historyOf(ctx, dgd)
			Expect(err).NotTo(HaveOccurred())
			Expect(o.history).To(Equal(before), "what is as wanted was written")
			for _, sg := range wanted.ScalingGroups() {
				o.groups[sg.Spec.Component] = sg
			}
			input = wanted.WorkersInput
			return wanted.Generation
		}
		numbers := func() map[string]int64 {
			out := map[string]int64{}
			for _, revision := range o.history {
				out[generationIn(revision)] = revision.Revision
			}
			return out
		}
		first := turn("1")
		annotated(o, render.AnnotationWorkerHash, first)
		Expect(numbers()).To(BeEmpty(), "nothing can return to the first generation while there is no other")
		later := []string{turn("2")}
		Expect(numbers()).To(Equal(map[string]int64{first: 1, later[0]: 2}))
		for i := range 5 {
			later = append(later, turn(fmt.Sprint(3+i)))
		}
		Expect(numbers()).To(HaveLen(6), "the five newest, and the one that was rolled out last")
		Expect(numbers()).To(HaveKey(first))
		Expect(numbers()).NotTo(HaveKey(later[0]))
		Expect(turn("1")).To(Equal(first))
		Expect(generationIn(o.history[0])).To(Equal(first), "what is wanted is the newest")
		Expect(numbers()[first]).To(Equal(int64(8)))

		stored, err := render.StoredIn(o.history[0])
		Expect(err).NotTo(HaveOccurred())
		Expect(stored.Workers["decode"].Revision).To(Equal(o.groups["decode"].Spec.Revision))
		Expect(metav1.IsControlledBy(o.history[0], dgd)).To(BeTrue(), "it goes with the deployment")

		annotated(o, rollout.AnnotationAborted, first)
		annotated(o, render.AnnotationWorkerHash, later[5])
		Expect(rollbackOf(o).Input).To(Equal(input), "what an aborted generation was made from is known")
		for i := range 6 {
			turn(fmt.Sprint(20 + i))
		}
		Expect(numbers()).To(HaveLen(7), "the five newest, the one that was rolled out last, and the aborted one")
		Expect(rollbackOf(o).Input).NotTo(BeEmpty())

		By("noting which generations served")
		for _, revision := range o.history {
			Expect(hasServed(revision)).To(BeFalse())
		}
		serve := func() {
			GinkgoHelper()
			decode := &o.groups["decode"].Status
			decode.AvailableReplicas, decode.Revision = 1, o.groups["decode"].Spec.Revision
			annotated(o, render.AnnotationWorkerHash, turn(dgd.Spec.Components[0].ModelRef.Name))
			turn(dgd.Spec.Components[0].ModelRef.Name)
			o.groups["decode"].Status = trellisv1alpha1.ScalingGroupStatus{Revision: o.groups["decode"].Spec.Revision}
			Expect(generationIn(o.history[0])).To(Equal(dgd.Annotations[render.AnnotationWorkerHash]))
			Expect(hasServed(o.history[0])).To(BeTrue())
		}
		delete(dgd.Annotations, rollout.AnnotationAborted)
		served := turn("30")
		serve()
		for i := range 6 {
			turn(fmt.Sprint(31 + i))
		}
		last := turn("40")
		serve()
		Expect(numbers()).To(HaveLen(6), "the five newest, and the one that was rolled out before the last one")
		Expect(numbers()).To(HaveKey(served))
		annotated(o, rollout.AnnotationAborted, last)
		Expect(rollbackOf(o).To[0].Generation).To(Equal(served), "those between never served")
	})
})

// TestFirstGeneration is stored when it serves, is aborted, or is replaced before it did.
func TestFirstGeneration(t *testing.T) {
	o := disaggregated(t)
	count(o, "prefill", 0, 0)
	count(o, "decode", 0, 0)
	wanted := resolvedFrom(t, o)
	first := func() bool {
		return (&history{dgd: o.dgd, wanted: wanted, serving: servingRevision(o, wanted)}).isFirst(o)
	}
	if !first() {
		t.Error("nothing serves: stored")
	}
	count(o, "decode", 0, 1)
	if first() {
		t.Error("decode serves: not stored")
	}
	count(o, "decode", 0, 0)
	annotated(o, rollout.AnnotationAborted, wanted.Generation)
	if first() {
		t.Error("aborted: not stored")
	}
	delete(o.dgd.Annotations, rollout.AnnotationAborted)
	edit(o)
	if wanted = resolvedFrom(t, o); first() {
		t.Error("another is wanted: not stored")
	}
	delete(o.groups, "prefill")
	if first() {
		t.Error("another runs in part: not stored")
	}
	delete(o.groups, "decode")
	if !first() {
		t.Error("nothing runs: stored")
	}
}
