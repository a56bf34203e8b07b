// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/hack/sandbox/peers"
	"github.com/trellis-k8s/trellis/internal/quota"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// Environment variables: the number of steps of a life, and the seed that repeats a life.
const (
	stepsVariable = "TRELLIS_KUEUE_STEPS"
	seedVariable  = "TRELLIS_KUEUE_SEED"
	defaultSteps  = 40
)

// number reads an environment variable.
func number(variable string, otherwise uint64) uint64 {
	GinkgoHelper()
	n, err := strconv.ParseUint(cmp.Or(os.Getenv(variable), fmt.Sprint(otherwise)), 10, 64)
	Expect(err).NotTo(HaveOccurred(), variable)
	return n
}

// observer follows the pods of a hall's teams, in the order of their changes.
type observer struct {
	teams map[string]*team
	mu    sync.Mutex
	pods  map[client.ObjectKey]*corev1.Pod
	// wrong is the first violation.
	wrong string
}

// observe checks every state of the pods until the spec ends.
func (h *hall) observe() *observer {
	GinkgoHelper()
	o := &observer{teams: map[string]*team{}, pods: map[client.ObjectKey]*corev1.Pod{}}
	for _, t := range h.teams {
		o.teams[t.namespace] = t
	}
	ctx, cancel := context.WithCancel(h.ctx)
	DeferCleanup(cancel)
	changes, err := api.Watch(ctx, &corev1.PodList{})
	Expect(err).NotTo(HaveOccurred())
	go func() {
		for event := range changes.ResultChan() {
			o.look(event)
		}
	}()
	return o
}

// look records one change, and checks that the running pods never exceed the quota of all teams, and that each has a Workload.
func (o *observer) look(event watch.Event) {
	pod, is := event.Object.(*corev1.Pod)
	if !is || o.teams[pod.Namespace] == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if event.Type == watch.Deleted {
		delete(o.pods, client.ObjectKeyFromObject(pod))
		return
	}
	o.pods[client.ObjectKeyFromObject(pod)] = pod
	var all []corev1.Pod
	for _, one := range o.pods {
		all = append(all, *one)
	}
	limit := int64(0)
	for _, t := range o.teams {
		limit += t.gpus
	}
	switch sum := bound(all); {
	case o.wrong != "":
	case sum > limit:
		o.wrong = fmt.Sprintf("when %s changed, %d GPUs were in use of a quota of %d", pod.Name, sum, limit)
	case pod.Spec.NodeName != "" && (quota.WorkloadOf(pod) == "" || quota.Held(pod)):
		o.wrong = fmt.Sprintf("pod %s runs without a Workload, or with Kueue's gate", pod.Name)
	}
}

// found returns the first violation.
func (o *observer) found() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.wrong
}

// life takes random steps.
type life struct {
	*hall
	random    *rand.Rand
	low, high string
	made      int
}

func (l *life) pick(from []string) string { return from[l.random.IntN(len(from))] }

// step makes one change to one team's deployments, and returns its description.
func (l *life) step() string {
	GinkgoHelper()
	t := l.teams[l.random.IntN(len(l.teams))]
	names := t.names()
	if len(names) == 0 || len(names) < 3 && l.random.IntN(3) == 0 {
		l.made++
		name, replicas, pods := fmt.Sprintf("g%d", l.made), 1+l.random.Int32N(2), 1+l.random.Int32N(hostsPerRack)
		class := l.pick([]string{l.low, l.high})
		of := withPriority(class, services{"Worker": graphs.Worker(replicas, pods, gpusPerHost, "rack"), "Frontend": graphs.Frontend(1)})
		t.create(t.graph(name, of))
		return fmt.Sprintf("%s/%s: %d replicas of %d pods, priority %s", t.namespace, name, replicas, pods, class)
	}
	name := l.pick(names)
	switch l.random.IntN(6) {
	case 0:
		t.remove(name)
		return fmt.Sprintf("%s/%s is deleted", t.namespace, name)
	case 1:
		pods := t.pods()
		if len(pods) > 0 {
			pod := pods[l.random.IntN(len(pods))]
			t.answered(func() error { return client.IgnoreNotFound(api.Delete(l.ctx, &pod)) })
			return fmt.Sprintf("pod %s/%s is lost", t.namespace, pod.Name)
		}
		fallthrough
	case 2:
		t.patch(name, fmt.Sprintf(`{"spec":{"restart":{"id":"%d"}}}`, l.random.Uint32()))
		return fmt.Sprintf("%s/%s is restarted", t.namespace, name)
	default:
		replicas := l.random.IntN(4)
		if t.dgd(name).Spec.Services["Worker"].Multinode == nil {
			replicas = min(replicas, hostsPerRack) // replicas of one pod share a rack: more replicas would get quota but no place
		}
		t.scale(name, "Worker", replicas)
		return fmt.Sprintf("%s/%s has %d replicas", t.namespace, name, replicas)
	}
}

// kill kills Kueue, the operator or both, at a random moment after a step, and starts them again.
func (l *life) kill() {
	GinkgoHelper()
	kueue, operator := l.random.IntN(3) > 0, l.random.IntN(3) > 0
	GinkgoWriter.Printf("    Kueue is killed: %v, the operator: %v\n", kueue, operator)
	if kueue {
		Expect(cluster.KillProgram(l.ctx, peers.KueueProgram)).To(Succeed())
	}
	if operator {
		Expect(cluster.KillManager(l.ctx, "")).To(Succeed())
		l.startManager()
	}
	if kueue {
		Expect(cluster.RestartProgram(l.ctx, peers.KueueProgram)).To(Succeed())
	}
}

var _ = Describe("Two teams that lend each other quota", Serial, suite.Faults, func() {
	It("have no partial gang and no quota that nothing uses, whatever happens", func(ctx SpecContext) {
		steps, seed := number(stepsVariable, defaultSteps), number(seedVariable, uint64(GinkgoRandomSeed()))
		AddReportEntry("the life", fmt.Sprintf("%s=%d %s=%d", stepsVariable, steps, seedVariable, seed))
		h := newHall(ctx, 4)
		h.newTeam("a", 16)
		h.newTeam("b", 16)
		l := &life{hall: h, random: rand.New(rand.NewPCG(seed, 0)), low: h.priority(100), high: h.priority(200)}
		o := h.observe()
		start := time.Now()
		for n := range steps {
			GinkgoWriter.Printf("step %d after %s: %s\n", n+1, time.Since(start).Round(time.Second), l.step())
			if l.random.IntN(5) == 0 {
				l.kill()
			}
			h.settle()
			Expect(o.found()).To(BeEmpty())
		}
		for _, t := range h.teams {
			for _, name := range t.names() {
				t.remove(name)
			}
		}
		for _, t := range h.teams {
			t.until("no quota is in use in "+t.namespace, func() error { return t.uses(0) })
		}
		Expect(o.found()).To(BeEmpty())
	}, SpecTimeout(10*suite.Timeout()))
})
