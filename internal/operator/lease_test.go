// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/leader"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/scheduler"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// replica is an operator that takes part in the leader election, with a clock of its own as far as its lease shows: the times that it writes into
// the lease are ahead of the real ones.
type replica struct {
	mu sync.Mutex
	// ahead may be negative; written counts the accepted writes of the lease; cut: the API server cannot be reached.
	ahead   time.Duration
	written int
	cut     bool
	// paused: requests about the lease wait. reads are those of the lease, and others the writes of other objects, since forget.
	paused bool
	reads  int
	others []string
	// skipped is how far the clock is ahead by which the lease expires.
	skipped time.Duration
	// ended gets what the operator ends with.
	ended chan error
	stop  context.CancelFunc
}

func (r *replica) set(ahead time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ahead = ahead
}

func (r *replica) disconnect() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut = true
}

func (r *replica) writes() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.written
}

// forget forgets requests.
func (r *replica) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reads, r.others = 0, nil
}

// pause has requests about the lease wait, and the clock skip a time, as if the process were stopped for so long.
func (r *replica) pause(skipped time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.paused, r.skipped, r.reads, r.others = true, skipped, 0, nil
}

// Now implements [clock.PassiveClock].
func (r *replica) Now() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Now().Add(r.skipped)
}

// Since implements [clock.PassiveClock].
func (r *replica) Since(at time.Time) time.Duration { return r.Now().Sub(at) }

// seen returns what was requested since forget.
func (r *replica) seen() (reads int, others []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reads, slices.Clone(r.others)
}

// note keeps a request that is not a write of the lease, and reports whether the request waits.
func (r *replica) note(request *http.Request) (waits bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	lease, read := strings.Contains(request.URL.Path, "/leases"), request.Method == http.MethodGet
	switch {
	case lease && read:
		r.reads++
	case !lease && !read:
		r.others = append(r.others, request.Method+" "+request.URL.Path)
	}
	return lease && r.paused
}

// runReplica starts an operator for one namespace.
func runReplica(config *rest.Config, namespace string) *replica {
	r := &replica{ended: make(chan error, 1)}
	config = rest.CopyConfig(config)
	config.ContentType, config.AcceptContentTypes = "application/json", "application/json"
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return tripper(func(request *http.Request) (*http.Response, error) { return r.pass(next, request) })
	})
	ctx, cancel := context.WithCancel(context.Background())
	r.stop = cancel
	go func() {
		r.ended <- Run(ctx, config, Options{
			MetricsAddress: "0", ProbeAddress: "0", Namespace: namespace, WatchNamespaces: []string{namespace}, QPS: 500, Burst: 1000, Provider: specs.Auto,
			LeaderElect: true, RequeueAfter: scheduler.DefaultRequeueAfter, HoldFor: scheduler.DefaultHoldFor, ReserveDomainAfter: -1, NewClient: client.New,
			clock: r,
		})
	}()
	DeferCleanup(cancel)
	return r
}

type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

func (r *replica) pass(next http.RoundTripper, request *http.Request) (*http.Response, error) {
	r.mu.Lock()
	ahead, cut := r.ahead, r.cut
	r.mu.Unlock()
	if cut {
		return nil, errors.New("no route to the API server")
	}
	if r.note(request) {
		<-request.Context().Done()
		return nil, request.Context().Err()
	}
	if request.Method == http.MethodGet || !strings.Contains(request.URL.Path, "/leases") {
		return next.RoundTrip(request)
	}
	lease := &coordinationv1.Lease{}
	if err := json.NewDecoder(request.Body).Decode(lease); err != nil {
		return nil, err
	}
	for _, at := range []**metav1.MicroTime{&lease.Spec.AcquireTime, &lease.Spec.RenewTime} {
		if *at != nil {
			shifted := metav1.NewMicroTime((*at).Add(ahead))
			*at = &shifted
		}
	}
	raw, err := json.Marshal(lease)
	if err != nil {
		return nil, err
	}
	request = request.Clone(request.Context())
	request.Body, request.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
	response, err := next.RoundTrip(request)
	if err == nil && response.StatusCode < http.StatusMultipleChoices {
		r.mu.Lock()
		r.written++
		r.mu.Unlock()
	}
	return response, err
}

var _ = Describe("A leader whose clock jumps", func() {
	It("leads as long as it renews its lease, and no longer, for the standby goes by its own clock", suite.Slow, SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		config := rest.CopyConfig(shared)
		c, err := client.New(config, client.Options{Scheme: NewScheme()})
		Expect(err).NotTo(HaveOccurred())
		namespace, b := newNamespace(c), &bare{ctx: ctx, config: config, c: c}
		leader := runReplica(config, namespace)
		renewed := func(ahead time.Duration) {
			GinkgoHelper()
			leader.set(ahead)
			before := leader.writes()
			b.until("the leader renews its lease", func() error {
				if leader.writes() < before+3 {
					return errors.New("it does not")
				}
				return nil
			})
		}
		renewed(0)
		standby := runReplica(config, namespace)
		for _, ahead := range []time.Duration{0, 24 * time.Hour, -24 * time.Hour, 0, 24 * time.Hour} {
			renewed(ahead)
			Expect(standby.writes()).To(BeZero(), "the standby wrote the lease while the leader renewed it, %s ahead", ahead)
		}
		lease := &coordinationv1.Lease{}
		Expect(c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: leaderElectionID}, lease)).To(Succeed())
		Expect(time.Until(lease.Spec.RenewTime.Time)).To(BeNumerically(">=", 23*time.Hour), "the lease was renewed a day ahead: the spec shifts the times")

		By("the leader loses the API server: it ends, and the standby leads")
		leader.disconnect()
		Eventually(ctx, leader.ended).Should(Receive(MatchError(ContainSubstring("leader election lost"))))
		Expect(c.Create(ctx, &nvidiav1alpha1.DynamoGraphDeployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "g"},
			Spec:       nvidiav1alpha1.DynamoGraphDeploymentSpec{Services: map[string]*nvidiav1alpha1.ServiceSpec{"Worker": graphs.Worker(1, 1, 1, "")}},
		})).To(Succeed())
		b.until("the standby acts", func() error {
			return c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "g-worker"}, &trellisv1alpha1.ScalingGroup{})
		})
		standby.stop()
		Eventually(ctx, standby.ended).Should(Receive(BeNil()))
	})
})

var _ = Describe("A leader", func() {
	oneWorker := func(namespace string) *nvidiav1alpha1.DynamoGraphDeployment {
		return &nvidiav1alpha1.DynamoGraphDeployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "g"},
			Spec:       nvidiav1alpha1.DynamoGraphDeploymentSpec{Services: map[string]*nvidiav1alpha1.ServiceSpec{"Worker": graphs.Worker(1, 1, 1, "")}},
		}
	}
	leads := func(ctx SpecContext) (*replica, *bare, string) {
		GinkgoHelper()
		config := rest.CopyConfig(shared)
		c, err := client.New(config, client.Options{Scheme: NewScheme()})
		Expect(err).NotTo(HaveOccurred())
		namespace, b := newNamespace(c), &bare{ctx: ctx, config: config, c: c}
		former := runReplica(config, namespace)
		b.until("it leads", func() error {
			if former.writes() == 0 {
				return errors.New("it does not")
			}
			return nil
		})
		return former, b, namespace
	}

	It("ends at the first read of its lease that names another holder", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		former, b, namespace := leads(ctx)
		former.forget()
		lease := &coordinationv1.Lease{}
		b.until("another replica takes the lease", func() error {
			if err := b.c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: leaderElectionID}, lease); err != nil {
				return err
			}
			lease.Spec.HolderIdentity, lease.Spec.RenewTime = ptr.To("another"), ptr.To(metav1.NowMicro())
			return b.c.Update(ctx, lease)
		})
		var end error
		Eventually(ctx, former.ended).Should(Receive(&end))
		Expect(end).To(MatchError(ContainSubstring(`leader election lost: the lease is held by "another"`)))
		reads, _ := former.seen()
		Expect(reads).To(Equal(1), "reads of the lease")
		Expect(b.c.Get(ctx, client.ObjectKeyFromObject(lease), lease)).To(Succeed())
		Expect(*lease.Spec.HolderIdentity).To(Equal("another"), "the holder after it has ended")
	})

	It("writes nothing once its last renewal is older than the lease", suite.Slow, SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		former, b, namespace := leads(ctx)
		former.pause(leader.LeaseDuration)
		Expect(b.c.Create(ctx, oneWorker(namespace))).To(Succeed())
		Eventually(ctx, former.ended).Should(Receive(MatchError(ContainSubstring("leader election lost"))))
		_, others := former.seen()
		Expect(others).To(BeEmpty(), "writes of an expired leader")
	})

	It("writes again once it has renewed an expired lease that no other replica took", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		former, b, namespace := leads(ctx)
		former.mu.Lock()
		former.skipped = 24 * time.Hour
		former.mu.Unlock()
		Expect(b.c.Create(ctx, oneWorker(namespace))).To(Succeed())
		b.until("it acts", func() error {
			return b.c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "g-worker"}, &trellisv1alpha1.ScalingGroup{})
		})
		former.stop()
		Eventually(ctx, former.ended).Should(Receive(BeNil()))
	})
})
