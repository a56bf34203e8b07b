// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/render"
)

// opening is a placer whose releases are seen, and bound, at once, but for those of one pod, which fail.
type opening struct {
	objecting
	b       *bench
	failing string
	err     error
	// unbound is the name of a pod that is released and not bound.
	unbound string
	// form is why no gang can be formed.
	form error
}

func (p *opening) Form(context.Context, gang.Members) error { return p.form }

func (p *opening) Objections(context.Context, client.Reader, []*corev1.Pod, []*corev1.Pod) map[types.UID]gang.Objection {
	return nil
}

func (p *opening) Release(_ context.Context, pod *corev1.Pod, pin gang.Pin) error {
	if pod.Name == p.failing {
		return p.err
	}
	for _, o := range p.b.s.objects.reader.(graphs) {
		for _, own := range o.Pods {
			if own.UID == pod.UID {
				opened(own, pin.Gang, pin.Labels)
				p.b.s.ledger.mu.Lock()
				if own.Name != p.unbound {
					own.Spec.NodeName = p.b.nodeOf(own)
				}
				p.b.s.ledger.mu.Unlock()
				p.b.s.podSet(nil, own)
			}
		}
	}
	return nil
}

func opened(pod *corev1.Pod, gang string, labels map[string]string) {
	pod.Spec.SchedulingGates, pod.Annotations, pod.Spec.NodeSelector = nil, map[string]string{render.AnnotationGang: gang}, labels
}

// newOpening is a loop with one free rack and a graph that asks for both hosts of it.
func newOpening(t *testing.T) (*bench, *opening, gang.Observation) {
	b := newBench(t, Options{RequeueAfter: 30 * time.Second})
	b.taken("b0", "b1")
	p, o := &opening{b: b}, asking(2, 2, 0)
	b.s.objects.reader, b.s.providers = graphs{"g2": o}, provider.New(provider.Options{}, provider.All{Placers: []provider.Placer{p}})
	b.s.queue.add(clientKey(o))
	return b, p, o
}

// settle looks at all that is due, until no release is under way.
func (b *bench) settle() (plans int) {
	plans = b.look()
	synctest.Wait()
	return plans
}

// The first pod of a gang is released, and the release of the second one fails once. Its host stays its own until it is tried again, unless it has
// no use for it.
func TestAGangThatHasBegunKeepsItsCapacity(t *testing.T) {
	for name, tc := range map[string]struct {
		failing string
		err     error
		want    string
	}{
		"nothing is released":        {"g2-work-0-0", errors.New("timeout"), "rack a"},
		"the rest fails":             {"g2-work-0-1", errors.New("timeout"), "holds 0 of 1"},
		"the rest is gone":           {"g2-work-0-1", provider.ErrPodGone, "rack a"},
		"another leader released it": {"g2-work-0-1", provider.ErrElsewhere, "rack a"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, p, o := newOpening(t)
				p.failing, p.err = tc.failing, tc.err
				b.settle()
				b.expect("a graph that waits", asking(3, 1, 0), tc.want)
				if tc.want == "rack a" {
					return
				}
				p.failing = ""
				b.pass(retryAfter)
				b.settle()
				if render.GateClosed(o.Pods[1]) || o.Pods[0].Annotations[render.AnnotationGang] != o.Pods[1].Annotations[render.AnnotationGang] {
					t.Error("the second try did not release the rest with its gang")
				}
				if n := b.count(func(r *released) bool { return r.begun || r.failed || r.releasing }); n > 0 {
					t.Errorf("%d entries are left", n)
				}
			})
		})
	}
}

// The capacity that was kept is given back when the second try finds that it will not do.
func TestTheSecondTryGivesBackWhatWillNotDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, p, o := newOpening(t)
		p.failing, p.err = "g2-work-0-1", errors.New("timeout")
		b.settle()
		b.host(b.nodeOf(o.Pods[1]), "elsewhere", 1)
		b.pass(retryAfter)
		b.settle()
		b.expect("a graph that waits", asking(3, 1, 0), "rack elsewhere")
	})
}

func (b *bench) nodeOf(pod *corev1.Pod) string {
	node, _ := b.s.ledger.cluster.Reserved(string(pod.UID))
	return node
}

// The operator was started again in the middle of a release: no one is planned onto the hosts of the rest.
func TestTheRestOfAGangIsRecovered(t *testing.T) {
	b, _, o := newOpening(t)
	opened(o.Pods[0], "g2-gang", map[string]string{"z": "z", "r": "a"})
	if err := b.s.recoverAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.expect("an older graph", asking(1, 1, 0), "holds 0 of 1")
	if d := b.decide(o); len(d.releases) != 1 || d.releases[0].Pin.Gang != "g2-gang" {
		t.Errorf("released are %v, waiting %v", d.releases, d.result.Waiting)
	}
}

// A gang of which a part is bound, and the rest refused, is evicted. One that was whole, and lost a member, is not.
func TestAGangThatWasNeverWholeIsEvicted(t *testing.T) {
	second := metav1.Time{Time: begin.Add(time.Second)}
	for name, tc := range map[string]struct {
		edit func(bound, gated *corev1.Pod)
		want int
	}{
		"never whole":                     {func(*corev1.Pod, *corev1.Pod) {}, 1},
		"released and not bound":          {func(bound, _ *corev1.Pod) { bound.Spec.NodeName = "" }, 1},
		"a member was lost":               {func(_, gated *corev1.Pod) { gated.CreationTimestamp = second }, 0},
		"bound, and it is not known when": {func(bound, _ *corev1.Pod) { bound.Status.Conditions = nil }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			b, p, o := newOpening(t)
			b.taken("a1")
			opened(o.Pods[0], "g2-gang", map[string]string{"z": "z", "r": "a"})
			o.Pods[0].Spec.NodeName = "a0"
			o.Pods[0].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Time{Time: begin}}}
			o.Pods[1].CreationTimestamp = metav1.Time{Time: begin}
			tc.edit(o.Pods[0], o.Pods[1])
			b.s.podSet(nil, o.Pods[0])
			b.look()
			b.pass(29 * time.Second)
			if b.look(); len(p.taken) > 0 {
				t.Fatal("evicted before its time")
			}
			b.pass(time.Second)
			if b.look(); len(p.taken) != tc.want {
				t.Errorf("%v is evicted", p.taken)
			}
		})
	}
}

// A webhook refuses the release of the rest of a gang permanently: what is bound of it does not keep its capacity permanently.
func TestAGangWhoseRestIsNeverReleasedIsEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, p, o := newOpening(t)
		p.failing, p.err = "g2-work-0-1", errors.New("denied by a policy")
		b.settle()
		for _, pod := range o.Pods {
			pod.CreationTimestamp = metav1.Time{Time: begin}
		}
		o.Pods[0].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Time{Time: begin}}}
		for len(p.taken) == 0 && b.clock.Since(begin) < time.Hour {
			b.pass(time.Second)
			b.settle()
		}
		waited, least := b.clock.Since(begin), servedPatience*b.s.options.RequeueAfter
		if waited < least || waited > least+lastRetry || len(p.taken) != 1 || p.taken[0] != "g2-work-0-0" {
			t.Errorf("evicted after %s: %v", waited, p.taken)
		}
		if _, pauses := b.s.ledger.backoffs.of(clientKey(o), b.clock.Now()); !pauses {
			t.Error("it is planned again at once")
		}
	})
}

// A pod of an evicted gang may take long to end. Its graph is planned meanwhile.
func TestAnEvictedPodThatDoesNotEndKeepsNoOneWaiting(t *testing.T) {
	b, p, o := newOpening(t)
	b.taken("a1")
	opened(o.Pods[0], "g2-gang", map[string]string{"z": "z", "r": "a"})
	o.Pods[0].Spec.NodeName = "a0"
	o.Pods[0].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Time{Time: begin}}}
	o.Pods[1].CreationTimestamp = metav1.Time{Time: begin}
	b.s.podSet(nil, o.Pods[0])
	b.look()
	b.pass(30 * time.Second)
	if b.look(); len(p.taken) != 1 {
		t.Fatalf("%v is evicted", p.taken)
	}
	o.Pods[0].DeletionTimestamp = &metav1.Time{Time: b.clock.Now()}
	b.s.podSet(nil, o.Pods[0])
	if gangs, _ := b.s.ledger.stuckGangs(o); len(gangs) > 0 {
		t.Errorf("evicted again: %v", gangs)
	}
}

// A look that makes no plan leaves what the last plan refused: looks of both kinds alternate while a graph changes. The gang whose rest is
// refused is evicted in time.
func TestAPartIsEvictedThoughPlansAreLeftOut(t *testing.T) {
	b, p, o := newOpening(t)
	b.taken("a1")
	opened(o.Pods[0], "g2-gang", map[string]string{"z": "z", "r": "a"})
	b.s.podSet(nil, o.Pods[0])
	other := &trellisv1alpha1.ResolvedTopology{Levels: []trellisv1alpha1.ResolvedLevel{{Domain: "rack", Key: "other"}}}
	for range 31 {
		b.look()
		b.s.ledger.refreshing[clientKey(o)] = other
		b.s.queue.add(clientKey(o))
		b.look()
		delete(b.s.ledger.refreshing, clientKey(o))
		b.s.queue.add(clientKey(o))
		b.pass(time.Second)
	}
	if b.look(); len(p.taken) != 1 {
		t.Errorf("%v is evicted", p.taken)
	}
}

// A part that waits for capacity of its own for a while and gets it is whole.
func TestAPartThatFindsCapacityIsNotEvicted(t *testing.T) {
	b, p, o := newOpening(t)
	b.taken("a1")
	opened(o.Pods[0], "g2-gang", map[string]string{"z": "z", "r": "a"})
	b.s.podSet(nil, o.Pods[0])
	b.look()
	b.pass(29 * time.Second)
	b.gone("a1")
	b.look()
	b.pass(time.Minute)
	if b.look(); len(p.taken) > 0 || b.count(func(r *released) bool { return r.parted.why != "" }) > 0 {
		t.Errorf("evicted %v; %d are noted as parted", p.taken, b.count(func(r *released) bool { return r.parted.why != "" }))
	}
}
