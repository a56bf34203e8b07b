// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"fmt"
	"time"

	"github.com/trellis-k8s/trellis/internal/limit"
)

// Annotations of Workloads that gave their quota back because there was no place: why, and when quota is asked for again. Trellis keeps
// them inactive until then. Kueue 0.19 does not give the quota of an AdmissionCheck back before the time that its state Retry names, and
// with none it asks at once.
const (
	annotationNoPlace  = "trellis.dev/no-place"
	annotationAskAfter = "trellis.dev/ask-for-quota-after"
)

// Waits are how long quota is kept for a Workload that finds no place, and how long it is not asked for afterwards: doubled with each
// retry, up to Most.
type Waits struct{ Keep, Unplanned, Retry, Most time.Duration }

// DefaultWaits are what Trellis waits.
var DefaultWaits = Waits{Keep: time.Minute, Unplanned: 6 * time.Minute, Retry: time.Minute, Most: 30 * time.Minute}

// pauseAfter is how long quota is not asked for after so many earlier retries.
func (w Waits) pauseAfter(retries int32) time.Duration {
	return min(w.Retry<<min(retries, 10), w.Most)
}

// Pause is why a Workload asks for no quota, and until when.
type Pause struct {
	Why   string
	Until time.Time
}

// Patch begins the pause.
func (p Pause) Patch() map[string]any {
	return pausePatch(limit.Text(p.Why, maxKueueMessage), p.Until.UTC().Format(time.RFC3339), false)
}

// AskPatch ends the pause of a Workload.
var AskPatch = pausePatch(nil, nil, true)

func pausePatch(why, until any, active bool) map[string]any {
	return map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{annotationNoPlace: why, annotationAskAfter: until}},
		"spec":     map[string]any{"active": active},
	}
}

// paused is the pause of a Workload. One whose end cannot be read has ended.
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
