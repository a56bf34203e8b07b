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

// ruleStores hold the objects, other than pods and nodes, to which rules of pods refer. Their methods take the lock of the ledger.
type ruleStores struct {
	mu      sync.Locker
	cluster *topology.Cluster
	binders binders
}

// devicesServed sets the resources that DeviceClasses serve.
func (r *ruleStores) devicesServed(names []string) wake {
	r.mu.Lock()
	defer r.mu.Unlock()
	return wake{waiting: r.cluster.Serve(names)}
}

// namespaceSet sets the labels of a namespace.
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

// volumeSet stores an object that determines where volumes can be used, and volumeGone removes it.
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

// claimSet stores an object that describes devices or their allocation, and claimGone removes it. claimSet compiles selectors before it
// takes the lock.
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

// devicesKnown sets the function that reports whether the devices and their claims are all known.
func (r *ruleStores) devicesKnown(known func() bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.binders.claimed = known
}

// bindersKnown sets the function that reports whether the objects that binders read are all known.
func (r *ruleStores) bindersKnown(known func() bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.binders.known = known
}

// versionIs selects the filters of the kube-scheduler release that belongs to the version of the API server.
func (r *ruleStores) versionIs(version string) wake {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed := r.cluster.IgnoreDeclaredFeatures(!kubescheduler.Of(version).HasPlugin(kubescheduler.NodeDeclaredFeatures))
	if all := kubescheduler.SpreadCountsAll(version); r.binders.affinity.CountsAll != all {
		r.binders.affinity.CountsAll, changed = all, true
	}
	return wake{waiting: changed}
}
