// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/gangtest"
)

// The life of a deployment: the base has one Workload, every other replica one of its own.
func TestWorkloadsOfADeployment(t *testing.T) {
	front, work := group("front", 1, 1, "0"), group("work", 3, 3, "8")
	w := newWorld(t, front, work)
	w.expect("nothing exists")
	w.make(work, 0)
	w.expect("the first pods", "+g-base front-mainx1 work-leaderx1 work-workerx2")
	w.make(front, 0)
	w.make(work, 1, 2)
	w.expect("the others", "+g-work-1 work-leaderx1 work-workerx2", "+g-work-2 work-leaderx1 work-workerx2")

	w.gone(work, 0)
	w.gone(work, 1)
	w.expect("lost: their quota is kept")
	w.make(work, 0, 1)
	w.expect("successors take it")
	if WorkloadOf(w.pods[len(w.pods)-1]) == WorkloadOf(w.pods[0]) {
		t.Error("the second replica is in the base")
	}

	w.gone(work, 0)
	w.gone(front, 0)
	w.expect("the entire base is lost: its quota is kept")
	w.make(front, 0)
	w.make(work, 0)
	w.expect("it is back")

	work.Spec.Replicas = 2
	w.expect("a smaller number is asked for, and its pods are still there")
	w.gone(work, 2)
	w.expect("scaled in", "-g-work-2")

	work.Spec.Revision, work.Spec.Roles[0].Template.Spec.Containers[0].Image = "2", "app:2"
	w.gone(work, 1)
	w.make(work, 1)
	w.expect("updated: the same quota")

	for _, sg := range w.groups {
		sg.Spec.Replicas = 0
	}
	w.pods = nil
	w.expect("scaled to 0", "-g-base", "-g-work-1")
}

// A base of which no replica is left, and none is to be recreated, has no quota.
func TestEmptyBase(t *testing.T) {
	work := group("work", 2, 1, "8")
	w := newWorld(t, work)
	w.make(work, 0, 1)
	w.expect("made", "+g-base work-mainx1", "+g-work-1 work-mainx1")
	work.Spec.Replicas = 1
	w.gone(work, 0)
	w.expect("the first replica is scaled in", "-g-base")
}

// A replica that asks for something else needs another Workload, and does not join those of before.
func TestOtherRequestsNeedOtherQuota(t *testing.T) {
	front, work := group("front", 1, 1, "0"), group("work", 2, 1, "8")
	w := newWorld(t, front, work)
	w.make(front, 0)
	w.make(work, 0, 1)
	w.expect("made", "+g-base front-mainx1 work-mainx1", "+g-work-1 work-mainx1")
	work.Spec.Roles[0].Template.Spec.Containers[0].Resources.Requests["gpu"] = resource.MustParse("4")
	w.gone(work, 0)
	w.make(work, 0)
	if name := WorkloadOf(w.pods[len(w.pods)-1]); name == w.workloads[0].Name {
		t.Error("it joins the base, which has quota for something else")
	}
	w.expect("the first is updated", "+g-work-0 work-mainx1")
	w.gone(work, 1)
	w.make(work, 1)
	w.expect("the second is updated", "+g-work-1 work-mainx1", "-g-work-1")
}

// Quota is asked for in the queue that the deployment names, at the priority of its pods.
func TestQueueAndPriority(t *testing.T) {
	work := group("work", 1, 2, "8")
	w := newWorld(t, work)
	w.make(work, 0)
	w.pods[1].Spec.Priority, w.pods[1].Spec.PriorityClassName = ptr.To[int32](7), "gold"
	w.expect("made", "+g-base work-leaderx1 work-workerx1")
	made := w.workloads[0]
	if made.Spec.QueueName != "q" || made.Spec.Priority != 7 || made.Spec.PriorityClassRef == nil || made.Spec.PriorityClassRef.Name != "gold" {
		t.Errorf("made %+v", made.Spec)
	}
	if owner := made.OwnerReferences[0]; owner.UID != "g-uid" || owner.Controller != nil {
		t.Errorf("its owner is %+v: Kueue wants none that controls it", owner)
	}
	w.dgd.Labels[render.LabelKueueQueue] = "r"
	w.expect("another queue is named", "g-base to r")
	set(made, workloadReserved, metav1.ConditionTrue, "")
	w.dgd.Labels[render.LabelKueueQueue] = "q"
	w.expect("another queue is named, and it has quota: Kueue allows no change")
}

// A Workload that Kueue has finished is recreated, and nothing is left when the deployment is no longer in a queue.
func TestFinishedAndLeft(t *testing.T) {
	work := group("work", 1, 1, "8")
	w := newWorld(t, work)
	w.make(work, 0)
	w.step()
	set(w.workloads[0], workloadFinished, metav1.ConditionTrue, "out of sync")
	if s := Plan(w.observation()); len(s.Delete) != 1 || len(s.Create) != 0 {
		t.Errorf("planned %+v", s)
	}
	w.workloads = nil
	w.expect("it is gone", "+g-base work-mainx1")
	delete(w.dgd.Labels, render.LabelKueueQueue)
	w.expect("in no queue, and its pods are still there")
	w.pods = nil
	w.expect("its pods are gone", "-g-base")
}

// TestAdd is what Kueue finds on a pod.
func TestAdd(t *testing.T) {
	front, work := group("front", 2, 1, "0"), group("work", 1, 3, "8")
	w := newWorld(t, front, work)
	w.make(work, 0)
	pod := w.pods[2]
	base := BaseOf(w.groups)
	for key, want := range map[string]string{labelQueue: "q", labelManaged: "true", labelGroup: base.Name, labelPrebuilt: base.Name} {
		if got := pod.Labels[key]; got != want {
			t.Errorf("label %s is %q, want %q", key, got, want)
		}
	}
	for key, want := range map[string]string{annotationTotal: "1", annotationServing: "true", annotationParent: "trellis"} {
		if got := pod.Annotations[key]; got != want {
			t.Errorf("annotation %s is %q, want %q", key, got, want)
		}
	}
	if role := pod.Annotations[annotationRole]; short(role) != "work-worker" || w.pods[1].Annotations[annotationRole] != role || w.pods[0].Annotations[annotationRole] == role {
		t.Errorf("the role is %s", role)
	}
	if diff := cmp.Diff([]string{Gate}, render.ForeignGates(pod)); diff != "" || !render.GateClosed(pod) {
		t.Errorf("gates %v", pod.Spec.SchedulingGates)
	}
	if len(pod.Finalizers) > 0 {
		t.Errorf("finalizers %v", pod.Finalizers)
	}
}

// Names that are cut have podsets of their own.
func TestLongNames(t *testing.T) {
	long := strings.Repeat("x", 60)
	a, b := rolesOf(group(long+"a", 1, 1, "8"))[0].name, rolesOf(group(long+"b", 1, 1, "8"))[0].name
	if a == b || len(a) > maxName || len(b) > maxName {
		t.Errorf("%s and %s", a, b)
	}
}

// Every replica of a group has a Workload of its own, however long the group's name is.
func TestOwnNamesOfLongGroups(t *testing.T) {
	for length := 50; length <= 57; length++ {
		sg := group("work", 11, 1, "8")
		sg.Name = strings.Repeat("x", length)
		of := map[string]int32{}
		for _, ordinal := range []int32{1, 2, 10, 100} {
			name := ownName(sg, ordinal, rolesOf(sg))
			if other, taken := of[name]; taken || len(name) > maxName {
				t.Errorf("a group's name of %d characters: replica %d has Workload %s of %d characters, which is of replica %d", length, ordinal, name, len(name), other)
			}
			of[name] = ordinal
		}
	}
}

// An annotation of the user's is no queue.
func TestQueueIsOfTheDeployment(t *testing.T) {
	work := group("work", 1, 1, "8")
	work.Annotations = map[string]string{render.LabelKueueQueue: "q"}
	if queue := QueueOf(work); queue != "" {
		t.Errorf("it is in queue %s", queue)
	}
}

func TestSuits(t *testing.T) {
	in, out := group("work", 1, 1, "8"), group("work", 1, 1, "8")
	out.Annotations = nil
	other := group("work", 1, 1, "8")
	other.Annotations[render.AnnotationKueueQueue] = "r"
	w := newWorld(t, in)
	w.make(in, 0)
	queued, plain := w.pods[0], gangtest.Pod(in, 0, 0)
	for name, tc := range map[string]struct {
		sg   *trellisv1alpha1.ScalingGroup
		pod  *corev1.Pod
		want bool
	}{
		"in the queue": {in, queued, true}, "in another queue": {other, queued, false}, "in a queue, and wanted in none": {out, queued, false},
		"in none, and wanted in one": {in, plain, false}, "in none": {out, plain, true},
	} {
		if got := Suits(tc.sg, tc.pod); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestReport(t *testing.T) {
	for name, tc := range map[string]struct {
		prepare func(w *world)
		reason  string
		says    string
	}{
		"nothing is made":        {func(w *world) { w.workloads = nil }, "QuotaPending", "no Workload exists yet"},
		"Kueue has said nothing": {func(*world) {}, "QuotaPending", "0 of 2 Workloads have quota in queue q; Workload g-base"},
		"no quota is left": {func(w *world) {
			set(w.workloads[0], workloadReserved, metav1.ConditionFalse, "insufficient unused quota for gpu")
		},
			"QuotaPending", "insufficient unused quota for gpu"},
		"evicted": {func(w *world) {
			for _, one := range w.workloads {
				set(one, workloadAdmitted, metav1.ConditionTrue, "")
			}
			set(w.workloads[1], workloadEvicted, metav1.ConditionTrue, "Preempted to accommodate a workload")
		}, "QuotaPending", "1 of 2 Workloads have quota in queue q; Workload g-work-1"},
		"admitted": {func(w *world) {
			for _, one := range w.workloads {
				set(one, workloadAdmitted, metav1.ConditionTrue, "")
			}
		}, "QuotaReserved", "all 2 Workloads have quota in queue q"},
		"the deployment has moved to another queue": {func(w *world) {
			for _, one := range w.workloads {
				set(one, workloadAdmitted, metav1.ConditionTrue, "")
			}
			w.workloads[1].Spec.QueueName = "former"
		}, "QuotaReserved", "all 2 Workloads have quota in queue q; 1 have it in queue former, which the deployment named before"},
		"it has moved before all had quota": {func(w *world) {
			set(w.workloads[1], workloadAdmitted, metav1.ConditionTrue, "")
			w.workloads[1].Spec.QueueName = "former"
		}, "QuotaPending", "1 of 2 Workloads have quota in queue q; 1 have it in queue former, which the deployment named before"},
		"Kueue places, too": {func(w *world) {
			w.workloads[0].Status.Admission = &Admission{ClusterQueue: "cq", PodSetAssignments: []PodSetAssignment{{TopologyAssignment: map[string]any{"levels": nil}}}}
		}, "FlavorHasTopology", "use a flavor without one"},
		"too many roles": {func(w *world) {
			for i := range MaxPodSets {
				w.groups = append(w.groups, group(fmt.Sprintf("more-%d", i), 1, 1, "1"))
			}
		}, "TooManyRoles", "have 19 roles"},
		"made by another": {func(w *world) { w.groups[0].Spec.Provider = specs.Grove.Name }, "ProviderUnsupported", "are made by Grove"},
	} {
		t.Run(name, func(t *testing.T) {
			work := group("work", 2, 1, "8")
			w := newWorld(t, work)
			w.make(work, 0, 1)
			w.step()
			tc.prepare(w)
			o := w.observation()
			got := o.Report()
			if got.Reason != tc.reason || !strings.Contains(got.Message, tc.says) || got.Reserved != (tc.reason == "QuotaReserved") {
				t.Errorf("got %+v, want %s with %q", got, tc.reason, tc.says)
			}
		})
	}
}

// A deployment that has left its queue, as the condition advises, does not keep a condition about a Kueue that is gone.
func TestWhileUnread(t *testing.T) {
	for name, tc := range map[string]struct{ queue, reason, want string }{
		"in a queue, not installed":  {"q", nvidiav1beta1.ReasonKueueNotInstalled, "why; no pod of the deployment is created until then"},
		"left it, not installed":     {"", nvidiav1beta1.ReasonKueueNotInstalled, ""},
		"left it, pods in Workloads": {"", nvidiav1beta1.ReasonKueueNotInstalled, "why"},
		"left it, not readable":      {"", nvidiav1beta1.ReasonKueueNotReadable, "why"},
	} {
		w := newWorld(t)
		w.dgd.Labels[render.LabelKueueQueue] = tc.queue
		if strings.Contains(name, "pods") {
			work := group("work", 1, 1, "8")
			w = newWorld(t, work)
			w.make(work, 0)
			w.dgd.Labels[render.LabelKueueQueue] = ""
		}
		o := w.observation()
		got := ""
		if r := o.WhileUnread(Report{Reason: tc.reason, Message: "why"}); r != nil {
			got = r.Message
		}
		if got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
