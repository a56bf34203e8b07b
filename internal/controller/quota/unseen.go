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

// seenWithin is how long a created Workload may be missing from the cache before it is created again. It may have been deleted before the
// cache showed it.
const seenWithin = 5 * time.Second

// unseen has, by deployment, the names and creation times of created Workloads that the cache does not show yet. A second create would be
// refused, but would call Kueue's webhooks in vain. The maps need no lock, because each deployment is reconciled by one worker at a time.
type unseen struct{ byDeployment sync.Map }

func (u *unseen) of(dgd types.NamespacedName) map[string]time.Time {
	names, _ := u.byDeployment.LoadOrStore(dgd, map[string]time.Time{})
	return names.(map[string]time.Time)
}

// known reports whether a reconcile has planned the Workloads of a deployment. The Workloads may then exist, even if the deployment's
// status does not report the queue yet.
func (u *unseen) known(dgd types.NamespacedName) bool {
	_, known := u.byDeployment.Load(dgd)
	return known
}

// forget drops the created Workloads of a deployment.
func (u *unseen) forget(dgd types.NamespacedName) { u.byDeployment.Delete(dgd) }

// await removes from the steps the creates of Workloads that were already created but are not in the cache yet, and schedules another
// evaluation of the deployment.
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

// notCreated records that the create of a Workload failed, so that the Workload may be created again.
func (u *unseen) notCreated(dgd types.NamespacedName, name string) { delete(u.of(dgd), name) }
