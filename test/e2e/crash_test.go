// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/operator"
	"github.com/trellis-k8s/trellis/internal/sandbox"
	"github.com/trellis-k8s/trellis/internal/scheduler"
	"github.com/trellis-k8s/trellis/test/testutil/crash"
	"github.com/trellis-k8s/trellis/test/testutil/tier"
)

func fromVersion(version string) *metav1.ListOptions {
	return &metav1.ListOptions{ResourceVersion: version}
}

// operate runs an operator in this process, for one namespace, until the returned function has ended it.
func operate(t *testing.T, restConfig *rest.Config, namespace string, s *crash.Saboteur) (ended <-chan struct{}, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s.Kill = cancel
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := operator.Run(ctx, restConfig, operator.Options{
			MetricsAddress: "0", ProbeAddress: "0", Namespace: namespace, WatchNamespaces: []string{namespace}, QPS: 500, Burst: 1000, Provider: s.Provider,
			RequeueAfter: 5 * time.Second, HoldFor: scheduler.DefaultHoldFor, NewClient: s.NewClient,
		})
		if err != nil && ctx.Err() == nil {
			t.Errorf("the operator ended: %v", err)
		}
	}()
	return done, func() { cancel(); <-done }
}

// A crash at any write, with the write lost or only its answer, and a new start end as if nothing had happened. It is tried at a part of the
// writes, spread over all of them; with TRELLIS_CRASHES=all (make test-faults) at every one.
func TestCrashAtEveryWrite(t *testing.T) {
	tier.All(t)
	t.Parallel()
	e := bare(t, sandbox.Gates)
	r := seeded(t)
	whole := &crash.Saboteur{Name: "crash-never"}
	live(t, e, whole.Name, whole)
	total := whole.Counted()
	if total < 10 {
		t.Fatalf("the undisturbed run made %d writes", total)
	}
	t.Logf("%d writes", total)
	crashes := crash.Points(total, r.IntN(sampled), sampled)
	if crash.All {
		crashes = crash.Points(total, 0, 1)
	}
	for _, c := range crashes {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			name := "crash-" + c.String()
			live(t, e, name, &crash.Saboteur{Name: name, Point: c})
		})
	}
}

// sampled is the part of all crashes that is tried otherwise: one of so many.
const sampled = 10

// seeded returns random numbers by TRELLIS_LIFE_SEED, or by a seed that is logged.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := fromEnv("TRELLIS_LIFE_SEED", time.Now().UnixNano())
	t.Logf("TRELLIS_LIFE_SEED=%d", seed)
	return rand.New(rand.NewPCG(uint64(seed), 0))
}

// end is how the scenario ends, however often the operator died.
const end = `condition Placed=True/AllReplicasPlaced
condition ProviderReady=True/ProviderAvailable
condition Ready=True/all_resources_are_ready
condition TopologyLevelsAvailable=True/AllTopologyLevelsAvailable
group g-frontend 1/1/1/1 placements 1
group g-worker 2/2/2/2 placements 2
pod g-frontend-0 in [b]
pod g-worker-0-0 in [b]
pod g-worker-0-1 in [b]
pod g-worker-1-0 in [b]
pod g-worker-1-1 in [b]
service g-frontend
service g-worker
service g-worker-pods
worker 0 in 1 rack
worker 1 in 1 rack`

// live plays the scenario: a graph is created, becomes ready, loses a pod and becomes ready again.
func live(t *testing.T, e environment, name string, s *crash.Saboteur) {
	w := newWorldIn(t, e, name, racks(2, 8, "a/r0", "b/r0", "b/r1")...)
	restConfig, err := e.cluster.RESTConfig()
	if err != nil {
		t.Fatal(err)
	}
	s.Ledger = &crash.Ledger{}
	ended, stop := operate(t, restConfig, name, s)
	defer func() { stop() }()
	revive := func() {
		select {
		case <-ended:
			ended, stop = operate(t, restConfig, name, &crash.Saboteur{Name: name, Ledger: s.Ledger})
		default:
		}
	}
	w.create(w.graphOf("g", "zone", services{"Worker": worker(2, 2, 8, "rack"), "Frontend": frontend(1)}))
	w.endsWell(s, revive)
	before := w.uids()
	w.deletePod("g-worker-0-1")
	w.until("the replica is recreated", func() error {
		revive()
		kept := 0
		for uid := range w.uids() {
			if before[uid] {
				kept++
			}
		}
		if kept != 3 {
			return fmt.Errorf("%d old pods, want 3", kept)
		}
		return nil
	})
	w.endsWell(s, revive)
	for uid, n := range s.Ledger.Repeated() {
		t.Errorf("pod %s was released %d times", uid, n)
	}
}

func (w *world) endsWell(s *crash.Saboteur, each func()) {
	w.t.Helper()
	w.until("everything is as if nothing had happened", func() error {
		each()
		if got := w.summary(); got != end {
			return fmt.Errorf("after a crash at %q:\n%s\nwant:\n%s", s.Died(), got, end)
		}
		return nil
	})
}

// summary is the state of the world without what differs between any two runs (UIDs, times, which of two equal racks).
func (w *world) summary() string {
	var lines []string
	for _, pod := range w.all() {
		lines = append(lines, fmt.Sprintf("pod %s in %s", pod.Name, w.domains("zone", pod)))
	}
	for ordinal, pods := range w.replicasOf("Worker") {
		lines = append(lines, fmt.Sprintf("worker %d in %d rack", ordinal, len(w.domains("rack", pods...))))
	}
	groups := list(w, &trellisv1alpha1.ScalingGroupList{})
	for i := range groups.Items {
		s := &groups.Items[i].Status
		lines = append(lines, fmt.Sprintf("group %s %d/%d/%d/%d placements %d", groups.Items[i].Name, s.Replicas, s.ScheduledReplicas, s.ReadyReplicas, s.UpdatedReplicas, len(s.Placements)))
	}
	kube := list(w, &corev1.ServiceList{})
	for i := range kube.Items {
		lines = append(lines, "service "+kube.Items[i].Name)
	}
	for _, cond := range w.dgd("g").Status.Conditions {
		lines = append(lines, fmt.Sprintf("condition %s=%s/%s", cond.Type, cond.Status, cond.Reason))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
