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

// CheckController is the controller name of the AdmissionChecks that Trellis sets. With such a check, a Workload is admitted only when
// there is a place for its pods.
const CheckController = "trellis.dev/placement"

// States of an AdmissionCheck in a Workload.
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

// Flavor holds the parts of a ResourceFlavor that Kueue adds to pods.
type Flavor struct {
	NodeLabels  map[string]string   `json:"nodeLabels,omitempty"`
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
}

// Verdict is a decision about the AdmissionChecks of a Workload. It contains the states of all checks that Trellis sets, and changes at
// least one of them. All states are written together, because an apply request removes the states that it omits.
type Verdict struct {
	Workload *Workload
	States   []CheckState
	// Pause during which the Workload requests no quota; nil if the Workload keeps its quota.
	Pause *Pause
}

// Checked returns the deployment's Workloads that have quota and AdmissionChecks and whose pods need reserved places. These are the
// Workloads that are not admitted, and the admitted Workloads with a pod that Kueue still holds: after Kueue has admitted a Workload, it
// removes the gates of the pods one by one.
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

// FlavorNames lists the ResourceFlavors assigned to a Workload's podsets.
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

// PromiseOf returns the selectors and tolerations that Kueue will add to a Workload's pods, from the flavors assigned to the Workload.
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

// Ours returns the states of the AdmissionChecks that Trellis sets on a Workload. checks contains the names of these AdmissionChecks.
func (w *Workload) Ours(checks map[string]bool) []CheckState {
	return slices.DeleteFunc(slices.Clone(w.Status.AdmissionChecks), func(c CheckState) bool { return !checks[c.Name] })
}

// Search is the input of Verdicts.
type Search struct {
	// Checks that Trellis sets, by name.
	Checks map[string]bool
	// Fingerprints identify the pods of each Workload, by Workload name. Since contains the times at which this process started to search
	// for the places of these pods.
	Fingerprints map[string]string
	Since        map[string]time.Time
	Result       gang.Result
	Waits        Waits
	Now          time.Time
}

// Verdicts returns the new states of the checks of a deployment's Workloads that are not admitted. A check becomes Ready when a place is
// reserved, and Pending again if the place is lost before admission. It becomes Retry when no place was found in time. While a request to
// an autoscaler is open, the check does not become Retry, because the request has its own time limit. again is the delay until the next
// decision; zero for none.
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

// answer returns the scheduler's result for a Workload. current reports whether the result is for the Workload's current pods.
func (s *Search) answer(w *Workload) (checked gang.Checked, current bool) {
	checked, is := s.Result.Checked[w.Name]
	return checked, is && checked.Fingerprint == s.Fingerprints[w.Name]
}

// lost sets a Ready check back to Pending if the Workload has lost its place before admission, for example while
// another check was pending.
func (s *Search) lost(w *Workload, c *CheckState) bool {
	checked, current := s.answer(w)
	if c.State != CheckReady || !current || checked.Why == "" {
		return false
	}
	c.State, c.LastTransitionTime = CheckPending, metav1.NewTime(s.Now)
	c.Message = "the place that was reserved is lost: " + checked.Why
	return true
}

// settle sets one pending check and returns 0, or returns the time left until the check must be set.
func (o *Observation) settle(v *Verdict, c *CheckState, s *Search) time.Duration {
	w := v.Workload
	checked, current := s.answer(w)
	if current && checked.Why == "" && o.allThere(w) {
		c.State, c.Message, c.LastTransitionTime = CheckReady, "a place for all pods is reserved", metav1.NewTime(s.Now)
		return 0
	}
	since := w.keptSince(c)
	if asked := s.Since[w.Name]; asked.After(since) { // the operator was not running, or had not seen the quota
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

// keptSince returns the time since which a Workload has had quota together with a pending check. Kueue may add the check before or after it
// reserves quota.
func (w *Workload) keptSince(c *CheckState) time.Time {
	since := c.LastTransitionTime.Time
	if r := meta.FindStatusCondition(w.Status.Conditions, workloadReserved); r != nil && r.LastTransitionTime.After(since) {
		return r.LastTransitionTime.Time
	}
	return since
}

// allThere reports whether all pods of a Workload exist: as many pods as the Workload has quota for, or all pods that the deployment wants.
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
