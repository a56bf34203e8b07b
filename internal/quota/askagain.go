// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"fmt"
	"time"

	"github.com/trellis-k8s/trellis/internal/limit"
)

// Annotations on Workloads that gave their quota back because there was no place: the reason, and the time at which Trellis requests quota
// again. Until then, Trellis keeps the Workload inactive. The state Retry of an AdmissionCheck would not suffice: Kueue 0.19 does not
// release the quota before requeueAfterSeconds, and without that field it requests quota again immediately.
const (
	annotationNoPlace  = "trellis.dev/no-place"
	annotationAskAfter = "trellis.dev/ask-for-quota-after"
)

// Waits are the waiting times of a Workload without a place. It keeps its quota for the time Keep if its pods are planned, otherwise for
// the time Unplanned. The pause before it requests quota again is Retry at first. It doubles with each retry, up to Most.
type Waits struct{ Keep, Unplanned, Retry, Most time.Duration }

// DefaultWaits are the times that Trellis uses.
var DefaultWaits = Waits{Keep: time.Minute, Unplanned: 6 * time.Minute, Retry: time.Minute, Most: 30 * time.Minute}

// pauseAfter returns the pause after the given number of earlier retries.
func (w Waits) pauseAfter(retries int32) time.Duration {
	return min(w.Retry<<min(retries, 10), w.Most)
}

// Pause is the reason why a Workload requests no quota at present, and the time at which it requests quota again.
type Pause struct {
	Why   string
	Until time.Time
}

// Patch returns the patch that starts the pause.
func (p Pause) Patch() map[string]any {
	return pausePatch(limit.Text(p.Why, maxKueueMessage), p.Until.UTC().Format(time.RFC3339), false)
}

// AskPatch is the patch that ends the pause of a Workload.
var AskPatch = pausePatch(nil, nil, true)

func pausePatch(why, until any, active bool) map[string]any {
	return map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{annotationNoPlace: why, annotationAskAfter: until}},
		"spec":     map[string]any{"active": active},
	}
}

// paused returns the pause of a Workload; false for none. A pause whose end cannot be read has ended.
func (w *Workload) paused() (Pause, bool) {
	if w.Annotations[annotationAskAfter] == "" || w.active() {
		return Pause{}, false
	}
	until, _ := time.Parse(time.RFC3339, w.Annotations[annotationAskAfter])
	return Pause{Why: w.Annotations[annotationNoPlace], Until: until}, true
}

func (p Pause) String() string {
	return fmt.Sprintf("%s; quota is asked for again after %s", p.Why, p.Until.UTC().Format(time.RFC3339))
}
