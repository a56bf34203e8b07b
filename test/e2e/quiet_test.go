// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

var _ = Describe("A cluster where nothing changes", func() {
	// Once everything is as wanted no one writes: a minute long no object of the scenario changes, not even one that waits for capacity.
	It("sees no write for a minute", func(ctx SpecContext) {
		w := newWorld(ctx, "quiet", racks(2, 8, "a/r0", "b/r0")...)
		w.create(w.graphOf("g", "zone", services{"Worker": withAdapter(worker(1, 2, 8, "rack")), "Frontend": frontend(1)}))
		w.ready("g")
		w.create(w.graphOf("waits", "zone", services{"Worker": worker(1, 3, 8, "rack")}))
		w.hasCondition("waits", nvidiav1alpha1.ConditionPlaced, "False", "NeverFits", "no zone has 3 hosts: the largest has 2")
		// What follows from that is still being written; it ends.

		changes := make(chan string, 100)
		for _, list := range []client.ObjectList{
			&nvidiav1alpha1.DynamoGraphDeploymentList{}, &nvidiav1alpha1.DynamoGraphDeploymentScalingAdapterList{}, &trellisv1alpha1.ScalingGroupList{}, &corev1.PodList{}, &corev1.ServiceList{}, &grovev1alpha1.ClusterTopologyList{},
		} {
			options := []client.ListOption{client.InNamespace(w.name)}
			if _, cluster := list.(*grovev1alpha1.ClusterTopologyList); cluster {
				options = []client.ListOption{client.MatchingFields{"metadata.name": w.name}}
			}
			watchChanges(w, list, changes, options...)
		}
		for settling := true; settling; {
			select {
			case <-changes:
			case <-time.After(suite.Patience() / 10):
				settling = false
			}
		}
		select {
		case change := <-changes:
			Fail("something was written though nothing changed: " + change)
		case <-time.After(time.Minute):
		}
	}, SpecTimeout(suite.Timeout()))
})

// watchChanges reports every change from now on; what is there already is no change.
func watchChanges(w *world, list client.ObjectList, changes chan<- string, options ...client.ListOption) {
	w.t.Helper()
	if err := w.c.List(w.t.Context(), list, options...); err != nil {
		w.t.Fatal(err)
	}
	watcher, err := w.c.Watch(w.t.Context(), list, append(options, &client.ListOptions{Raw: fromVersion(list.GetResourceVersion())})...)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(watcher.Stop)
	go func() {
		for e := range watcher.ResultChan() {
			if o, ok := e.Object.(client.Object); ok && e.Type != watch.Bookmark {
				changes <- string(e.Type) + " " + o.GetName() + " " + o.GetResourceVersion()
			}
		}
	}()
}
