// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/crash"
	"github.com/trellis-k8s/trellis/test/testutil/quotas"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// limited is a namespace with a ResourceQuota, an operator of its own, and worlds whose deployments it counts.
type limited struct {
	ctx    context.Context
	ns     string
	under  string
	worlds []*world
}

func newLimited(ctx context.Context, under, what string) *limited {
	GinkgoHelper()
	q := &limited{ctx: ctx, ns: "turns-" + under + "-" + what, under: under}
	made(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: q.ns}})
	_, stop := operateIn(q.ns, &crash.Saboteur{Name: q.ns, Ledger: &crash.Ledger{}})
	DeferCleanup(stop)
	quotas.Count(restConfig)
	return q
}

func (q *limited) limit(gpus string) {
	GinkgoHelper()
	quotas.Limit(q.ctx, typed, q.ns, quotas.GPUs(gpus))
}

// deploy creates a deployment whose replicas have two pods of 8 GPUs each, with room for three of them.
func (q *limited) deploy(name string, replicas int32) *world {
	GinkgoHelper()
	w := newWorldIn(q.ctx, q.ns, q.ns+"-"+name, racks(2, 8, "a/r0", "a/r1", "a/r2")...)
	if undertakings[q.under].sets {
		w.sets = &lwsWorld{ctx: q.ctx, ns: q.ns, selector: render.LabelGraph + "=" + w.name}
	}
	w.deploy(undertakings[q.under].provider, "", "", components{"Worker": worker(replicas, 2, 8, "rack")})
	q.worlds = append(q.worlds, w)
	return w
}

// until looks again and again, and plays in all worlds what does not run here, until nothing is amiss.
func (q *limited) until(what string, look func() error) {
	GinkgoHelper()
	Eventually(q.ctx, func() error {
		for _, w := range q.worlds {
			if err := w.act(); err != nil {
				return err
			}
		}
		return look()
	}).WithPolling(betweenLooks).Should(Succeed(), "waiting until "+what)
}

// gangs are the replicas that exist, each with the number of its pods, such as "g-0:2".
func (q *limited) gangs() string {
	GinkgoHelper()
	pods := &corev1.PodList{}
	Expect(typed.List(q.ctx, pods, ctrlclient.InNamespace(q.ns))).To(Succeed())
	counts := map[string]int{}
	for i := range pods.Items {
		if pod := &pods.Items[i]; pod.DeletionTimestamp == nil {
			counts[strings.TrimPrefix(pod.Labels[render.LabelGraph], q.ns+"-")+"-"+pod.Labels[render.LabelReplica]]++
		}
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		out = append(out, fmt.Sprintf("%s:%d", name, counts[name]))
	}
	return strings.Join(out, " ")
}

// holds waits until these replicas exist, and a deployment has words in its condition Ready.
func (q *limited) holds(want string, w *world, words string) {
	GinkgoHelper()
	q.until("the replicas are "+want, func() error {
		if !slices.ContainsFunc(w.dgd().Status.Conditions, func(c metav1.Condition) bool { return c.Type == "Ready" && strings.Contains(c.Message, words) }) {
			return fmt.Errorf("%s has %+v, want %q; the replicas are %s", w.name, w.dgd().Status.Conditions, words, q.gangs())
		}
		if got := q.gangs(); got != want {
			return fmt.Errorf("they are %s", got)
		}
		return nil
	})
}

// holdsWhole waits until so many replicas of two pods exist, and no others, and a deployment has words in its condition Ready. On a slow
// machine a gang may miss its turn, and another one has it.
func (q *limited) holdsWhole(replicas int, w *world, words string) {
	GinkgoHelper()
	q.until(fmt.Sprintf("%d replicas are whole", replicas), func() error {
		if !slices.ContainsFunc(w.dgd().Status.Conditions, func(c metav1.Condition) bool { return c.Type == "Ready" && strings.Contains(c.Message, words) }) {
			return fmt.Errorf("%s has %+v, want %q; the replicas are %s", w.name, w.dgd().Status.Conditions, words, q.gangs())
		}
		got := strings.Fields(q.gangs())
		if len(got) != replicas || slices.ContainsFunc(got, func(one string) bool { return !strings.HasSuffix(one, ":2") }) {
			return fmt.Errorf("they are %v", got)
		}
		return nil
	})
}

// serves waits until so many pods of a deployment run.
func (q *limited) serves(w *world, pods int) {
	GinkgoHelper()
	q.until("all pods run", func() error {
		of := w.of("Worker")
		if len(of) != pods || slices.ContainsFunc(of, func(pod corev1.Pod) bool { return pod.Status.Phase != corev1.PodRunning }) {
			return fmt.Errorf("there are %s", q.gangs())
		}
		return nil
	})
}

const (
	lacksAll = "exceeded quota: q, requested: requests.nvidia.com/gpu=16, used: requests.nvidia.com/gpu=16, limited: requests.nvidia.com/gpu=16"
	lacks    = "exceeded quota: q, requested: requests.nvidia.com/gpu=16"
)

var _ = Describe("Gangs in a namespace with a quota", func() {
	for _, under := range slices.Sorted(maps.Keys(undertakings)) {
		title, labels := undertakings[under].title, Label()
		if under == "kai-sets" {
			labels = suite.Slow // what the others show, together
		}
		It("are created one after the other with "+title+", so that what fits is whole", labels, SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
			q := newLimited(ctx, under, "one")
			q.limit("16")
			w := q.deploy("g", 3)
			q.holdsWhole(1, w, lacksAll)
			q.limit("40")
			q.holdsWhole(2, w, "used: requests.nvidia.com/gpu=32")
			q.serves(w, 4)
		})

		It("of several deployments with "+title+" are created in their order when the quota is raised", labels, SpecTimeout(suite.Timeout()),
			func(ctx SpecContext) {
				q := newLimited(ctx, under, "several")
				q.limit("8")
				var last *world
				for _, name := range []string{"g1", "g2", "g3", "g4"} {
					last = q.deploy(name, 1)
					q.holds("", last, lacks)
				}
				q.limit("40")
				q.holds("g1-0:2 g2-0:2", last, "Worker-0 of "+q.ns+"-g3 waits before it")
				q.limit("64")
				q.until("all are there", func() error {
					if got := q.gangs(); got != "g1-0:2 g2-0:2 g3-0:2 g4-0:2" {
						return errors.New(got)
					}
					return nil
				})
			})

		It("that serve return before further replicas are created, with "+title, labels, SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
			q := newLimited(ctx, under, "serving")
			q.limit("16")
			w := q.deploy("g", 1)
			q.serves(w, 2)
			other := q.deploy("b-other", 1)
			w.scale("Worker", 3)
			q.holds("g-0:2", w, lacksAll)
			q.holds("g-0:2", other, lacksAll)
			for range 3 {
				before := map[types.UID]bool{}
				for _, pod := range w.of("Worker") {
					before[pod.UID] = true
				}
				Expect(typed.Delete(ctx, &w.of("Worker")[1], ctrlclient.GracePeriodSeconds(0))).To(Succeed())
				q.until("the replica is there again, and nothing else", func() error {
					if slices.ContainsFunc(w.of("Worker"), func(pod corev1.Pod) bool { return before[pod.UID] }) || q.gangs() != "g-0:2" {
						return errors.New(q.gangs())
					}
					return nil
				})
				q.serves(w, 2)
			}
		})
	}
})
