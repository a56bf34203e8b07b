// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
	"github.com/trellis-k8s/trellis/test/testutil/quotas"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// never retries what failed within a test: what happens after a failure is due to an event.
func never(o *Options) { o.retries.First = 24 * time.Hour }

// refusals notes when the API server refused a create last.
type refusals struct{ last atomic.Pointer[time.Time] }

func (r *refusals) newClient(config *rest.Config, o client.Options) (client.Client, error) {
	c, err := client.NewWithWatch(config, o)
	if err != nil {
		return nil, err
	}
	return interceptor.NewClient(c, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			err := c.Create(ctx, o, opts...)
			if apierrors.IsForbidden(err) || apierrors.IsAlreadyExists(err) {
				r.last.Store(ptr.To(time.Now()))
			}
			return err
		},
	}), nil
}

// settled returns an error while the operator may still react to what a failure caused. What happens later has another cause. On a slow machine a spec
// that waits for it detects less, and does not fail.
func settled(failed time.Time) error {
	if since := time.Since(failed); since < 3*time.Second {
		return fmt.Errorf("it failed %s ago", since)
	}
	return nil
}

// quota limits the pods of a namespace.
func (b *bare) quota(namespace string, pods string) {
	GinkgoHelper()
	quotas.Enforce(b.ctx, b.c, &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "q"}, Spec: corev1.ResourceQuotaSpec{
		Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse(pods)},
	}})
}

var _ = Describe("Pods that a quota refuses", func() {
	It("are created when it is raised, however far away the next retry is", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		r := &refusals{}
		b := newBareWith(ctx, r.newClient, never)
		namespace := newNamespace(b.c)
		b.quota(namespace, "1")
		dgd := deployment(namespace, graphs.Components{"Frontend": graphs.Frontend(3)})
		Expect(b.c.Create(ctx, dgd)).To(Succeed())
		b.holds(namespace, "g-frontend-0:1", map[string]string{"g": "exceeded quota"})
		b.quota(namespace, "10")
		b.until("all pods are there", func() error {
			if n := len(b.pods(namespace)); n != 3 {
				return fmt.Errorf("there are %d", n)
			}
			return nil
		})
		Expect(r.last.Load()).To(BeNil(), "a create was refused")
	})
})

var _ = Describe("A Service of another that has the name of a graph's", func() {
	It("is reported, and the graph's is created when it is gone, however far away the next retry is", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		b := newBareWith(ctx, client.New, never)
		namespace := newNamespace(b.c)
		other := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "g-frontend"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
		Expect(b.c.Create(ctx, other)).To(Succeed())
		dgd := deployment(namespace, graphs.Components{"Frontend": graphs.Frontend(1)})
		Expect(b.c.Create(ctx, dgd)).To(Succeed())
		b.until("the deployment has failed", func() error {
			Expect(b.c.Get(ctx, client.ObjectKeyFromObject(dgd), dgd)).To(Succeed())
			if dgd.Status.State != nvidiav1alpha1.StateFailed {
				return fmt.Errorf("its state is %q", dgd.Status.State)
			}
			return nil
		})
		failed := time.Now()
		b.until("what the failure causes is over", func() error { return settled(failed) })
		Expect(b.c.Delete(ctx, other)).To(Succeed())
		b.until("the Service is the graph's", func() error {
			err := b.c.Get(ctx, client.ObjectKeyFromObject(other), other)
			if err == nil && !metav1.IsControlledBy(other, dgd) {
				return fmt.Errorf("its owners are %v", other.OwnerReferences)
			}
			return err
		})
	})
})
