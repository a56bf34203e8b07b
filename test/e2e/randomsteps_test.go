// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
)

func (l *life) scaleSome() string {
	name, n := l.someScale()
	f := l.floors[name]
	l.floors[name] = limits{min(f.floor, max(0, n-1)), max(f.ceiling, n)}
	if l.undisturbed {
		l.watcher.expect(name, l.floors[name].floor, l.floors[name].ceiling)
	}
	l.replicas[name] = n
	l.scale(l.graph, name, int32(n))
	return fmt.Sprintf("%s to %d", name, n)
}

func (l *life) killPods() string {
	l.disturb()
	pods, killed := l.all(), []string{}
	for range min(len(pods), 1+l.rand.IntN(3)) {
		pod := pods[l.rand.IntN(len(pods))]
		killed = append(killed, pod.Name)
		_ = l.c.Delete(l.t.Context(), &pod, client.GracePeriodSeconds(int64(l.rand.IntN(2)))) // it may be gone already
	}
	return fmt.Sprint(killed)
}

func (l *life) killNode() string {
	if l.dead != nil {
		return "(one is dead already)"
	}
	l.disturb()
	all := racks(2, 8, "a/r0", "a/r1", "a/r2", "a/r3", "b/r0", "b/r1", "b/r2") // not where the foreign pod is
	h := all[l.rand.IntN(len(all))]
	l.remove(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: l.node(h.name)}})
	l.dead, l.whole = &h, false
	return h.name
}

func (l *life) loseLevel() string {
	l.disturb()
	without := l.topology()
	without.Spec.Levels = slices.DeleteFunc(without.Spec.Levels, func(level grovev1alpha1.TopologyLevel) bool { return level.Domain == "rack" })
	if !l.setTopology(without) {
		return "(it is gone as a whole)"
	}
	l.whole = false
	return "rack"
}

func (l *life) loseTopology() string {
	l.disturb()
	_ = l.c.Delete(l.t.Context(), l.topology())
	l.whole = false
	return ""
}

// lackQuota has a quota of the namespace hold no more than 3 pods with GPUs, until it is restored.
func (l *life) lackQuota() string {
	l.disturb()
	if err := l.c.Create(l.t.Context(), l.quota()); err != nil && !apierrors.IsAlreadyExists(err) {
		l.t.Fatal(err)
	}
	l.whole = false
	return ""
}

func (l *life) quota() *corev1.ResourceQuota {
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: l.name, Name: "gpus"}}
	q.Spec.Hard = corev1.ResourceList{"requests.nvidia.com/gpu": resource.MustParse("24")}
	return q
}

// restore brings back what was lost.
func (l *life) restore() string {
	if l.whole {
		return "(nothing is lost)"
	}
	if l.dead != nil {
		l.addHosts(*l.dead)
		l.dead = nil
	}
	if !l.setTopology(l.topology()) {
		l.create(l.topology())
	}
	if err := client.IgnoreNotFound(l.c.Delete(l.t.Context(), l.quota())); err != nil {
		l.t.Fatal(err)
	}
	l.whole = true
	return ""
}

// setTopology changes the topology's levels; false: there is none.
func (l *life) setTopology(to *grovev1alpha1.ClusterTopology) bool {
	before := &grovev1alpha1.ClusterTopology{}
	if err := l.c.Get(l.t.Context(), key("", l.name), before); err != nil {
		return false
	}
	now := before.DeepCopy()
	now.Spec = to.Spec
	if err := l.c.Patch(l.t.Context(), now, client.MergeFrom(before)); err != nil {
		l.t.Fatal(err)
	}
	return true
}

// recreateIt deletes the deployment and creates it again at once. Without its topology it would be refused.
func (l *life) recreateIt() string {
	l.restore()
	l.disturb()
	return l.recreate()
}
