// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/render"
)

// gangReleases are gangs by name. Each pod is "group-ordinal-index", with the domains that it shares after it, and "at=" for when it was created; the
// gang "base" is a base gang, "base*" the rest of one.
func gangReleases(pods ...string) (out []*gangRelease) {
	byName := map[string]*gangRelease{}
	for _, one := range pods {
		fields := strings.Fields(one)
		name := fields[0]
		g := byName[name]
		if g == nil {
			g = &gangRelease{gang: gang.Members{Name: name, Base: name == "base", Graph: &nvidiav1beta1.DynamoGraphDeployment{}}, placer: &recording{}}
			byName[name] = g
			out = append(out, g)
		}
		of := strings.Split(fields[1], "-")
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fields[1], UID: types.UID(fields[1]), Labels: map[string]string{
			render.LabelScalingGroup: of[0], render.LabelReplica: of[1], render.LabelPodIndex: of[2],
		}}}
		r := gang.Release{Pod: pod, Pin: gang.Pin{Gang: name}}
		if name == "base*" {
			r.Rest = true
		}
		for _, field := range fields[2:] {
			if at, is := strings.CutPrefix(field, "at="); is {
				seconds, err := strconv.Atoi(at)
				if err != nil {
					panic(err)
				}
				pod.CreationTimestamp = metav1.Unix(int64(seconds), 0)
				continue
			}
			r.Undecided = append(r.Undecided, field)
		}
		g.pods = append(g.pods, r)
	}
	return out
}

// drawn are steps, each with what follows it in brackets. "!" marks the first of a gang, "*" one that decides a domain of several gangs.
func drawn(steps []*releaseStep) string {
	var out []string
	for _, s := range steps {
		one := s.release.Pod.Name
		if s.first {
			one += "!"
		}
		if s.decides {
			one += "*"
		}
		if len(s.next) > 0 {
			one += "(" + drawn(s.next) + ")"
		}
		out = append(out, one)
	}
	return strings.Join(out, " ")
}

// What is released first decides where others go that have to be with it, and each of them waits for the one that decides the narrowest of its domains.
func TestReleaseOrder(t *testing.T) {
	for name, tc := range map[string]struct {
		pods []string
		want string
	}{
		"gangs that share nothing": {
			[]string{"g1 b-0-0", "g1 b-0-1", "g2 b-1-0", "g2 b-1-1"},
			"b-0-0!(b-0-1) b-1-0!(b-1-1)",
		},
		"a gang begins with its oldest pod": {
			[]string{"g1 b-0-0 at=3", "g1 b-0-1 at=2", "g1 b-0-2 at=2"},
			"b-0-1!(b-0-2 b-0-0)",
		},
		"a component begins with its lowest replica, whatever is older": {
			[]string{"g1 a-2-0 A at=1", "g2 a-10-0 A at=1", "g3 a-1-0 A at=2"},
			"a-1-0!*(a-2-0! a-10-0!)",
		},
		"a graph begins with its base gang, and that with its oldest pod": {
			[]string{"g1 b-1-0 graph at=1", "g1 b-1-1 graph at=1", "base b-0-0 graph at=2", "base b-0-1 graph at=2", "base c-0-0 graph at=1"},
			"c-0-0!*(b-0-0(b-0-1) b-1-0!(b-1-1))",
		},
		"components of a graph have narrower domains": {
			[]string{"base a-0-0 graph A at=1", "base b-0-0 graph at=1", "base b-0-1 graph at=1", "base c-0-0 graph at=0", "g1 a-1-0 graph A", "g2 a-2-0 graph A"},
			"c-0-0!*(a-0-0*(a-1-0! a-2-0!) b-0-0(b-0-1))",
		},
		"the pod that decides the graph decides its component": {
			[]string{"base a-0-0 graph A at=1", "base b-0-0 graph at=2", "g1 a-1-0 graph A at=3"},
			"a-0-0!*(b-0-0 a-1-0!)",
		},
		"the rest of a base gang goes in the same order": {
			[]string{"base* b-0-0 at=1", "base* b-0-1 at=1", "base* a-0-0 A at=3", "base* a-1-0 A at=2", "g1 a-2-0 A at=1"},
			"b-0-0!(b-0-1 a-1-0*(a-0-0 a-2-0!))",
		},
		"first replicas of a component that belong to the base gang": {
			[]string{"base a-0-0 graph A at=2", "base a-1-0 graph A at=1", "g1 a-2-0 graph A at=0"},
			"a-1-0!*(a-0-0 a-2-0!)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				steps := inOrder(gangReleases(tc.pods...))
				if diff := cmp.Diff(tc.want, drawn(steps)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if n := deciders(steps); n != strings.Count(tc.want, "*") {
					t.Errorf("%d of them decide domains", n)
				}
				slices.Reverse(tc.pods)
			}
		})
	}
}

// A graph is not planned while a pod of it is being released that decides a domain, and is afterwards.
func TestNothingIsPlannedWhileADomainIsDecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _, o := newOpening(t)
		b.s.ledger.decides(clientKey(o), 1)
		b.settle()
		if !render.GateClosed(o.Pods[0]) {
			t.Error("the graph was planned meanwhile")
		}
		b.s.queue.wakeUp(b.s.ledger.decided(clientKey(o), 1))
		b.settle()
		if render.GateClosed(o.Pods[0]) || render.GateClosed(o.Pods[1]) {
			t.Error("the graph was not planned afterwards")
		}
	})
}

// holding is a placer whose release of one pod waits.
type holding struct {
	recording
	held string
	let  chan error
}

func (p *holding) Release(ctx context.Context, pod *corev1.Pod, pin gang.Pin) error {
	if pod.Name == p.held {
		if err := <-p.let; err != nil {
			return err
		}
	}
	return p.recording.Release(ctx, pod, pin)
}

// While a pod is being released that decides the domain of others, none of them is released and nothing else of the graph is planned. When it is
// released, they are; when it cannot be, their capacity is given back. Either way the graph is evaluated.
func TestOthersWaitForThePodThatDecides(t *testing.T) {
	for name, tc := range map[string]struct {
		held, before string
		fails        error
		want         string
		kept         int
	}{
		"the first of the graph":                  {"c-0-0", "", nil, "a-0-0 a-1-0 b-0-0 b-0-1 c-0-0", 5},
		"the first of the graph goes elsewhere":   {"c-0-0", "", provider.ErrElsewhere, "", 0},
		"the first of a component":                {"a-0-0", "b-0-0 b-0-1 c-0-0", nil, "a-0-0 a-1-0 b-0-0 b-0-1 c-0-0", 5},
		"that of the component is elsewhere":      {"a-0-0", "b-0-0 b-0-1 c-0-0", provider.ErrElsewhere, "b-0-0 b-0-1 c-0-0", 3},
		"that of the component is gone":           {"a-0-0", "b-0-0 b-0-1 c-0-0", provider.ErrPodGone, "b-0-0 b-0-1 c-0-0", 3},
		"that of a replica is gone":               {"b-0-0", "a-0-0 a-1-0 c-0-0", provider.ErrPodGone, "a-0-0 a-1-0 c-0-0", 4},
		"that of the component cannot be written": {"a-0-0", "b-0-0 b-0-1 c-0-0", context.DeadlineExceeded, "b-0-0 b-0-1 c-0-0", 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, Options{})
				placer := &holding{held: tc.held, let: make(chan error)}
				gangs := gangReleases("base a-0-0 graph A", "base b-0-0 graph", "base b-0-1 graph", "base c-0-0 graph", "g1 a-1-0 graph A")
				graph := types.NamespacedName{Namespace: "ns", Name: "g"}
				for _, g := range gangs {
					g.placer, g.gang.Graph.Namespace, g.gang.Graph.Name = placer, graph.Namespace, graph.Name
					for _, r := range g.pods {
						if r.Pod.Name != "c-0-0" {
							r.Pod.CreationTimestamp = metav1.Unix(1, 0)
						}
						b.s.ledger.pods.begin(r, time.Now())
					}
				}
				released := func() string {
					placer.mu.Lock()
					defer placer.mu.Unlock()
					return strings.Join(slices.Sorted(slices.Values(placer.released)), " ")
				}
				b.s.writers.release(t.Context(), gangs)
				synctest.Wait()
				if got := released(); got != tc.before {
					t.Errorf("released before: %q, want %q", got, tc.before)
				}
				if decides := tc.held != "b-0-0"; b.s.ledger.isDeciding(graph) != decides {
					t.Errorf("the graph is decided about: %v, want %v", !decides, decides)
				}
				placer.let <- tc.fails
				synctest.Wait()
				if got := released(); got != tc.want {
					t.Errorf("released: %q, want %q", got, tc.want)
				}
				if b.s.ledger.isDeciding(graph) {
					t.Error("the graph may not be planned any more")
				}
				if n := b.releasing(); n != tc.kept {
					t.Errorf("the capacity of %d pods is kept, want %d", n, tc.kept)
				}
				b.s.queue.mu.Lock()
				defer b.s.queue.mu.Unlock()
				if _, later := b.s.queue.later[graph]; b.s.queue.due[graph] == nil && !later {
					t.Error("the graph is not evaluated")
				}
			})
		})
	}
}
