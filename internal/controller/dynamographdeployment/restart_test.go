// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/rollout"
)

// restarting is a graph of components a, b and c, whose groups restart when the test reports it.
type restarting struct {
	o   observed
	log []string
}

func newRestarting() *restarting {
	r := &restarting{o: observed{
		dgd: &nvidiav1beta1.DynamoGraphDeployment{
			ObjectMeta: metav1.ObjectMeta{Generation: 1},
			Spec:       nvidiav1beta1.DynamoGraphDeploymentSpec{Components: []nvidiav1beta1.ComponentSpec{{Name: "a"}, {Name: "b"}, {Name: "c"}}},
		},
		groups: map[string]*trellisv1alpha1.ScalingGroup{},
	}}
	r.reconcile()
	r.log = nil
	for _, name := range []string{"a", "b", "c"} {
		r.settle(name)
	}
	return r
}

// ask changes the request; nil withdraws it.
func (r *restarting) ask(restart *nvidiav1beta1.Restart) {
	r.o.dgd.Spec.Restart = restart
	r.o.dgd.Generation++
}

// reconcile is one round of the graph controller.
func (r *restarting) reconcile() {
	restarts := restartsOf(r.o)
	status := restartStatus(r.o)
	for _, name := range []string{"a", "b", "c"} {
		sg := r.o.groups[name]
		if sg == nil {
			sg = &trellisv1alpha1.ScalingGroup{Spec: trellisv1alpha1.ScalingGroupSpec{Component: name, Replicas: 1}}
			r.o.groups[name] = sg
		}
		if !cmp.Equal(sg.Spec.Restart, restarts[name]) {
			sg.Spec.Restart = restarts[name]
			sg.Generation++
			what := "nothing"
			if sg.Spec.Restart != nil {
				what = sg.Spec.Restart.ID
				if sg.Spec.Restart.Stop {
					what += " (stop)"
				}
			}
			r.log = append(r.log, name+" restarts for "+what)
		}
	}
	r.o.dgd.Status.ObservedGeneration = r.o.dgd.Generation
	if !cmp.Equal(r.o.dgd.Status.Restart, status) {
		r.o.dgd.Status.Restart = status
		r.log = append(r.log, strings.TrimSpace(fmt.Sprintf("%s %s %s", status.ObservedID, status.Phase, strings.Join(status.InProgress, ","))))
	}
}

// until reconciles until nothing changes.
func (r *restarting) until() {
	for {
		n := len(r.log)
		if r.reconcile(); len(r.log) == n {
			return
		}
	}
}

// settle lets a group finish its restart; began lets it begin only.
func (r *restarting) settle(name string) {
	sg := r.o.groups[name]
	sg.Status.ObservedGeneration = sg.Generation
	stopped := sg.Spec.Restart != nil && sg.Spec.Restart.Stop
	sg.Status.Replicas, sg.Status.OutdatedReplicas = 1, 0
	status := metav1.ConditionTrue
	if stopped {
		sg.Status.Replicas, status = 0, metav1.ConditionFalse
	}
	meta.SetStatusCondition(&sg.Status.Conditions, metav1.Condition{Type: trellisv1alpha1.ConditionRolledOut, Status: status, Reason: "x"})
}

func (r *restarting) began(name string) {
	sg := r.o.groups[name]
	sg.Status.ObservedGeneration, sg.Status.OutdatedReplicas = sg.Generation, 1
	meta.SetStatusCondition(&sg.Status.Conditions, metav1.Condition{Type: trellisv1alpha1.ConditionRolledOut, Status: metav1.ConditionFalse, Reason: "x"})
}

func sequential(id string, order ...string) *nvidiav1beta1.Restart {
	return &nvidiav1beta1.Restart{ID: id, Strategy: &nvidiav1beta1.RestartStrategy{Type: nvidiav1beta1.RestartStrategySequential, Order: order}}
}

func parallel(id string) *nvidiav1beta1.Restart {
	return &nvidiav1beta1.Restart{ID: id, Strategy: &nvidiav1beta1.RestartStrategy{Type: nvidiav1beta1.RestartStrategyParallel}}
}

func TestRestart(t *testing.T) {
	cases := map[string]struct {
		scenario func(r *restarting)
		want     []string
	}{
		"nobody asks": {func(r *restarting) { r.until() }, nil},
		"one after the other, in the alphabet": {func(r *restarting) {
			r.ask(&nvidiav1beta1.Restart{ID: "1"})
			for _, name := range []string{"a", "b", "c"} {
				r.until()
				r.began(name)
				r.until()
				r.settle(name)
			}
			r.until()
		}, []string{
			"a restarts for 1", "1 Pending", "1 Restarting a", "b restarts for 1", "1 Restarting", "1 Restarting b", "c restarts for 1", "1 Restarting", "1 Restarting c", "1 Completed",
		}},
		"in the order asked for": {func(r *restarting) {
			r.ask(sequential("1", "c", "a", "b"))
			r.until()
			r.settle("c")
			r.until()
		}, []string{"c restarts for 1", "1 Pending", "1 Restarting c", "a restarts for 1", "1 Restarting", "1 Restarting a"}},
		"all at once: all stop before any goes on": {func(r *restarting) {
			r.ask(parallel("1"))
			r.until()
			r.settle("a")
			r.settle("b")
			r.until()
			r.settle("c")
			r.until()
			for _, name := range []string{"a", "b", "c"} {
				r.settle(name)
			}
			r.until()
		}, []string{
			"a restarts for 1 (stop)", "b restarts for 1 (stop)", "c restarts for 1 (stop)", "1 Pending", "1 Restarting a,b,c",
			"a restarts for 1", "b restarts for 1", "c restarts for 1", "1 Completed",
		}},
		"all at once, cut short between two groups": {func(r *restarting) {
			r.ask(parallel("1"))
			r.until()
			for _, name := range []string{"a", "b", "c"} {
				r.settle(name)
			}
			r.o.groups["a"].Spec.Restart = &trellisv1alpha1.Restart{ID: "1"} // written; then the operator died
			r.o.groups["a"].Generation++
			r.began("a")
			r.until()
		}, []string{
			"a restarts for 1 (stop)", "b restarts for 1 (stop)", "c restarts for 1 (stop)", "1 Pending", "1 Restarting a,b,c", "b restarts for 1", "c restarts for 1",
		}},
		"all at once, under a provider that makes the pods itself: nothing stops": {func(r *restarting) {
			r.o.workload = &provider.Observation{}
			r.ask(parallel("1"))
			r.until()
			for _, name := range []string{"a", "b", "c"} {
				r.began(name)
			}
			r.until()
			r.settle("b")
			r.until()
			r.settle("a")
			r.settle("c")
			r.until()
		}, []string{"a restarts for 1", "b restarts for 1", "c restarts for 1", "1 Pending", "1 Restarting a,b,c", "1 Restarting a,c", "1 Completed"}},
		"another id on the way begins again": {func(r *restarting) {
			r.ask(sequential("1"))
			r.until()
			r.settle("a")
			r.until()
			r.ask(sequential("2"))
			r.until()
		}, []string{"a restarts for 1", "1 Pending", "1 Restarting a", "b restarts for 1", "1 Restarting", "1 Restarting b", "a restarts for 2", "2 Pending", "2 Restarting a"}},
		"one after the other instead, while all are stopped: all go on": {func(r *restarting) {
			r.ask(parallel("1"))
			r.until()
			r.ask(sequential("1"))
			r.until()
		}, []string{
			"a restarts for 1 (stop)", "b restarts for 1 (stop)", "c restarts for 1 (stop)", "1 Pending", "1 Restarting a,b,c", "a restarts for 1", "b restarts for 1", "c restarts for 1",
		}},
		"withdrawn on the way": {func(r *restarting) {
			r.ask(parallel("1"))
			r.until()
			r.ask(nil)
			r.until()
			r.ask(nil)
			r.until()
		}, []string{
			"a restarts for 1 (stop)", "b restarts for 1 (stop)", "c restarts for 1 (stop)", "1 Pending", "1 Restarting a,b,c",
			"a restarts for 1", "b restarts for 1", "c restarts for 1", "1 Superseded",
		}},
		"withdrawn when it is over: nothing": {func(r *restarting) {
			r.ask(sequential("1"))
			for range 4 {
				r.until()
				for _, name := range []string{"a", "b", "c"} {
					r.settle(name)
				}
			}
			r.log = nil
			r.ask(nil)
			r.until()
		}, nil},
		"over is over, also when a service fails later": {func(r *restarting) {
			r.ask(sequential("1"))
			for range 4 {
				r.until()
				for _, name := range []string{"a", "b", "c"} {
					r.settle(name)
				}
			}
			r.log = nil
			r.began("b")
			r.until()
		}, nil},
		"asked for before requests were acted on: nothing": {func(r *restarting) {
			r.o.dgd.Spec.Restart = sequential("1")
			r.o.dgd.Generation++
			r.o.dgd.Status.ObservedGeneration = r.o.dgd.Generation
			r.until()
		}, []string{"1 Completed"}},
		"a group whose replicas were made for it is stopped again, by a leader that sees things late": {func(r *restarting) {
			r.ask(parallel("1"))
			r.until()
			for _, name := range []string{"a", "b", "c"} {
				r.settle(name)
			}
			r.until()
			for _, name := range []string{"a", "b", "c"} {
				r.settle(name)
			}
			stopped := r.o.groups["b"]
			stopped.Spec.Restart.Stop = true
			stopped.Generation++
			stopped.Status.ObservedGeneration = stopped.Generation // its replica is not outdated, and stays
			r.log = nil
			r.until()
			r.settle("b")
			r.until()
		}, []string{"b restarts for 1", "1 Restarting b", "1 Completed"}},
		"a group is recreated meanwhile: its pods are new": {func(r *restarting) {
			r.ask(sequential("1"))
			r.until()
			delete(r.o.groups, "c")
			r.until()
		}, []string{"a restarts for 1", "1 Pending", "1 Restarting a", "c restarts for 1", "1 Restarting a,c"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRestarting()
			c.scenario(r)
			if diff := cmp.Diff(c.want, r.log); diff != "" {
				t.Errorf("what happens (-want +got):\n%s", diff)
			}
		})
	}
}

// A deployment that comes with a request: its pods are new, so it is done, and its groups know of it.
func TestRestartOfANewDeployment(t *testing.T) {
	r := newRestarting()
	r.o.groups = map[string]*trellisv1alpha1.ScalingGroup{}
	r.o.dgd.Status = nvidiav1beta1.DynamoGraphDeploymentStatus{}
	r.ask(parallel("1"))
	r.until()
	want := []string{"a restarts for 1", "b restarts for 1", "c restarts for 1", "1 Completed"}
	if diff := cmp.Diff(want, r.log); diff != "" {
		t.Errorf("what happens (-want +got):\n%s", diff)
	}
	if !slices.Contains(r.log, "1 Completed") {
		t.Error("it is not done")
	}
}

// TestRestartWaitsForAnUpdate: while an update is paused or limited to its partition, a restart does not begin, since it would make all replicas anew in the
// new generation. One that has begun to stop components is finished.
func TestRestartWaitsForAnUpdate(t *testing.T) {
	const paused, partition = rollout.AnnotationPaused, rollout.AnnotationPartition
	cases := map[string]struct {
		restart            *nvidiav1beta1.Restart
		annotation, value  string
		unedited, returned bool
		begun              map[string]*trellisv1alpha1.Restart
		// want are the components that get the request or have it.
		want []string
	}{
		"Parallel":                          {restart: parallel("1"), want: []string{"decode", "frontend", "prefill"}},
		"Parallel, paused":                  {restart: parallel("1"), annotation: paused, value: "true"},
		"Parallel, partition":               {restart: parallel("1"), annotation: partition, value: "50%"},
		"Parallel, a partition of all":      {restart: parallel("1"), annotation: partition, value: "100%", want: []string{"decode", "frontend", "prefill"}},
		"Parallel, paused without a change": {restart: parallel("1"), annotation: paused, value: "true", unedited: true, want: []string{"decode", "frontend", "prefill"}},
		"Sequential, paused":                {restart: sequential("1"), annotation: paused, value: "true"},
		"Sequential, partition":             {restart: sequential("1", "prefill", "decode", "frontend"), annotation: partition, value: "1"},
		"Sequential, begun": {
			restart: sequential("1", "prefill", "decode", "frontend"), annotation: paused, value: "true",
			begun: map[string]*trellisv1alpha1.Restart{"prefill": {ID: "1"}}, want: []string{"prefill"},
		},
		"Parallel, begun": {
			restart: parallel("1"), annotation: paused, value: "true",
			begun: map[string]*trellisv1alpha1.Restart{"prefill": {ID: "1", Stop: true}}, want: []string{"decode", "frontend", "prefill"},
		},
		"an earlier one had stopped": {
			restart: parallel("1"), annotation: paused, value: "true", begun: map[string]*trellisv1alpha1.Restart{"prefill": {ID: "0", Stop: true}},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := disaggregated(t)
			o.provider.Name = specs.Gates.Name
			if c.annotation != "" {
				annotated(o, c.annotation, c.value)
			}
			if !c.unedited {
				edit(o)
			}
			written(t, &o)
			for name, restart := range c.begun {
				o.groups[name].Spec.Restart = restart
			}
			if !c.unedited {
				count(o, "prefill", 2, 0)
				count(o, "decode", 4, 0)
				rolledOut(o.groups["decode"], false, trellisv1alpha1.ReasonRollingOut, time.Now())
			}
			o.dgd.Spec.Restart, o.dgd.Generation = c.restart, 2
			wanted, err := render.Resolve(o.dgd, render.Inputs{Provider: specs.Gates.Name, Groups: o.groups, Restarts: restartsOf(o)})
			if err != nil {
				t.Fatal(err)
			}
			stepWorkers(o, wanted)
			deferRestart(o, wanted)
			var got []string
			for _, s := range wanted.Components {
				if s.Restart != nil && s.Restart.ID == "1" {
					got = append(got, s.Name)
				} else if s.Restart != nil && s.Restart.Stop {
					t.Errorf("%s stays stopped", s.Name)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("components that restart (-want +got):\n%s", diff)
			}
			waits := len(c.want) < 2
			if status := restartStatus(o); waits && len(c.want) == 0 && status.Phase != nvidiav1beta1.RestartPending {
				t.Errorf("the restart is %s", status.Phase)
			}
			if condition := rolloutCondition(o, wanted, time.Now()); waits != (condition != nil && strings.Contains(condition.message, "restart 1 begins when the update is neither paused nor limited by its partition")) {
				t.Errorf("the condition is %+v", condition)
			}
		})
	}
}
