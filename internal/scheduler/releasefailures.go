// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-k8s/trellis/internal/limit"
)

// lastRetry is the longest pause before a failed release is tried again; the first pause is retryAfter.
const lastRetry = time.Minute

// failures are the graphs with a failed release, until a release succeeds.
type failures map[types.NamespacedName]backoff

// note counts a failed release. It ignores further failures until the next retry, because the pods of a gang are released in parallel.
func (f failures) note(name types.NamespacedName, err error, now time.Time) backoff {
	last := f[name]
	if now.Before(last.until) {
		return last
	}
	message := limit.Text("it has capacity, but its release is refused, and retried: "+err.Error(), limit.Condition)
	if last.since.IsZero() {
		last.since = now
	}
	f[name] = backoff{until: now.Add(doubled(retryAfter, lastRetry, last.times)), times: last.times + 1, message: message, since: last.since}
	return f[name]
}

// repeated reports whether more than one try failed. A single failure may be transient, and is not reported.
func (b backoff) repeated() bool { return b.times > 1 }

// pauses reports whether the graph still waits for the next try.
func (b backoff) pauses(now time.Time) bool { return b.repeated() && now.Before(b.until) }

// why returns the message to report; "" if there is none.
func (b backoff) why() string {
	if b.repeated() {
		return b.message
	}
	return ""
}
