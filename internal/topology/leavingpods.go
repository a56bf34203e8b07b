// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Leaving is a bound pod that is being deleted and still uses its capacity.
type Leaving struct {
	// Pod is the namespace and name of the pod.
	Pod string
	// Since is the time of the deletion request, and Until the end of the grace period. Both are times of the API server's clock, in whole
	// seconds.
	Since, Until time.Time
}

// LeavingOf returns the deletion times of a pod; nil when it is not being deleted.
func LeavingOf(pod *corev1.Pod) *Leaving {
	if pod.DeletionTimestamp == nil {
		return nil
	}
	l := &Leaving{Pod: pod.Namespace + "/" + pod.Name, Since: pod.DeletionTimestamp.Time, Until: pod.DeletionTimestamp.Time}
	if grace := pod.DeletionGracePeriodSeconds; grace != nil {
		l.Since = l.Until.Add(-time.Duration(*grace) * time.Second)
	}
	return l
}

func (l *Leaving) equal(o *Leaving) bool {
	return l == o || l != nil && o != nil && l.Pod == o.Pod && l.Since.Equal(o.Since) && l.Until.Equal(o.Until)
}

// LeavingOn lists the pods on a node that are being deleted, the latest end of the grace period first, then by name.
func (c *Cluster) LeavingOn(node string) []Leaving {
	n, ok := c.byName[node]
	if !ok {
		return nil
	}
	var list []Leaving
	for _, id := range n.bound {
		if l := c.pods[id].leaving; l != nil {
			list = append(list, *l)
		}
	}
	slices.SortFunc(list, func(a, b Leaving) int { return cmp.Or(b.Until.Compare(a.Until), cmp.Compare(a.Pod, b.Pod)) })
	return list
}
