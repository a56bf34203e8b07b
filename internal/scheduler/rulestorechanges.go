// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/kubescheduler"
)

// devicesServed takes in the resources that DeviceClasses serve.
func (l *ledger) devicesServed(names []string) wake {
	l.mu.Lock()
	defer l.mu.Unlock()
	return wake{waiting: l.cluster.Serve(names)}
}

// namespaceSet takes in the labels of a namespace.
func (l *ledger) namespaceSet(now *corev1.Namespace) wake {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.binders.affinity.Namespaces
	if before, has := known[now.Name]; has && maps.Equal(before, now.Labels) {
		return wake{}
	}
	known[now.Name] = now.Labels
	return wake{ruled: true}
}

func (l *ledger) namespaceGone(gone *corev1.Namespace) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.binders.affinity.Namespaces, gone.Name)
}

// volumeSet takes in an object that tells where volumes can be used, and volumeGone that there is none any more.
func (l *ledger) volumeSet(now client.Object) wake {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.binders.volumes.Set(now)
	return wake{ruled: true}
}

func (l *ledger) volumeGone(gone client.Object) wake {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.binders.volumes.Delete(gone)
	return wake{ruled: true}
}

// claimSet takes in an object that describes what devices there are, or who has them, and claimGone that there is none any more. Selectors
// are compiled before the lock is taken.
func (l *ledger) claimSet(now client.Object) wake {
	l.binders.allocator.Compile(now)
	l.mu.Lock()
	defer l.mu.Unlock()
	return wake{ruled: l.binders.claims.Set(now)}
}

func (l *ledger) claimGone(gone client.Object) wake {
	l.mu.Lock()
	defer l.mu.Unlock()
	return wake{ruled: l.binders.claims.Delete(gone)}
}

// devicesKnown takes in how to tell that the devices and their claims are all known.
func (l *ledger) devicesKnown(known func() bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.binders.claimed = known
}

// bindersKnown takes in how to tell that the objects which binders read are all known.
func (l *ledger) bindersKnown(known func() bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.binders.known = known
}

// versionIs takes in the version of the API server.
func (l *ledger) versionIs(version string) wake {
	l.mu.Lock()
	defer l.mu.Unlock()
	changed := l.cluster.IgnoreDeclaredFeatures(!kubescheduler.Of(version).HasPlugin(kubescheduler.NodeDeclaredFeatures))
	if all := kubescheduler.SpreadCountsAll(version); l.binders.affinity.CountsAll != all {
		l.binders.affinity.CountsAll, changed = all, true
	}
	return wake{waiting: changed}
}
