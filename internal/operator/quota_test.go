// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
)

// refusals notes when a pod was refused last, as nanoseconds, 0: never.
type refusals struct{ last atomic.Int64 }

func (r *refusals) newClient(config *rest.Config, o client.Options) (client.Client, error) {
	c, err := client.NewWithWatch(config, o)
	if err != nil {
		return nil, err
	}
	return interceptor.NewClient(c, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			err := c.Create(ctx, o, opts...)
			if _, pod := o.(*corev1.Pod); pod && apierrors.IsForbidden(err) {
				r.last.Store(time.Now().UnixNano())
			}
			return err
		},
	}), nil
}

// calm says why the next retry may be less than this long ahead: retries take twice as long each time.
func (r *refusals) calm(gap time.Duration) error {
	last := r.last.Load()
	if last == 0 {
		return errors.New("nothing was refused yet")
	}
	if since := time.Since(time.Unix(0, last)); since < gap {
		return fmt.Errorf("the last refusal was %s ago", since)
	}
	return nil
}

// together is one operator for tests that wait, and therefore run side by side. No other operator runs then: tests that are not parallel end
// before parallel ones go on.
type together struct {
	sync.Mutex
	members  int
	operator *bare
	refusals *refusals
}

var retrying together

// join starts the operator, unless it runs; it runs until the last member's end.
func (o *together) join(t *testing.T) (*bare, *refusals) {
	t.Helper()
	o.Lock()
	defer o.Unlock()
	config := shared.Config(t)
	c, err := client.New(config, client.Options{Scheme: NewScheme()})
	if err != nil {
		t.Fatal(err)
	}
	if o.members++; o.members == 1 {
		o.refusals = &refusals{}
		o.operator = &bare{t: t, config: config, newClient: o.refusals.newClient}
		o.operator.start()
	}
	t.Cleanup(func() {
		o.Lock()
		defer o.Unlock()
		if o.members--; o.members == 0 {
			o.operator.t = t
			o.operator.stop()
		}
	})
	return &bare{t: t, config: config, c: c}, o.refusals
}

// quota sets the limit of pods, also in the status, which nobody else keeps here and the API server goes by.
func (b *bare) quota(namespace string, pods string) {
	b.t.Helper()
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "q"}}
	err := b.c.Get(b.t.Context(), client.ObjectKeyFromObject(q), q)
	q.Spec.Hard = corev1.ResourceList{corev1.ResourcePods: resource.MustParse(pods)}
	if apierrors.IsNotFound(err) {
		b.must(b.c.Create(b.t.Context(), q))
	} else {
		b.must(err)
		b.must(b.c.Update(b.t.Context(), q))
	}
	if q.Status.Used == nil {
		q.Status.Used = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}
	}
	q.Status.Hard = q.Spec.Hard
	b.must(b.c.Status().Update(b.t.Context(), q))
}

// A quota refuses pods for so long that the next retry is far away. It is raised: they are created at once.
func TestQuotaIsRaised(t *testing.T) {
	const soon, far = 6 * time.Second, 13 * time.Second
	t.Parallel()
	b, r := retrying.join(t)
	namespace := newNamespace(t, b.c)
	b.quota(namespace, "1")
	dgd := deployment(namespace, graphs.Services{"Frontend": graphs.Frontend(3)})
	b.must(b.c.Create(t.Context(), dgd))
	b.until("the next retry is far away", 2*time.Minute, func() error { return r.calm(far) }) // 5.12 seconds, 10.24, 20.48
	if n := len(b.pods(namespace)); n != 1 {
		t.Errorf("there are %d pods, want 1", n)
	}
	b.quota(namespace, "10")
	b.until("all pods are there", soon, func() error {
		if n := len(b.pods(namespace)); n != 3 {
			return fmt.Errorf("there are %d", n)
		}
		return nil
	})
}

// A Service of somebody else has the name of a graph's. It goes: the graph's is made at once.
func TestServiceInTheWayGoes(t *testing.T) {
	t.Parallel()
	b, _ := retrying.join(t)
	namespace := newNamespace(t, b.c)
	other := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "g-frontend"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	b.must(b.c.Create(t.Context(), other))
	dgd := deployment(namespace, graphs.Services{"Frontend": graphs.Frontend(1)})
	b.must(b.c.Create(t.Context(), dgd))
	since := time.Now()
	b.until("it has failed for so long that the next retry is far away", 2*time.Minute, func() error {
		b.must(b.c.Get(t.Context(), client.ObjectKeyFromObject(dgd), dgd))
		if dgd.Status.State != nvidiav1alpha1.StateFailed {
			return errors.New("it has not failed")
		}
		if lapsed := time.Since(since); lapsed < 22*time.Second { // retries came after 20.4 seconds, and come after 40.9
			return fmt.Errorf("it has failed for %s", lapsed)
		}
		return nil
	})
	b.must(b.c.Delete(t.Context(), other))
	b.until("the Service is the graph's", 6*time.Second, func() error {
		err := b.c.Get(t.Context(), client.ObjectKeyFromObject(other), other)
		if err == nil && !metav1.IsControlledBy(other, dgd) {
			return fmt.Errorf("its owners are %v", other.OwnerReferences)
		}
		return err
	})
}
