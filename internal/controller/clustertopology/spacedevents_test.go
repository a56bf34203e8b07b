// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package clustertopology

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/controller/pace"
)

// A thousand groups that come at once have their topology looked at twice: for the first, and a second later for all others.
func TestManyUsersAreLookedAtTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waiting := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		defer waiting.ShutDown()
		looks := map[string]int{}
		look := func() {
			synctest.Wait()
			for waiting.Len() > 0 {
				request, _ := waiting.Get()
				looks[request.Name]++
				waiting.Done(request)
			}
		}
		events := spaced(topologyOfGroup)
		come := func(n int, name string) {
			for i := range n {
				sg := &trellisv1alpha1.ScalingGroup{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("g", i)}}
				sg.Spec.Topology = &trellisv1alpha1.ResolvedTopology{ClusterTopology: name}
				events.Create(t.Context(), event.CreateEvent{Object: sg}, waiting)
				look()
			}
		}
		want := func(when string, dc, other int) {
			t.Helper()
			if look(); looks["dc"] != dc || looks["other"] != other {
				t.Fatalf("%s: looks %v, want %d of dc and %d of other", when, looks, dc, other)
			}
		}
		come(1000, "dc")
		want("at once", 1, 0)
		come(1, "other")
		want("another topology", 1, 1)
		<-time.After(pace.Interval + pace.Interval/10)
		want("after the interval", 2, 1)
		<-time.After(10 * pace.Interval)
		want("later", 2, 1)
		come(1, "dc")
		want("a late one", 3, 1)
		<-time.After(10 * pace.Interval)
		using := func(name string) *trellisv1alpha1.ScalingGroup {
			sg := &trellisv1alpha1.ScalingGroup{}
			sg.Spec.Topology = &trellisv1alpha1.ResolvedTopology{ClusterTopology: name}
			return sg
		}
		events.Update(t.Context(), event.UpdateEvent{ObjectOld: using("dc"), ObjectNew: using("dc")}, waiting)
		<-time.After(10 * pace.Interval)
		want("an update", 4, 1)
		events.Update(t.Context(), event.UpdateEvent{ObjectOld: using("dc"), ObjectNew: using("other")}, waiting)
		want("one that leaves a topology", 5, 2)
	})
}
