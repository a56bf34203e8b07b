// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
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
	t       *testing.T
	config  *rest.Config
	c       client.Client
	creates atomic.Int64
}

func newBoundless(t *testing.T) *boundless {
	t.Helper()
	b := &boundless{t: t, config: shared.Config(t)}
	var err error
	b.c, err = client.New(b.config, client.Options{Scheme: NewScheme()})
	b.must(err)
	return b
}

func (b *boundless) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// operate runs an operator until the returned function has ended it.
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
	return func() {
		cancel()
		if err := <-done; err != nil {
			b.t.Errorf("the operator ended: %v", err)
		}
	}
}

// graph stores a deployment of one service in a namespace of its own.
func (b *boundless) graph(replicas int32, multinode *nvidiav1alpha1.MultinodeSpec) *nvidiav1alpha1.DynamoGraphDeployment {
	b.t.Helper()
	return b.graphIn(newNamespace(b.t, b.c), replicas, multinode)
}

func (b *boundless) graphIn(namespace string, replicas int32, multinode *nvidiav1alpha1.MultinodeSpec) *nvidiav1alpha1.DynamoGraphDeployment {
	b.t.Helper()
	dgd := &nvidiav1alpha1.DynamoGraphDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "g"},
		Spec: nvidiav1alpha1.DynamoGraphDeploymentSpec{Services: map[string]*nvidiav1alpha1.ServiceSpec{"work": {
			Replicas: ptr.To(replicas), Multinode: multinode,
			ExtraPodSpec: &nvidiav1alpha1.ExtraPodSpec{MainContainer: &corev1.Container{Image: "example.com/x:1", Command: []string{"sleep"}}},
		}}},
	}
	b.must(b.c.Create(b.t.Context(), dgd))
	return dgd
}

func (b *boundless) until(what string, look func(ctx context.Context) error) {
	b.t.Helper()
	var last error
	if err := wait.PollUntilContextTimeout(b.t.Context(), 50*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		last = look(ctx)
		return last == nil, nil
	}); err != nil {
		b.t.Fatalf("waiting until %s: %v", what, last)
	}
}

// says waits for a condition False of a deployment with this reason and text.
func (b *boundless) says(dgd *nvidiav1alpha1.DynamoGraphDeployment, kind, reason, text string) {
	b.t.Helper()
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
	b.t.Helper()
	pods := &metav1.PartialObjectMetadataList{}
	pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	b.must(b.c.List(b.t.Context(), pods, client.InNamespace(namespace)))
	return len(pods.Items)
}

func (b *boundless) hasPods(namespace string, want int) {
	b.t.Helper()
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
func reconciles(t *testing.T, controller string) (n float64) {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
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
