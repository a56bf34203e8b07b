// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// lagging is a client whose cache has one pod, and which waits for no deletion itself.
type lagging struct {
	client.Client
	mu      sync.Mutex
	pod     *corev1.Pod
	waiting bool
}

func (l *lagging) set(pod *corev1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pod = pod
}

func (l *lagging) Delete(_ context.Context, _ client.Object, opts ...client.DeleteOption) error {
	l.waiting = l.waiting || !(&client.DeleteOptions{}).ApplyOptions(opts).DisableReadYourWritesConsistency
	return nil
}

func (l *lagging) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pod == nil {
		return apierrors.NewNotFound(corev1.Resource("pods"), key.Name)
	}
	l.pod.DeepCopyInto(obj.(*corev1.Pod))
	return nil
}

func (l *lagging) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

// A read waits until the cache shows what was deleted before, whichever way it does, and no longer than once for what it never shows.
func TestReadsWaitForOwnDeletes(t *testing.T) {
	pod := func(uid types.UID) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p", UID: uid}}
	}
	leaving := pod("1")
	leaving.DeletionTimestamp = ptr.To(metav1.Now())
	const late = 3 * time.Second
	list := func(ctx context.Context, c client.Client) error { return c.List(ctx, &corev1.PodList{}) }
	get := func(name string) func(context.Context, client.Client) error {
		return func(ctx context.Context, c client.Client) error {
			return client.IgnoreNotFound(c.Get(ctx, client.ObjectKey{Namespace: "a", Name: name}, &corev1.Pod{}))
		}
	}
	for name, tc := range map[string]struct {
		becomes *corev1.Pod
		read    func(context.Context, client.Client) error
		want    time.Duration
	}{
		"it is gone":                         {nil, list, late},
		"it is recreated":                    {pod("2"), list, late},
		"it is being deleted":                {leaving, list, late},
		"it is gone, for a get":              {nil, get("p"), late},
		"it is never shown":                  {pod("1"), list, ownWritesWithin},
		"two are never shown":                {pod("1"), list, ownWritesWithin},
		"another kind":                       {nil, func(ctx context.Context, c client.Client) error { return c.List(ctx, &corev1.ServiceList{}) }, 0},
		"another name":                       {nil, get("q"), 0},
		"no UID says which one was deleted":  {pod("1"), list, 0},
		"the precondition says which it was": {nil, list, late},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				upstream := &lagging{pod: pod("1")}
				c := patient{Client: upstream, wait: ownWritesWithin, deletes: &ownDeletes{}}
				victim, opts := pod("1"), []client.DeleteOption(nil)
				switch name {
				case "two are never shown":
					another := pod("1")
					another.Name = "q"
					if err := c.Delete(t.Context(), another); err != nil {
						t.Fatal(err)
					}
				case "no UID says which one was deleted":
					victim = pod("")
				case "the precondition says which it was":
					victim, opts = pod(""), []client.DeleteOption{client.Preconditions{UID: ptr.To(types.UID("1"))}}
				}
				if err := c.Delete(t.Context(), victim, opts...); err != nil || upstream.waiting {
					t.Errorf("%v; the client waits for the deletion: %t", err, upstream.waiting)
				}
				begin := time.Now()
				go func() {
					<-time.After(late)
					upstream.set(tc.becomes)
				}()
				if err := tc.read(t.Context(), c); err != nil {
					t.Error(err)
				}
				if took := time.Since(begin).Round(time.Second); took != tc.want {
					t.Errorf("the read took %s, want %s", took, tc.want)
				}
				<-time.After(time.Minute)
				begin = time.Now()
				if err := tc.read(t.Context(), c); err != nil || time.Since(begin) > 0 {
					t.Errorf("the next read took %s: %v", time.Since(begin), err)
				}
			})
		})
	}
}
