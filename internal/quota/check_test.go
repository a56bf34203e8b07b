// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/render"
)

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// checked is a deployment of one replica of two pods that has quota since noon, and waits for the check "place" and one of another client.
func checked(t *testing.T) *world {
	w := newWorld(t, group("work", 1, 2, "8"))
	w.make(w.groups[0], 0)
	w.step()
	one := w.workloads[0]
	set(one, workloadReserved, metav1.ConditionTrue, "")
	one.Status.Admission = &Admission{ClusterQueue: "cq"}
	for _, s := range one.Spec.PodSets {
		one.Status.Admission.PodSetAssignments = append(one.Status.Admission.PodSetAssignments, PodSetAssignment{
			Name: s.Name, Flavors: map[string]string{"gpu": "spot", "cpu": "spot"},
		})
	}
	for _, name := range []string{"nodes", "place"} {
		check := CheckState{Name: name, State: CheckPending, LastTransitionTime: metav1.NewTime(noon)}
		one.Status.AdmissionChecks = append(one.Status.AdmissionChecks, check)
	}
	return w
}

// searched is a search at noon, whose answer about the first Workload is given; nil for none.
func searched(o *Observation, why *string) Search {
	w := o.Workloads[0]
	s := Search{Checks: map[string]bool{"place": true}, Waits: DefaultWaits, Now: noon}
	s.Fingerprints = map[string]string{w.Name: Promise{"main": Addition{}}.Fingerprint(w.Name, o.Pods)}
	if why != nil {
		s.Result.Checked = map[string]gang.Checked{w.Name: {Why: *why, Fingerprint: s.Fingerprints[w.Name]}}
	}
	return s
}

func TestVerdicts(t *testing.T) {
	full, place := ptr.To("work-0: full"), ptr.To("")
	retried := func(times int32) func(w *world) {
		return func(w *world) { w.workloads[0].Status.AdmissionChecks[1].RetryCount = &times }
	}
	for name, tc := range map[string]struct {
		change func(w *world)
		place  *string
		asked  string
		// since is how long after noon the place was first looked for, and stale means that it was looked for before the last pod existed.
		since   time.Duration
		stale   bool
		after   time.Duration
		want    string
		requeue int32
		again   time.Duration
	}{
		"not looked at yet":            {after: 20 * time.Second, again: 340 * time.Second},
		"never looked at":              {after: 6 * time.Minute, want: CheckRetry, requeue: 60},
		"it has a place":               {place: place, want: CheckReady},
		"it has none":                  {place: full, after: 59 * time.Second, again: time.Second},
		"it has had none for a minute": {place: full, after: time.Minute, want: CheckRetry, requeue: 60},
		"it was looked for later":      {place: full, since: 30 * time.Second, after: time.Minute, again: 30 * time.Second},
		"another pod has come since":   {place: place, stale: true, again: 6 * time.Minute},
		"for the fourth time":          {change: retried(3), place: full, after: time.Minute, want: CheckRetry, requeue: 480},
		"for the fortieth time":        {change: retried(39), place: full, after: time.Minute, want: CheckRetry, requeue: 1800},
		"nodes are asked for":          {place: full, asked: "2 pods", after: 10 * time.Minute, again: time.Minute},
		"a pod of it is not made yet":  {change: func(w *world) { w.pods = w.pods[:1] }, place: place, again: time.Minute},
		"it has had quota for less": {
			change: func(w *world) {
				w.workloads[0].Status.Conditions[0].LastTransitionTime = metav1.NewTime(noon.Add(time.Hour))
			},
			place: full, after: time.Hour + 10*time.Second, again: 50 * time.Second,
		},
		"it is decided":     {change: func(w *world) { w.workloads[0].Status.AdmissionChecks[1].State = CheckReady }, place: place},
		"it lost its place": {change: func(w *world) { w.workloads[0].Status.AdmissionChecks[1].State = CheckReady }, place: full, want: CheckPending},
		"nothing is known of the place that it had": {
			change: func(w *world) { w.workloads[0].Status.AdmissionChecks[1].State = CheckReady }, place: full, stale: true,
		},
		"it is admitted": {change: func(w *world) { set(w.workloads[0], workloadAdmitted, metav1.ConditionTrue, "") }, place: place},
		"Kueue removes the gates": {change: func(w *world) {
			set(w.workloads[0], workloadAdmitted, metav1.ConditionTrue, "")
			w.pods[0].Spec.SchedulingGates = nil
		}, place: full, after: time.Hour},
		"it lost its quota": {
			change: func(w *world) { w.workloads[0].Status.Conditions[0].Status = metav1.ConditionFalse }, place: place,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := checked(t)
			if tc.change != nil {
				tc.change(w)
			}
			o := w.observation()
			s := searched(&o, tc.place)
			s.Result.Asked, s.Now = tc.asked, noon.Add(tc.after)
			if tc.since > 0 {
				s.Since = map[string]time.Time{w.workloads[0].Name: noon.Add(tc.since)}
			}
			if tc.stale {
				s.Fingerprints[w.workloads[0].Name] = "another"
			}
			verdicts, again := o.Verdicts(s)
			if again != tc.again {
				t.Errorf("again in %s, want %s", again, tc.again)
			}
			if (len(verdicts) == 1) != (tc.want != "") {
				t.Fatalf("verdicts %+v, want %q", verdicts, tc.want)
			}
			for _, v := range verdicts {
				if len(v.States) != 1 {
					t.Fatalf("verdict %+v", v.States)
				}
				state := v.States[0]
				pause := int32(0)
				if v.Pause != nil {
					pause = int32(v.Pause.Until.Sub(noon.Add(tc.after)).Seconds())
				}
				if state.Name != "place" || state.State != tc.want || state.RequeueAfterSeconds != nil || pause != tc.requeue {
					t.Errorf("verdict %+v, pause %d", state, pause)
				}
				says := "no place was found for 1m0s, so the quota is given back: work-0: full"
				if tc.place == nil {
					says = "nothing was planned for 6m0s, so the quota is given back: "
				}
				if tc.want == CheckRetry && !strings.Contains(state.Message, says) {
					t.Errorf("it says %q", state.Message)
				}
			}
		})
	}
}

// A Workload that gave its quota back is inactive until the end of its pause, and explains why. Kueue's queue is not asked before.
func TestPause(t *testing.T) {
	for name, tc := range map[string]struct {
		until  string
		active bool
		asks   bool
		next   time.Duration
		says   string
	}{
		"it lasts":           {until: "2030-01-01T12:00:10Z", next: 10 * time.Second, says: "work-0: full; quota is asked for again after 2030-01-01T12:00:10Z"},
		"it is over":         {until: "2030-01-01T12:00:00Z", asks: true, says: "work-0: full"},
		"it cannot be read":  {until: "tomorrow", asks: true, says: "work-0: full"},
		"it is active":       {until: "2030-01-01T12:00:10Z", active: true, says: "Kueue has not processed it yet"},
		"an administrator's": {says: "it is deactivated; set its spec.active to true to request quota"},
	} {
		w := checked(t)
		one := w.workloads[0]
		set(one, workloadReserved, metav1.ConditionFalse, "no quota")
		one.Spec.Active = ptr.To(tc.active)
		one.Annotations = map[string]string{annotationNoPlace: "work-0: full", annotationAskAfter: tc.until}
		o := w.observation()
		o.Now = noon
		s := Plan(o)
		next := time.Duration(0)
		if !s.Next.IsZero() {
			next = s.Next.Sub(noon)
		}
		if (len(s.Ask) == 1) != tc.asks || next != tc.next || len(s.Resume)+len(s.Hold)+len(s.Delete) > 0 {
			t.Errorf("%s: %+v", name, s)
		}
		if r := o.Report(); !strings.Contains(r.Message, tc.says) {
			t.Errorf("%s: %q", name, r.Message)
		}
	}
	patch, err := PatchOf(&Workload{ObjectMeta: metav1.ObjectMeta{UID: "u"}}, Pause{Why: "full", Until: noon}.Patch())
	want := `{"metadata":{"annotations":{"trellis.dev/ask-for-quota-after":"2030-01-01T12:00:00Z","trellis.dev/no-place":"full"},"uid":"u"},"spec":{"active":false}}`
	if err != nil || string(patch) != want {
		t.Errorf("%s, %v", patch, err)
	}
}

// Two checks of Trellis in one ClusterQueue are written together, also when one of them is decided already.
func TestVerdictOfTwoChecks(t *testing.T) {
	w := checked(t)
	one := w.workloads[0]
	one.Status.AdmissionChecks = append(one.Status.AdmissionChecks, CheckState{Name: "place-too", State: CheckReady, Message: "before"})
	o := w.observation()
	s := searched(&o, ptr.To(""))
	s.Checks["place-too"] = true
	verdicts, _ := o.Verdicts(s)
	if len(verdicts) != 1 {
		t.Fatalf("verdicts %+v", verdicts)
	}
	got := map[string]string{}
	for _, state := range verdicts[0].States {
		got[state.Name] = state.State + ": " + state.Message
	}
	if diff := cmp.Diff(map[string]string{"place": "Ready: a place for all pods is reserved", "place-too": "Ready: before"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if one.Status.AdmissionChecks[1].State != CheckPending {
		t.Error("the Workload that was read is changed")
	}
}

// A promised pod is as Kueue will admit it: with what its flavor adds, and without Kueue's gate.
func TestPromise(t *testing.T) {
	w := checked(t)
	spot := Flavor{NodeLabels: map[string]string{"pool": "spot"}, Tolerations: []corev1.Toleration{{Key: "spot", Operator: corev1.TolerationOpExists}}}
	promise := PromiseOf(w.workloads[0], map[string]Flavor{"spot": spot})
	w.pods[0].Spec.NodeSelector = map[string]string{"own": "1"}
	w.pods[0].Spec.SchedulingGates = append(w.pods[0].Spec.SchedulingGates, corev1.PodSchedulingGate{Name: "kueue.x-k8s.io/topology"})
	pod, is := promise.Admit(w.pods[0])
	if !is || Held(pod) || !Held(w.pods[0]) || !render.GateClosed(pod) {
		t.Fatalf("admitted: %v, gates %v", is, pod.Spec.SchedulingGates)
	}
	if diff := cmp.Diff(map[string]string{"own": "1", "pool": "spot"}, pod.Spec.NodeSelector); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(spot.Tolerations, pod.Spec.Tolerations); diff != "" {
		t.Errorf("its flavor is of two resources, and counts once: %s", diff)
	}
	w.pods[1].Spec.SchedulingGates = append(w.pods[1].Spec.SchedulingGates, corev1.PodSchedulingGate{Name: "example.com/other"})
	if _, is := promise.Admit(w.pods[1]); is {
		t.Error("another gate holds it, too")
	}
}

// The scheduler is told of a change of promises, once.
func TestPromises(t *testing.T) {
	p, told := NewPromises(), 0
	p.OnChange(func(types.NamespacedName) { told++ })
	name, promise := types.NamespacedName{Namespace: "ns", Name: "g"}, map[string]Promise{"w": {"main": Addition{}}}
	for i, step := range []struct {
		promises map[string]Promise
		told     int
	}{{nil, 0}, {promise, 1}, {promise, 1}, {nil, 2}, {map[string]Promise{}, 2}} {
		if p.Set(name, Look{Promises: step.promises}, noon); told != step.told || len(p.Of(name)) != len(step.promises) {
			t.Errorf("step %d: told %d times, want %d; they are %v", i, told, step.told, p.Of(name))
		}
	}
	for i, step := range []struct {
		prints string
		asked  bool
		again  bool
	}{{again: true}, {}, {prints: "of other pods", again: true}, {prints: "of other pods"}, {"of other pods", true, true}, {"of other pods", false, true}, {prints: "of other pods"}} {
		now := noon.Add(time.Duration(i) * time.Minute)
		since := p.Set(name, Look{Promises: promise, Fingerprints: map[string]string{"w": step.prints}, Asked: step.asked}, now)
		if again := since["w"].Equal(now); again != step.again {
			t.Errorf("step %d: at %s it is looked for since %s", i, now, since["w"])
		}
	}
	if p.Forget(name); p.Known(name) || p.Set(name, Look{}, noon) == nil || !p.Known(name) {
		t.Error("known after it was forgotten, or not known when there is none")
	}
	var none *Promises
	if none.Of(name) != nil || !none.Known(name) {
		t.Error("no store has promises")
	}
}

// The condition of a deployment whose Workload waits for a check says that checks cannot be decided.
func TestDenied(t *testing.T) {
	const why = "no rights"
	for name, tc := range map[string]struct {
		why    string
		change func(one *Workload)
		want   bool
	}{
		"a check is pending": {why, func(*Workload) {}, true},
		"before it has quota": {why, func(one *Workload) {
			set(one, workloadReserved, metav1.ConditionFalse, "ClusterQueue cq is inactive")
		}, true},
		"checks can be decided":  {"", func(*Workload) {}, false},
		"its queue has no check": {why, func(one *Workload) { one.Status.AdmissionChecks = nil }, false},
		"all are decided": {why, func(one *Workload) {
			for i := range one.Status.AdmissionChecks {
				one.Status.AdmissionChecks[i].State = CheckReady
			}
		}, false},
	} {
		w := checked(t)
		tc.change(w.workloads[0])
		o := w.observation()
		o.ChecksDenied = tc.why
		r := o.Report()
		if got := strings.Contains(r.Message, "waits for AdmissionChecks (nodes, place), and those of trellis.dev/placement cannot be decided: no rights"); got != tc.want {
			t.Errorf("%s: %q", name, r.Message)
		}
	}
	d := &Denied{}
	for i, step := range []struct {
		why   string
		other bool
	}{{"", false}, {why, true}, {why, false}, {"", true}} {
		if other := d.Set(step.why); other != step.other || d.Why() != step.why {
			t.Errorf("step %d: %v, %q", i, other, d.Why())
		}
	}
	if d = nil; d.Why() != "" {
		t.Error("no store has a reason")
	}
}

// Kueue removes the gates of a Workload's pods one by one after it has admitted it: the place is needed until the last one is gone.
func TestAdmittedWithAGate(t *testing.T) {
	w := checked(t)
	set(w.workloads[0], workloadAdmitted, metav1.ConditionTrue, "")
	for i := range w.pods {
		o := w.observation()
		if len(o.Checked()) != 1 {
			t.Errorf("%d pods of %d have no gate: the place is given up", i, len(w.pods))
		}
		w.pods[i] = w.pods[i].DeepCopy()
		w.pods[i].Spec.SchedulingGates = nil
	}
	o := w.observation()
	if len(o.Checked()) != 0 {
		t.Error("the place is reserved for ever")
	}
}
