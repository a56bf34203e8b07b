// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"errors"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/provider"
)

// empties are the records of which nothing is left; there are to be none.
func (b *bench) empties() int {
	return b.count(func(r *released) bool { return reflect.ValueOf(r).Elem().IsZero() })
}

// drawState is a later state of a released pod: gated, released, refused, nominated, bound, failed, leaving.
func drawState(t *rapid.T, pod *corev1.Pod) *corev1.Pod {
	now := pod.DeepCopy()
	if rapid.Bool().Draw(t, "open") {
		opened(now, "g5-gang", map[string]string{"z": "z", "r": "a"})
	}
	now.Status.NominatedNodeName = rapid.SampledFrom([]string{"", "a0", "a1"}).Draw(t, "nominated")
	now.Status.Conditions = nil
	if rapid.Bool().Draw(t, "refused") {
		now.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "no"}}
	}
	if now.Annotations != nil && rapid.Bool().Draw(t, "bound") {
		now.Spec.NodeName = "a0"
	}
	if rapid.IntRange(0, 4).Draw(t, "fails") == 0 {
		now.Status.Phase = corev1.PodFailed
	}
	if rapid.IntRange(0, 4).Draw(t, "leaves") == 0 {
		now.DeletionTimestamp = &metav1.Time{Time: begin}
	}
	return now
}

// Whatever happens to pods, and in whatever order, and however late the loop and its writers hear of it: there is never a record of which nothing is left,
// and none of a pod that is gone.
func TestNothingIsRememberedOfAPodThatIsGone(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b, o := newIdleBench(t), asking(5, 2, 0)
		l, gone := b.s.ledger, map[types.UID]bool{}
		seen := o // what the loop has read before the last events
		draw := func(rt *rapid.T) (int, gang.Release) {
			i := rapid.IntRange(0, 1).Draw(rt, "pod")
			return i, gang.Release{Pod: seen.Pods[i]}
		}
		gangs := map[string]eviction{"g5-gang": {reason: ReasonUnschedulable, why: "no"}}
		rt.Repeat(map[string]func(*rapid.T){
			"changed": func(rt *rapid.T) {
				if i, _ := draw(rt); !gone[o.Pods[i].UID] {
					o.Pods[i] = drawState(rt, o.Pods[i])
					b.s.podSet(nil, o.Pods[i])
				}
			},
			"gone": func(rt *rapid.T) {
				if i, _ := draw(rt); rapid.IntRange(0, 3).Draw(rt, "really") == 0 && !gone[o.Pods[i].UID] {
					b.s.podGone(o.Pods[i])
					gone[o.Pods[i].UID] = true
				}
			},
			"read": func(*rapid.T) {
				seen.Pods = nil
				seen.Pods = append(seen.Pods, o.Pods...)
			},
			"decided": func(*rapid.T) {
				now := o // under the lock the loop reads what there is
				now.Pods = nil
				for _, pod := range o.Pods {
					if !gone[pod.UID] {
						now.Pods = append(now.Pods, pod)
					}
				}
				d := b.decide(now)
				(&evaluation{ledger: l, d: &d}).trackParted(now)
			},
			"objected": func(rt *rapid.T) {
				now := seen
				now.Objections = map[types.UID]gang.Objection{}
				if i, _ := draw(rt); rapid.Bool().Draw(rt, "objects") {
					now.Objections[seen.Pods[i].UID] = gang.Objection{Message: "no", Anywhere: rapid.Bool().Draw(rt, "anywhere")}
				}
				l.objected(now)
				l.stuckGangs(now)
			},
			"requeued": func(*rapid.T) { l.requeued(seen, gangs) },
			"evicted":  func(rt *rapid.T) { _, r := draw(rt); l.evicted(seen, r.Pod) },
			"begun":    func(rt *rapid.T) { _, r := draw(rt); l.gangBegun([]gang.Release{r}) },
			"again":    func(rt *rapid.T) { _, r := draw(rt); l.gangContinues([]gang.Release{r}) },
			"failed": func(rt *rapid.T) {
				_, r := draw(rt)
				l.notReleased(r, rapid.Bool().Draw(rt, "begun"), rapid.SampledFrom([]error{errors.New("no"), provider.ErrElsewhere}).Draw(rt, "why"))
			},
			"given back": func(*rapid.T) { l.restGivenBack(seen.Pods, gangs) },
			"later":      func(*rapid.T) { b.pass(40 * time.Second) },
			"": func(rt *rapid.T) {
				if n := b.empties(); n > 0 {
					rt.Fatalf("there are %d empty records", n)
				}
				for id := range l.pods.byID {
					if gone[types.UID(id)] {
						rt.Fatalf("%s is gone, and remembered: %+v", id, l.pods.of(id))
					}
				}
				for id, r := range l.pods.refused {
					if l.pods.byID[id] != r || !r.refused() {
						rt.Fatalf("%s is listed as refused: %+v", id, l.pods.of(id))
					}
				}
			},
		})
		for _, pod := range o.Pods {
			b.s.podGone(pod)
		}
		if n := len(l.pods.byID) + len(l.pods.refused); n > 0 {
			rt.Errorf("%d pods are remembered for ever", n)
		}
	})
}

// Of a pod that is bound, and that nothing more is to happen to, nothing is remembered.
func TestNothingIsRememberedOfABoundPod(t *testing.T) {
	b := newIdleBench(t)
	o := asking(5, 2, 0)
	b.s.podSet(nil, o.Pods[0])
	if d := b.decide(o); len(d.releases) != 2 || len(b.s.ledger.pods.byID) != 2 {
		t.Fatalf("%d releases, %d records", len(d.releases), len(b.s.ledger.pods.byID))
	}
	for _, pod := range o.Pods {
		opened(pod, "g5-gang", map[string]string{"z": "z", "r": "a"})
		b.s.podSet(nil, pod)
		pod.Spec.NodeName = b.nodeOf(pod)
		b.s.podSet(nil, pod)
	}
	if n := len(b.s.ledger.pods.byID); n > 0 {
		t.Errorf("%d records are left: %+v", n, b.s.ledger.pods.byID)
	}
}
