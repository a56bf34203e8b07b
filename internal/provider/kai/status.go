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

// conditionUnschedulable is the only type KAI sets. It stays once pods are placed.
const conditionUnschedulable = "UnschedulableOnNodePool"

// Pending is why KAI has not placed what was released.
type Pending struct {
	Reason, Message string
	// Since when KAI says it.
	Since metav1.Time
	// Anywhere: the reason has nothing to do with where the pods are to go.
	Anywhere bool
}

// Reasons of KAI's that are about the queue, and what it says on pods then: on a PodGroup with running pods it writes no condition.
var (
	queueReasons = []string{"OverLimit", "QueueDoesNotExist", "NonPreemptibleOverQuota", "PreemptionDelayNotElapsed"}
	queueWords   = regexp.MustCompile(`quota has reached the allowable limit of|Queue '[^']*' does not exist|Non-preemptible workload is over quota`)
)

// Anywhere reports whether a word of KAI's about a pod is about its queue: another place would change nothing.
func Anywhere(message string) bool { return queueWords.MatchString(message) }

// staleWord is in what KAI says of a pod while its scheduler has not seen the PodGroup as it is by now.
const staleWord = "which does not exist in PodGroup"

// Stale reports whether a word of KAI's about a pod is about an earlier PodGroup: the leaf that the pod names is listed before the pod can
// be scheduled, and KAI leaves the word standing until the pod is bound or refused for another reason.
func Stale(message string) bool { return strings.Contains(message, staleWord) }

// WhyWaiting reads KAI's latest report on a PodGroup. It means something only while pods that were released are unbound, because KAI leaves
// the condition standing. False: KAI has not said anything.
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
