// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/kubescheduler"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// ruleStores are the objects that rules of pods refer to, beyond pods and nodes. Its methods take the lock of the ledger.
type ruleStores struct {
	mu      sync.Locker
	cluster *topology.Cluster
	binders binders
}

// devicesServed takes in the resources that DeviceClasses serve.
func (r *ruleStores) devicesServed(names []string) wake {
	r.mu.Lock()
	defer r.mu.Unlock()
	return wake{waiting: r.cluster.Serve(names)}
}

// namespaceSet takes in the labels of a namespace.
func (r *ruleStores) namespaceSet(now *corev1.Namespace) wake {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.binders.affinity.Namespaces
	if before, has := known[now.Name]; has && maps.Equal(before, now.Labels) {
		return wake{}
	}
	known[now.Name] = now.Labels
	return wake{ruled: true}
}

func (r *ruleStores) namespaceGone(gone *corev1.Namespace) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.binders.affinity.Namespaces, gone.Name)
}

// volumeSet takes in an object that tells where volumes can be used, and volumeGone that there is none any more.
func (r *ruleStores) volumeSet(now client.Object) wake {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.binders.volumes.Set(now)
	return wake{ruled: true}
}

func (r *ruleStores) volumeGone(gone client.Object) wake {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.binders.volumes.Delete(gone)
	return wake{ruled: true}
}

// claimSet takes in an object that describes what devices there are, or who has them, and claimGone that there is none any more. Selectors
// are compiled before the lock is taken.
func (r *ruleStores) claimSet(now client.Object) wake {
	r.binders.allocator.Compile(now)
	r.mu.Lock()
	defer r.mu.Unlock()
	return wake{ruled: r.binders.claims.Set(now)}
}

func (r *ruleStores) claimGone(gone client.Object) wake {
	r.mu.Lock()
	defer r.mu.Unlock()
	return wake{ruled: r.binders.claims.Delete(gone)}
}

// devicesKnown takes in how to tell that the devices and their claims are all known.
func (r *ruleStores) devicesKnown(known func() bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.binders.claimed = known
}

// bindersKnown takes in how to tell that the objects which binders read are all known.
func (r *ruleStores) bindersKnown(known func() bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.binders.known = known
}

// versionIs takes in the version of the API server.
func (r *ruleStores) versionIs(version string) wake {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed := r.cluster.IgnoreDeclaredFeatures(!kubescheduler.Of(version).HasPlugin(kubescheduler.NodeDeclaredFeatures))
	if all := kubescheduler.SpreadCountsAll(version); r.binders.affinity.CountsAll != all {
		r.binders.affinity.CountsAll, changed = all, true
	}
	return wake{waiting: changed}
}
