// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
)

// CheckController is the controller name of AdmissionChecks that Trellis decides: a Workload is admitted when there is a place for its
// pods.
const CheckController = "trellis.dev/placement"

// States of an AdmissionCheck of a Workload.
const (
	CheckPending = "Pending"
	CheckReady   = "Ready"
	CheckRetry   = "Retry"
)

// CheckState is the state of one AdmissionCheck of a Workload.
type CheckState struct {
	Name                string      `json:"name"`
	State               string      `json:"state"`
	LastTransitionTime  metav1.Time `json:"lastTransitionTime"`
	Message             string      `json:"message"`
	RequeueAfterSeconds *int32      `json:"requeueAfterSeconds,omitempty"`
	RetryCount          *int32      `json:"retryCount,omitempty"`
}

// Flavor is what a ResourceFlavor adds to pods.
type Flavor struct {
	NodeLabels  map[string]string   `json:"nodeLabels,omitempty"`
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
}

// Verdict is a decision about AdmissionChecks of a Workload: the states of all that Trellis decides, at least one of which is new. They
// are written together, because an apply takes away what it leaves out.
type Verdict struct {
	Workload *Workload
	States   []CheckState
	// Pause is for how long the Workload asks for no quota; nil where it keeps its quota.
	Pause *Pause
}

// Checked are the Workloads of a deployment that have quota and AdmissionChecks, and of which a pod may not run yet. Kueue removes the
// gates of pods one by one after it has admitted a Workload, so their places are needed until the last of them.
func (o *Observation) Checked() []*Workload {
	held := map[string]bool{}
	for _, pod := range o.Pods {
		held[WorkloadOf(pod)] = held[WorkloadOf(pod)] || pod.DeletionTimestamp == nil && HeldAlone(pod)
	}
	return slices.DeleteFunc(slices.Clone(o.Workloads), func(w *Workload) bool {
		return !w.usable() || !w.holdsQuota() || w.Admitted() && !held[w.Name] || w.isEvicted() ||
			len(w.Status.AdmissionChecks) == 0 || w.Status.Admission == nil
	})
}

// FlavorNames are the flavors that a Workload's podsets are assigned to.
func (w *Workload) FlavorNames() []string {
	var names []string
	if w.Status.Admission != nil {
		for _, set := range w.Status.Admission.PodSetAssignments {
			names = slices.AppendSeq(names, maps.Values(set.Flavors))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// PromiseOf is what Kueue will add to the pods of a Workload, by its assignment.
func PromiseOf(w *Workload, flavors map[string]Flavor) Promise {
	promise := Promise{}
	for _, set := range w.Status.Admission.PodSetAssignments {
		add := Addition{NodeSelector: map[string]string{}}
		for _, name := range slices.Compact(slices.Sorted(maps.Values(set.Flavors))) {
			maps.Copy(add.NodeSelector, flavors[name].NodeLabels)
			add.Tolerations = append(add.Tolerations, flavors[name].Tolerations...)
		}
		promise[set.Name] = add
	}
	return promise
}

// Ours are the states of a Workload's checks that Trellis decides.
func (w *Workload) Ours(checks map[string]bool) []CheckState {
	return slices.DeleteFunc(slices.Clone(w.Status.AdmissionChecks), func(c CheckState) bool { return !checks[c.Name] })
}

// Search is what verdicts are made from.
type Search struct {
	// Checks that Trellis decides, by name.
	Checks map[string]bool
	// Fingerprints identify the pods of each Workload, by its name, and Since is when this process first had their places looked for.
	Fingerprints map[string]string
	Since        map[string]time.Time
	Result       gang.Result
	Waits        Waits
	Now          time.Time
}

// Verdicts decides the checks of a deployment's Workloads that are not admitted: Ready when a place is reserved, Pending again when that is
// lost before Kueue has admitted them, Retry when none was found for so long and no autoscaler is asked for nodes, which has a bound of its
// own. again is when the next decision is due; zero for none.
func (o *Observation) Verdicts(s Search) (verdicts []Verdict, again time.Duration) {
	for _, w := range o.Checked() {
		v, decided := Verdict{Workload: w, States: w.Ours(s.Checks)}, false
		if w.Admitted() {
			continue
		}
		for i := range v.States {
			if v.States[i].State != CheckPending {
				decided = s.lost(w, &v.States[i]) || decided
				continue
			}
			left := o.settle(&v, &v.States[i], &s)
			if decided = decided || left <= 0; left > 0 && (again == 0 || left < again) {
				again = left
			}
		}
		if decided {
			verdicts = append(verdicts, v)
		}
	}
	return verdicts, again
}

// answer is what the scheduler found for a Workload. current: for the pods that the Workload has now.
func (s *Search) answer(w *Workload) (checked gang.Checked, current bool) {
	checked, is := s.Result.Checked[w.Name]
	return checked, is && checked.Fingerprint == s.Fingerprints[w.Name]
}

// lost has a check that is Ready decided again when the Workload has lost its place before it was admitted: another check takes its time.
func (s *Search) lost(w *Workload, c *CheckState) bool {
	checked, current := s.answer(w)
	if c.State != CheckReady || !current || checked.Why == "" {
		return false
	}
	c.State, c.LastTransitionTime = CheckPending, metav1.NewTime(s.Now)
	c.Message = "the place that was reserved is lost: " + checked.Why
	return true
}

// settle decides one pending check, or returns how long it has time.
func (o *Observation) settle(v *Verdict, c *CheckState, s *Search) time.Duration {
	w := v.Workload
	checked, current := s.answer(w)
	if current && checked.Why == "" && o.allThere(w) {
		c.State, c.Message, c.LastTransitionTime = CheckReady, "a place for all pods is reserved", metav1.NewTime(s.Now)
		return 0
	}
	since := w.keptSince(c)
	if asked := s.Since[w.Name]; asked.After(since) { // the operator did not run, or it had not seen the quota
		since = asked
	}
	keep, what := s.Waits.Keep, "no place was found"
	if !current {
		keep, what = s.Waits.Unplanned, "nothing was planned"
	}
	if left := since.Add(keep).Sub(s.Now); left > 0 {
		return left
	}
	if s.Result.Asked != "" {
		return s.Waits.Keep
	}
	c.State, c.LastTransitionTime, c.RequeueAfterSeconds = CheckRetry, metav1.NewTime(s.Now), nil
	c.Message = fmt.Sprintf("%s for %s, so the quota is given back: %s",
		what, keep, cmp.Or(checked.Why, "not all of its pods exist, or they are not planned yet"))
	v.Pause = &Pause{Why: c.Message, Until: s.Now.Add(s.Waits.pauseAfter(ptr.Deref(c.RetryCount, 0)))}
	return 0
}

// keptSince is since when a Workload has had its quota while a check was pending. Kueue adds a check before there is quota, or after.
func (w *Workload) keptSince(c *CheckState) time.Time {
	since := c.LastTransitionTime.Time
	if r := meta.FindStatusCondition(w.Status.Conditions, workloadReserved); r != nil && r.LastTransitionTime.After(since) {
		return r.LastTransitionTime.Time
	}
	return since
}

// allThere reports whether all pods of a Workload exist: as many as it has quota for, or all that the deployment wants.
func (o *Observation) allThere(w *Workload) bool {
	pods := int32(0)
	for _, pod := range o.Pods {
		if WorkloadOf(pod) == w.Name && pod.DeletionTimestamp == nil {
			pods++
		}
	}
	whole := !slices.ContainsFunc(o.Groups, func(sg *trellisv1alpha1.ScalingGroup) bool { return !o.complete(sg) })
	return pods > 0 && (pods >= podsOf(w.Spec.PodSets) || whole)
}
