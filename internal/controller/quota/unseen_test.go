// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/assignment"
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
		RecordOf: noRecords, Client: interceptor.NewClient(c, interceptor.Funcs{
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

// shown is a cache that shows these Workloads.
type shown struct {
	client.Reader
	items *[]unstructured.Unstructured
}

func (s shown) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	into.(*unstructured.UnstructuredList).Items = *s.items
	return nil
}

// A deployment that leaves its queue before its status reports that it was in one gives its quota back once its pods are gone.
func TestLeavesItsQueueAtOnce(t *testing.T) {
	for name, restarted := range map[string]bool{"before its Workload is seen": false, "and the operator is started again": true} {
		t.Run(name, func(t *testing.T) { testLeavesItsQueue(t, restarted) })
	}
}

func testLeavesItsQueue(t *testing.T, restarted bool) {
	c, dgd, pod := stray(t)
	groups, err := scheduler.GroupsOf(t.Context(), c, "ns", dgd.UID)
	if err != nil {
		t.Fatal(err)
	}
	queued := func(queue string) {
		t.Helper()
		dgd.Labels, groups[0].Annotations = nil, nil
		if queue != "" {
			dgd.Labels, groups[0].Annotations = map[string]string{render.LabelKueueQueue: queue}, map[string]string{render.AnnotationKueueQueue: queue}
		}
		for _, object := range []client.Object{dgd, groups[0]} {
			if err := c.Update(t.Context(), object); err != nil {
				t.Fatal(err)
			}
		}
	}
	queued("q")
	quota.Join(groups[0], groups, nil, nil).Add(pod)
	if err := c.Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	var exist, cached []unstructured.Unstructured
	r := &Reconciler{
		RecordOf: noRecords, Client: interceptor.NewClient(c, interceptor.Funcs{
			Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
				exist = append(exist, *o.(*unstructured.Unstructured))
				return nil
			},
			Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
				exist = nil
				return nil
			},
		}),
		Recorder: events.NewFakeRecorder(9), Providers: inState{state: provider.Ready(), own: shown{items: &cached}},
		Checks: Checks{
			Live: c, Promises: quota.NewPromises(), Waits: quota.DefaultWaits,
			Clock: clocktesting.NewFakePassiveClock(time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)),
		},
	}
	look := func() {
		t.Helper()
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(dgd)}); err != nil {
			t.Fatal(err)
		}
	}
	look()
	queued("")
	look() // the cache does not show the Workload yet
	if restarted {
		r.unseen.forget(client.ObjectKeyFromObject(dgd))
	}
	cached = exist
	if err := c.Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if look(); len(cached) != 1 || len(exist) > 0 {
		t.Fatalf("Workloads %v are left", exist)
	}
	cached = nil
	if look(); r.unseen.known(client.ObjectKeyFromObject(dgd)) {
		t.Error("the deployment is remembered without a Workload")
	}
}

// No place is held for quota of a Kueue that is gone, or that the operator may not read any more. A Kueue that is not read yet is awaited.
func TestPromisesEndWithKueue(t *testing.T) {
	for name, tc := range map[string]struct {
		state provider.State
		want  bool
	}{"gone": {provider.State{Reason: "KueueNotInstalled"}, false}, "not read yet": {provider.Ready(), true}} {
		c, dgd, _ := stray(t)
		dgd.Labels = map[string]string{render.LabelKueueQueue: "q"}
		if err := c.Update(t.Context(), dgd); err != nil {
			t.Fatal(err)
		}
		r := &Reconciler{
			Client: c, Recorder: events.NewFakeRecorder(9), Providers: inState{state: tc.state}, Checks: Checks{Live: c, Promises: quota.NewPromises()},
		}
		key := client.ObjectKeyFromObject(dgd)
		r.Checks.Promises.Set(key, quota.Look{Promises: map[string]quota.Promise{"w": {}}}, time.Now())
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
			t.Fatal(err)
		}
		if is := len(r.Checks.Promises.Of(key)) > 0; is != tc.want {
			t.Errorf("%s: promised %v", name, is)
		}
	}
}

// noRecords is a [RecordOf] of deployments without records.
func noRecords(context.Context, *nvidiav1beta1.DynamoGraphDeployment) (*assignment.Record, error) {
	return nil, nil
}
