// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-k8s/trellis/internal/controller/creationturns"
)

// quotaLackCounts is how long a replica must lack quota before replicas of its group move in place. A shorter lack is ignored, because a
// ResourceQuota counts a deleted pod for a moment after the deletion.
const quotaLackCounts = 5 * time.Second

// quotaLacks records, by group, since when a replica lacks the quota of a ResourceQuota. The zero value is ready to use.
type quotaLacks struct {
	mu    sync.Mutex
	since map[types.NamespacedName]time.Time
}

// note records whether a replica of the group lacks quota.
func (q *quotaLacks) note(group types.NamespacedName, lacks bool, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !lacks {
		delete(q.since, group)
		return
	}
	if q.since == nil {
		q.since = map[types.NamespacedName]time.Time{}
	}
	if _, known := q.since[group]; !known {
		q.since[group] = now
	}
}

// counts reports whether a replica of the group has lacked quota for at least quotaLackCounts. in is the remaining time until then; 0 if no
// replica lacks quota.
func (q *quotaLacks) counts(group types.NamespacedName, now time.Time) (counts bool, in time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	since, lacks := q.since[group]
	if !lacks {
		return false, 0
	}
	in = max(0, since.Add(quotaLackCounts).Sub(now))
	return in == 0, in
}

// lacksQuota reports whether a replica of the view lacks quota. It returns false while the group has terminating or lost pods, whose quota
// is about to become free.
func (v *view) lacksQuota(decisions map[creationturns.Key]creationturns.Decision) bool {
	for _, one := range v.o.replicas {
		if len(one.leaving)+len(one.lost) > 0 {
			return false
		}
	}
	for i := range v.wants {
		if decisions[v.wants[i].Key].Lack != nil {
			return true
		}
	}
	return false
}
