// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/render"
)

// lastRetry is the longest pause before a release that failed is tried again; the first one is retryAfter.
const lastRetry = time.Minute

// failures are the graphs of which a release failed, until one works.
type failures map[types.NamespacedName]backoff

// note counts a failed release, once a try: the pods of a gang are released side by side.
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

// repeated: a single failure may be a moment's, and is not reported.
func (b backoff) repeated() bool { return b.times > 1 }

// pauses reports whether the next try is still to come.
func (b backoff) pauses(now time.Time) bool { return b.repeated() && now.Before(b.until) }

// why is what is reported.
func (b backoff) why() string {
	if b.repeated() {
		return b.message
	}
	return ""
}

// failureOf returns the failures of a graph, forgotten when nothing of it is to be released any more.
func (l *ledger) failureOf(o gang.Observation, r *gang.Request) backoff {
	name := client.ObjectKeyFromObject(o.DGD)
	if !r.HasWaiting() && !slices.ContainsFunc(o.Pods, l.onItsWay) {
		delete(l.failures, name)
	}
	return l.failures[name]
}

// endRefused has gangs requeued of which a part is released, when the release of the rest has been refused for long: what is bound of them
// would keep its capacity for good.
func (l *ledger) endRefused(r *gang.Request, failed backoff, d *decision) {
	now := l.clock.Now()
	if !failed.repeated() || now.Sub(failed.since) < servedPatience*l.options.RequeueAfter {
		return
	}
	for _, half := range r.Halves() {
		d.evict(half, eviction{reason: gang.CodeReleaseRefused, why: failed.message})
		failed.since = now
	}
	l.failures[d.graph] = failed
}

// scored is the part of a graph that its score is about: without what is repeatedly not released, or each try would say something new.
func (l *ledger) scored(o gang.Observation) gang.Observation {
	if l.failures[client.ObjectKeyFromObject(o.DGD)].repeated() {
		o.Pods = slices.DeleteFunc(slices.Clone(o.Pods), render.GateClosed)
	}
	return o
}
