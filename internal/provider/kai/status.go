// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package kai

import (
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-k8s/trellis/internal/provider/external"
)

// conditionUnschedulable is the only condition type that KAI sets. KAI does not remove the condition when the pods are placed.
const conditionUnschedulable = "UnschedulableOnNodePool"

// Pending is KAI's reason for not placing released pods.
type Pending struct {
	Reason, Message string
	// Since is the time of the report.
	Since metav1.Time
	// Anywhere: KAI would refuse the pods for this reason in every place.
	Anywhere bool
}

// queueReasons are the reasons in KAI's conditions that concern the queue. queueWords matches the corresponding messages on pods, because
// KAI writes no condition on a PodGroup with running pods.
var (
	queueReasons = []string{"OverLimit", "QueueDoesNotExist", "NonPreemptibleOverQuota", "PreemptionDelayNotElapsed"}
	queueWords   = regexp.MustCompile(`quota has reached the allowable limit of|Queue '[^']*' does not exist|Non-preemptible workload is over quota`)
)

// Anywhere reports whether KAI's message on a pod concerns the pod's queue, so that another place would not help.
func Anywhere(message string) bool { return queueWords.MatchString(message) }

// staleWord occurs in KAI's message on a pod until KAI's scheduler has seen the current PodGroup.
const staleWord = "which does not exist in PodGroup"

// Stale reports whether KAI's message on a pod is about an earlier version of the PodGroup. The current PodGroup contains the pod's leaf,
// because the leaf is added before the pod can be scheduled. KAI keeps an old message until the pod is bound or refused for another reason.
func Stale(message string) bool { return strings.Contains(message, staleWord) }

// WhyWaiting reads KAI's latest report on a PodGroup; false if there is none. The report is meaningful only while released pods are
// unbound, because KAI does not remove the condition.
func WhyWaiting(pg *PodGroup) (Pending, bool) {
	var last *SchedulingCondition
	for i := range pg.Status.SchedulingConditions {
		c := &pg.Status.SchedulingConditions[i]
		if c.Type != conditionUnschedulable || c.Status != "True" {
			continue
		}
		if last == nil || last.LastTransitionTime.Before(&c.LastTransitionTime) {
			last = c
		}
	}
	if last == nil {
		return Pending{}, false
	}
	w := Pending{Reason: last.Reason, Since: last.LastTransitionTime, Anywhere: slices.Contains(queueReasons, last.Reason)}
	var words []string
	for _, r := range last.Reasons {
		if w.Reason == "" {
			w.Reason = r.Reason
		}
		w.Anywhere = w.Anywhere || slices.Contains(queueReasons, r.Reason)
		if r.Message != "" && !slices.Contains(words, r.Message) {
			words = append(words, r.Message)
		}
	}
	if len(words) == 0 {
		words = append(words, last.Message)
	}
	w.Message = external.Message("KAI: " + strings.Join(words, "; "))
	return w, true
}
