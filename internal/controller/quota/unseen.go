// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-k8s/trellis/internal/quota"
)

// seenWithin is how long a Workload that was created is not created again while the cache does not show it. One that was deleted before the
// cache had shown it is created after that.
const seenWithin = 5 * time.Second

// unseen are, by deployment, the names of Workloads that were created and that the cache has not shown yet, and since when. A second create
// would be refused, but only after Kueue's webhooks were asked. Each deployment is reconciled by one worker at a time.
type unseen struct{ byDeployment sync.Map }

func (u *unseen) of(dgd types.NamespacedName) map[string]time.Time {
	names, _ := u.byDeployment.LoadOrStore(dgd, map[string]time.Time{})
	return names.(map[string]time.Time)
}

// known reports whether quota of a deployment was decided, and Workloads of it may be left. It may have left its queue before its
// status reports the queue.
func (u *unseen) known(dgd types.NamespacedName) bool {
	_, known := u.byDeployment.Load(dgd)
	return known
}

// forget drops what is known of a deployment.
func (u *unseen) forget(dgd types.NamespacedName) { u.byDeployment.Delete(dgd) }

// await takes out of the steps what was created and cannot be seen yet, and has the deployment evaluated again in time.
func (u *unseen) await(o *quota.Observation, s *quota.Steps) {
	names := u.of(types.NamespacedName{Namespace: o.DGD.Namespace, Name: o.DGD.Name})
	for _, w := range o.Workloads {
		delete(names, w.Name)
	}
	maps.DeleteFunc(names, func(_ string, at time.Time) bool { return !at.Add(seenWithin).After(o.Now) })
	s.Create = slices.DeleteFunc(s.Create, func(w *quota.Workload) bool {
		if at, created := names[w.Name]; created {
			s.LookAt(at.Add(seenWithin))
			return true
		}
		names[w.Name] = o.Now
		return false
	})
}

// notCreated allows a Workload whose creation failed to be created again.
func (u *unseen) notCreated(dgd types.NamespacedName, name string) { delete(u.of(dgd), name) }
