// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// refusals notes when a pod was refused last, and the longest time between two refusals.
type refusals struct {
	mu   sync.Mutex
	last time.Time
	gap  time.Duration
}

func (r *refusals) newClient(config *rest.Config, o client.Options) (client.Client, error) {
	c, err := client.NewWithWatch(config, o)
	if err != nil {
		return nil, err
	}
	return interceptor.NewClient(c, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			err := c.Create(ctx, o, opts...)
			if _, pod := o.(*corev1.Pod); pod && apierrors.IsForbidden(err) {
				r.note()
			}
			return err
		},
	}), nil
}

func (r *refusals) note() {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if !r.last.IsZero() {
		r.gap = max(r.gap, now.Sub(r.last))
	}
	r.last = now
}

// nextRetry is when the next one is due: retries take twice as long each time.
func (r *refusals) nextRetry() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last.Add(2 * r.gap)
}

// farApart says why retries are less than this long apart, or one may be under way.
func (r *refusals) farApart(gap time.Duration) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if since := time.Since(r.last); r.gap < gap || since < time.Second {
		return fmt.Errorf("the longest time between two refusals was %s, and the last refusal was %s ago", r.gap, since)
	}
	return nil
}

// quota sets the limit of pods, also in the status, which nobody else keeps here and the API server goes by.
func (b *bare) quota(namespace string, pods string) {
	GinkgoHelper()
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "q"}}
	err := b.c.Get(b.ctx, client.ObjectKeyFromObject(q), q)
	q.Spec.Hard = corev1.ResourceList{corev1.ResourcePods: resource.MustParse(pods)}
	if apierrors.IsNotFound(err) {
		Expect(b.c.Create(b.ctx, q)).To(Succeed())
	} else {
		Expect(err).NotTo(HaveOccurred())
		Expect(b.c.Update(b.ctx, q)).To(Succeed())
	}
	if q.Status.Used == nil {
		q.Status.Used = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}
	}
	q.Status.Hard = q.Spec.Hard
	Expect(b.c.Status().Update(b.ctx, q)).To(Succeed())
}

var _ = Describe("Pods that a quota refuses", func() {
	It("are created at once when it is raised, however far away the next retry is", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		r := &refusals{}
		b := newBareWith(ctx, r.newClient, nil)
		namespace := newNamespace(b.c)
		b.quota(namespace, "1")
		dgd := deployment(namespace, graphs.Services{"Frontend": graphs.Frontend(3)})
		Expect(b.c.Create(ctx, dgd)).To(Succeed())
		b.until("retries are far apart", func() error { return r.farApart(10 * time.Second) }) // after 5.12 seconds, 10.24, 20.48
		Expect(b.pods(namespace)).To(HaveLen(1))
		retry := r.nextRetry()
		b.quota(namespace, "10")
		b.until("all pods are there", func() error {
			if n := len(b.pods(namespace)); n != 3 {
				return fmt.Errorf("there are %d", n)
			}
			return nil
		})
		Expect(time.Now()).To(BeTemporally("<", retry), "they may have been created by a retry")
	})
})

var _ = Describe("A Service of another that has the name of a graph's", func() {
	It("is reported, and the graph's is made at once when it is gone", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		b := newBare(ctx)
		namespace := newNamespace(b.c)
		other := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "g-frontend"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
		Expect(b.c.Create(ctx, other)).To(Succeed())
		dgd := deployment(namespace, graphs.Services{"Frontend": graphs.Frontend(1)})
		Expect(b.c.Create(ctx, dgd)).To(Succeed())
		since := time.Now()
		b.until("it has failed for so long that the next retry is far away", func() error {
			Expect(b.c.Get(ctx, client.ObjectKeyFromObject(dgd), dgd)).To(Succeed())
			if dgd.Status.State != nvidiav1alpha1.StateFailed {
				return errors.New("it has not failed")
			}
			if lapsed := time.Since(since); lapsed < 22*time.Second { // retries came after 20.4 seconds, and come after 40.9
				return fmt.Errorf("it has failed for %s", lapsed)
			}
			return nil
		})
		Expect(b.c.Delete(ctx, other)).To(Succeed())
		b.until("the Service is the graph's", func() error {
			err := b.c.Get(ctx, client.ObjectKeyFromObject(other), other)
			if err == nil && !metav1.IsControlledBy(other, dgd) {
				return fmt.Errorf("its owners are %v", other.OwnerReferences)
			}
			return err
		})
		Expect(time.Since(since)).To(BeNumerically("<", 40*time.Second), "a retry may have made it")
	})
})
