// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/operator"
	"github.com/trellis-k8s/trellis/internal/sandbox"
	"github.com/trellis-k8s/trellis/internal/scheduler"
	"github.com/trellis-k8s/trellis/test/testutil/tier"
)

func fromVersion(version string) *metav1.ListOptions {
	return &metav1.ListOptions{ResourceVersion: version}
}

// errDead is what a process that has been killed gets from its next write.
var errDead = errors.New("this operator is dead")

// saboteur counts an operator's writes and kills it at one of them.
type saboteur struct {
	mu   sync.Mutex
	name string
	// at is the write to die at, counted from 1; 0 never. applied: the write reaches the API server and only the answer is lost.
	at      int
	applied bool
	kill    context.CancelFunc
	// provider of the operator's graphs; "" is the operator's default.
	provider string

	writes int
	dead   bool
	what   string
	ledger *ledger
}

// ledger counts the releases of each pod over all lives of an operator.
type ledger struct {
	mu       sync.Mutex
	releases map[types.UID]int
}

func (s *saboteur) write(what string, do func() error) error {
	s.mu.Lock()
	if s.dead {
		s.mu.Unlock()
		return errDead
	}
	s.writes++
	dies := s.writes == s.at
	if dies {
		s.dead, s.what = true, what
	}
	s.mu.Unlock()
	if !dies {
		return do()
	}
	defer s.kill()
	if s.applied {
		_ = do()
	}
	return errDead
}

func (s *saboteur) newClient(config *rest.Config, options client.Options) (client.Client, error) {
	real, err := client.NewWithWatch(config, options)
	if err != nil {
		return nil, err
	}
	name := func(verb string, o client.Object) string { return fmt.Sprintf("%s %T %s", verb, o, o.GetName()) }
	return interceptor.NewClient(real, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return s.write(name("create", o), func() error { return c.Create(ctx, o, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return s.write(name("delete", o), func() error { return c.Delete(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return s.write(name("patch", o), func() error {
				err := c.Patch(ctx, o, patch, opts...)
				if pod, ok := o.(*corev1.Pod); ok && err == nil {
					s.ledger.mu.Lock()
					s.ledger.releases[pod.UID]++
					s.ledger.mu.Unlock()
				}
				return err
			})
		},
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			return s.write("apply", func() error { return c.Apply(ctx, o, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			if _, topology := o.(*grovev1alpha1.ClusterTopology); topology && o.GetName() != s.name {
				return nil // of a neighbour: several operators on one cluster are for this test only
			}
			return s.write(name("patch "+sub+" of", o), func() error { return c.SubResource(sub).Patch(ctx, o, patch, opts...) })
		},
	}), nil
}

// operate runs an operator in this process, for one namespace, until the returned function has ended it.
func operate(t *testing.T, restConfig *rest.Config, namespace string, s *saboteur) (ended <-chan struct{}, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s.kill = cancel
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := operator.Run(ctx, restConfig, operator.Options{
			MetricsAddress: "0", ProbeAddress: "0", Namespace: namespace, WatchNamespaces: []string{namespace}, QPS: 500, Burst: 1000, Provider: s.provider,
			RequeueAfter: 5 * time.Second, HoldFor: scheduler.DefaultHoldFor, NewClient: s.newClient,
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
	whole := &saboteur{name: "crash-never"}
	live(t, e, whole.name, whole)
	total := whole.counted()
	if total < 10 {
		t.Fatalf("the undisturbed run made %d writes", total)
	}
	t.Logf("%d writes", total)
	crashes := crashesOf(total, r.IntN(sampled), sampled)
	if allCrashes {
		crashes = crashesOf(total, 0, 1)
	}
	for _, c := range crashes {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			name := "crash-" + c.String()
			live(t, e, name, &saboteur{name: name, at: c.at, applied: c.applied})
		})
	}
}

// crash is the end of an operator at a write, counted from 1. applied: the write reaches the API server and only the answer is lost.
type crash struct {
	at      int
	applied bool
}

func (c crash) String() string {
	return fmt.Sprintf("%d-%s", c.at, map[bool]string{false: "lost", true: "applied"}[c.applied])
}

// allCrashes says that a crash at every write is tried (make test-faults), not at a part of them.
var allCrashes = os.Getenv("TRELLIS_CRASHES") == "all"

// sampled is the part of all crashes that is tried otherwise: one of so many.
const sampled = 10

// crashesOf are the crashes of an operator that makes total writes, one of so many, from the first.
func crashesOf(total, first, every int) (out []crash) {
	for i := first; i < 2*total; i += every {
		// The second half of the numbers stands for the same writes with only the answer lost.
		out = append(out, crash{at: 1 + i%total, applied: i >= total})
	}
	return out
}

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
func live(t *testing.T, e environment, name string, s *saboteur) {
	w := newWorldIn(t, e, name, racks(2, 8, "a/r0", "b/r0", "b/r1")...)
	restConfig, err := e.cluster.RESTConfig()
	if err != nil {
		t.Fatal(err)
	}
	s.ledger = &ledger{releases: map[types.UID]int{}}
	ended, stop := operate(t, restConfig, name, s)
	defer func() { stop() }()
	revive := func() {
		select {
		case <-ended:
			ended, stop = operate(t, restConfig, name, &saboteur{name: name, ledger: s.ledger})
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
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	for uid, n := range s.ledger.releases {
		if n > 1 {
			t.Errorf("pod %s was released %d times", uid, n)
		}
	}
}

func (w *world) endsWell(s *saboteur, each func()) {
	w.t.Helper()
	w.until("everything is as if nothing had happened", func() error {
		each()
		if got := w.summary(); got != end {
			return fmt.Errorf("after a crash at %q:\n%s\nwant:\n%s", s.what, got, end)
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
