// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/quota"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/scheduler"
)

// A Workload that was created and that the cache does not show yet is not created again, but not for ever.
func TestWorkloadsThatTheCacheDoesNotShow(t *testing.T) {
	noon := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	one := &quota.Workload{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "one"}}
	dgd := &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g"}}
	for name, tc := range map[string]struct {
		between func(look func(time.Time, ...*quota.Workload) bool, u *unseen)
		after   time.Duration
		want    bool
	}{
		"it is not seen yet": {func(func(time.Time, ...*quota.Workload) bool, *unseen) {}, time.Second, false},
		"it never was":       {func(func(time.Time, ...*quota.Workload) bool, *unseen) {}, seenWithin, true},
		"it was seen, and is gone": {func(look func(time.Time, ...*quota.Workload) bool, _ *unseen) {
			look(noon, one)
		}, time.Second, true},
		"its create failed": {func(_ func(time.Time, ...*quota.Workload) bool, u *unseen) {
			u.notCreated(client.ObjectKeyFromObject(dgd), "one")
		}, 0, true},
		"its deployment is new": {func(_ func(time.Time, ...*quota.Workload) bool, u *unseen) { u.forget(client.ObjectKeyFromObject(dgd)) }, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			u := &unseen{}
			look := func(now time.Time, exist ...*quota.Workload) bool {
				s := quota.Steps{}
				if len(exist) == 0 {
					s.Create = []*quota.Workload{one}
				}
				u.await(&quota.Observation{DGD: dgd, Workloads: exist, Now: now}, &s)
				if waits := len(exist)+len(s.Create) == 0; waits != s.Next.Equal(noon.Add(seenWithin)) {
					t.Errorf("it waits: %v, and the next look is at %v", waits, s.Next)
				}
				return len(s.Create) > 0
			}
			if !look(noon) {
				t.Fatal("it is not created at first")
			}
			tc.between(look, u)
			if got := look(noon.Add(tc.after)); got != tc.want {
				t.Errorf("it is created: %v, want %v", got, tc.want)
			}
		})
	}
}

// A reconcile creates a Workload again where its create failed, and not while the cache lags.
func TestCreatedOnceWhileTheCacheLags(t *testing.T) {
	c, dgd, pod := stray(t)
	dgd.Labels = map[string]string{render.LabelKueueQueue: "q"}
	if err := c.Update(t.Context(), dgd); err != nil {
		t.Fatal(err)
	}
	groups, err := scheduler.GroupsOf(t.Context(), c, "ns", dgd.UID)
	if err != nil {
		t.Fatal(err)
	}
	groups[0].Annotations = map[string]string{render.AnnotationKueueQueue: "q"}
	quota.Join(groups[0], groups, nil, nil).Add(pod)
	for _, object := range []client.Object{groups[0], pod} {
		if err := c.Update(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	var fails error
	created, clock := 0, clocktesting.NewFakePassiveClock(time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC))
	r := &Reconciler{
		Client: interceptor.NewClient(c, interceptor.Funcs{
			Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
				created++
				return fails
			},
		}),
		Recorder: events.NewFakeRecorder(9), Providers: inState{state: provider.Ready(), own: answer{}},
		Checks: Checks{Live: c, Promises: quota.NewPromises(), Waits: quota.DefaultWaits, Clock: clock},
	}
	look := func(what string, after time.Duration, want int) {
		t.Helper()
		clock.SetTime(clock.Now().Add(after))
		result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(dgd)})
		if created != want || (err != nil) != (fails != nil) {
			t.Errorf("%s: created %d times, want %d; %v", what, created, want, err)
		}
		if lags := what == "the cache lags"; lags != (result.RequeueAfter > 0 && result.RequeueAfter <= seenWithin) {
			t.Errorf("%s: evaluated again after %v", what, result.RequeueAfter)
		}
	}
	fails = errors.New("connection reset")
	look("the create fails", 0, 1)
	fails = nil
	look("it is repeated", time.Second, 2)
	look("the cache lags", time.Second, 2)
	look("it was deleted", seenWithin, 3)
	if err := c.Delete(t.Context(), dgd); err != nil {
		t.Fatal(err)
	}
	look("the deployment is deleted", 0, 3)
	dgd.ResourceVersion = ""
	if err := c.Create(t.Context(), dgd); err != nil {
		t.Fatal(err)
	}
	look("and created again", 0, 4)
}
