// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/scheduler"
	"github.com/trellis-k8s/trellis/test/rights"
)

// boundless is the API server without bounds, and operators that bound pods themselves.
type boundless struct {
	ctx     context.Context
	config  *rest.Config
	c       client.Client
	creates atomic.Int64
}

func newBoundless(ctx context.Context) *boundless {
	GinkgoHelper()
	b := &boundless{ctx: ctx, config: rest.CopyConfig(shared)}
	var err error
	b.c, err = client.New(b.config, client.Options{Scheme: NewScheme()})
	Expect(err).NotTo(HaveOccurred())
	return b
}

// operate runs an operator until the returned function has ended it, or the spec is over.
func (b *boundless) operate(maxPods int64) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- Run(ctx, rights.Of("operator").Record(b.config, "default"), Options{
			MetricsAddress: "0", ProbeAddress: "0", Namespace: "default", QPS: 500, Burst: 1000, Provider: specs.Auto, MaxPodsPerGraph: maxPods,
			RequeueAfter: scheduler.DefaultRequeueAfter, HoldFor: scheduler.DefaultHoldFor, ReserveDomainAfter: -1, ReserveDomainFor: time.Minute,
			NewClient: func(config *rest.Config, o client.Options) (client.Client, error) {
				c, err := client.NewWithWatch(config, o)
				if err != nil {
					return nil, err
				}
				return interceptor.NewClient(c, interceptor.Funcs{
					Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
						if _, pod := o.(*corev1.Pod); pod {
							b.creates.Add(1)
						}
						return c.Create(ctx, o, opts...)
					},
				}), nil
			},
		})
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		Expect(<-done).To(Succeed(), "the operator ended")
	})
	DeferCleanup(stop)
	return stop
}

// graph stores a deployment of one component in a namespace of its own.
func (b *boundless) graph(replicas int32, multinode *nvidiav1alpha1.MultinodeSpec) *nvidiav1alpha1.DynamoGraphDeployment {
	GinkgoHelper()
	return b.graphIn(newNamespace(b.c), replicas, multinode)
}

func (b *boundless) graphIn(namespace string, replicas int32, multinode *nvidiav1alpha1.MultinodeSpec) *nvidiav1alpha1.DynamoGraphDeployment {
	GinkgoHelper()
	dgd := &nvidiav1alpha1.DynamoGraphDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "g"},
		Spec: nvidiav1alpha1.DynamoGraphDeploymentSpec{Services: map[string]*nvidiav1alpha1.ServiceSpec{"work": {
			Replicas: ptr.To(replicas), Multinode: multinode,
			ExtraPodSpec: &nvidiav1alpha1.ExtraPodSpec{MainContainer: &corev1.Container{Image: "example.com/x:1", Command: []string{"sleep"}}},
		}}},
	}
	Expect(b.c.Create(b.ctx, dgd)).To(Succeed())
	return dgd
}

func (b *boundless) until(what string, look func(ctx context.Context) error) {
	GinkgoHelper()
	Eventually(b.ctx, look).WithPolling(betweenLooks).Should(Succeed(), "waiting until "+what)
}

// says waits for a condition False of a deployment with this reason and text.
func (b *boundless) says(dgd *nvidiav1alpha1.DynamoGraphDeployment, kind, reason, text string) {
	GinkgoHelper()
	b.until(kind+" says "+text, func(ctx context.Context) error {
		if err := b.c.Get(ctx, client.ObjectKeyFromObject(dgd), dgd); err != nil {
			return err
		}
		c := meta.FindStatusCondition(dgd.Status.Conditions, kind)
		if c == nil || c.Status != metav1.ConditionFalse || c.Reason != reason || !strings.Contains(c.Message, text) {
			return fmt.Errorf("it is %+v", c)
		}
		return nil
	})
}

func (b *boundless) pods(namespace string) int {
	GinkgoHelper()
	pods := &metav1.PartialObjectMetadataList{}
	pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	Expect(b.c.List(b.ctx, pods, client.InNamespace(namespace))).To(Succeed())
	return len(pods.Items)
}

func (b *boundless) hasPods(namespace string, want int) {
	GinkgoHelper()
	b.until(fmt.Sprintf("%s has %d pods", namespace, want), func(context.Context) error {
		if got := b.pods(namespace); got != want {
			return fmt.Errorf("there are %d", got)
		}
		return nil
	})
}

// heap is the memory that the heap has taken from the system, which is its peak.
func heap() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapSys)
}

// reconciles is how often a controller has looked so far.
func reconciles(controller string) (n float64) {
	GinkgoHelper()
	families, err := metrics.Registry.Gather()
	Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		for _, m := range family.Metric {
			for _, label := range m.Label {
				if family.GetName() == "controller_runtime_reconcile_total" && label.GetName() == "controller" && label.GetValue() == controller {
					n += m.Counter.GetValue()
				}
			}
		}
	}
	return n
}
