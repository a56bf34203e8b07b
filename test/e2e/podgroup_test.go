// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/graph"
	"github.com/trellis-k8s/trellis/internal/sandbox"
	"github.com/trellis-k8s/trellis/test/testutil/tier"
)

// podGroupCluster schedules pod groups, and has an operator that uses them. It is brought up for the first test that asks.
var podGroupCluster struct {
	once sync.Once
	environment
	err error
}

func podGroups(t *testing.T) environment {
	t.Helper()
	p := &podGroupCluster
	p.once.Do(func() {
		p.cluster, p.err = sandbox.Up(context.Background(), sandbox.Options{
			Name: "podgroup", Dir: filepath.Join(scratch, "podgroup"), Shape: sandbox.Shape{Zones: 1, Blocks: 1, Racks: 1, Hosts: 1, GPUs: 1},
			Provider: sandbox.PodGroup, Operator: true, Audit: true,
			Manager: sandbox.ManagerOptions{Args: []string{"--provider=PodGroup", "--requeue-after=" + requeueAfter.String()}},
		})
		if p.err == nil {
			p.c = newClient(p.cluster)
		}
	})
	if p.err != nil {
		t.Fatal(p.err)
	}
	return p.environment
}

// tearDownPodGroups ends that cluster, if there is one.
func tearDownPodGroups(ctx context.Context) error {
	if podGroupCluster.cluster == nil {
		return nil
	}
	return errors.Join(noteRights(podGroupCluster.cluster), podGroupCluster.cluster.Down(ctx))
}

const providerReady = nvidiav1alpha1.ConditionProviderReady

// groups are the pod groups of a service, in name order, without those on their way out.
func (w *world) groups(service string) []schedulingv1beta1.PodGroup {
	w.t.Helper()
	all := list(w, &schedulingv1beta1.PodGroupList{}).Items
	return slices.DeleteFunc(all, func(g schedulingv1beta1.PodGroup) bool {
		return !strings.HasSuffix(g.Labels[graph.LabelScalingGroup], "-"+strings.ToLower(service)) || g.DeletionTimestamp != nil
	})
}

// What the kube-scheduler is given: a tree for the base gang, groups without a parent for what comes later, a new group for each
// generation, none left over.
func TestPodGroupsOfAGraph(t *testing.T) {
	tier.All(t)
	t.Parallel()
	w := newWorldIn(t, podGroups(t), "groups", racks(4, 8, "a/r0", "a/r1", "b/r0", "b/r1")...)
	w.create(w.graphOf("g", "zone", services{"Worker": worker(1, 2, 8, "rack"), "Frontend": frontend(1)}))
	w.ready("g")
	w.hasCondition("g", providerReady, metav1.ConditionTrue, "ProviderAvailable", "PodGroup, chosen by the operator's flag --provider")
	if got := w.dgd("g").Status.Provider; got != "PodGroup" {
		t.Errorf("status.engine = %q", got)
	}

	t.Log("the base gang is a tree, the largest group first, packed by the levels' labels")
	roots := list(w, &schedulingv1alpha3.CompositePodGroupList{}).Items
	workers, frontends := w.groups("Worker"), w.groups("Frontend")
	if len(roots) != 1 || len(workers) != 1 || len(frontends) != 1 {
		t.Fatalf("%d roots, %d and %d groups", len(roots), len(workers), len(frontends))
	}
	root, replica, single := roots[0], workers[0], frontends[0]
	if root.Spec.SchedulingPolicy.Gang.MinGroupCount != 2 || root.Spec.SchedulingConstraints.Topology[0].Key != zoneKey {
		t.Errorf("root: %+v", root.Spec)
	}
	if ptr.Deref(replica.Spec.ParentCompositePodGroupName, "") != root.Name || replica.Spec.SchedulingPolicy.Gang.MinCount != 2 ||
		replica.Spec.SchedulingConstraints.Topology[0].Key != rackKey || replica.Spec.DisruptionMode.All == nil {
		t.Errorf("worker's group: %+v", replica.Spec)
	}
	if ptr.Deref(single.Spec.ParentCompositePodGroupName, "") != root.Name || single.Spec.SchedulingPolicy.Gang.MinCount != 1 || single.Spec.SchedulingConstraints != nil {
		t.Errorf("frontend's group: %+v", single.Spec)
	}
	if replica.Name > single.Name || single.CreationTimestamp.Before(&replica.CreationTimestamp) {
		t.Errorf("the kube-scheduler would take %s before %s", single.Name, replica.Name)
	}
	for _, g := range []schedulingv1beta1.PodGroup{replica, single} {
		if !meta.IsStatusConditionTrue(g.Status.Conditions, schedulingv1beta1.PodGroupInitiallyScheduled) {
			t.Errorf("the kube-scheduler has not scheduled %s as a group: %+v", g.Name, g.Status)
		}
	}
	if n := len(list(w, &schedulingv1beta1.WorkloadList{}).Items); n != 1 {
		t.Errorf("%d Workloads", n)
	}

	t.Log("a later replica is on its own, and so is one that comes back")
	w.scale("g", "Worker", 2)
	w.ready("g")
	w.replaced("Worker", 4, func() { w.deletePod("g-worker-0-1"); w.deletePod("g-worker-1-1") })
	w.ready("g")
	w.until("only the groups of living pods are left", func() error {
		if n := len(w.groups("Worker")); n != 2 {
			return fmt.Errorf("%d groups", n)
		}
		return nil
	})
	for _, g := range w.groups("Worker") {
		if g.Name == replica.Name || g.Spec.ParentCompositePodGroupName != nil {
			t.Errorf("group %s, parent %q", g.Name, ptr.Deref(g.Spec.ParentCompositePodGroupName, ""))
		}
	}
	if got := w.domains("zone", w.all()...); len(got) != 1 {
		t.Errorf("the graph is in %v", got)
	}

	t.Log("with the deployment everything goes")
	if err := w.c.Delete(t.Context(), w.dgd("g")); err != nil {
		t.Fatal(err)
	}
	w.until("nothing is left", func() error {
		n := len(list(w, &schedulingv1beta1.PodGroupList{}).Items) + len(list(w, &schedulingv1alpha3.CompositePodGroupList{}).Items) +
			len(list(w, &schedulingv1beta1.WorkloadList{}).Items) + len(w.all())
		if n > 0 {
			return fmt.Errorf("%d objects", n)
		}
		return nil
	})
}

// A gang that the kube-scheduler does not take is explained from both sides, and not one pod of it is bound.
func TestSchedulerRefusesAPodGroup(t *testing.T) {
	tier.All(t)
	t.Parallel()
	w := newWorldIn(t, podGroups(t), "refuses", racks(2, 8, "a/r0")...)
	w.outOfSight("a-r0-0")
	w.create(w.graphOf("g", "zone", services{"Worker": worker(1, 2, 8, "rack"), "Frontend": frontend(1)}))
	w.waitsFor("SchedulerRefuses", "by Trellis' count it has capacity in a/r0", "the kube-scheduler says: pod group is unschedulable")
	for _, pod := range w.all() {
		if pod.Spec.NodeName != "" {
			t.Errorf("%s is bound without its gang", pod.Name)
		}
	}
	w.hasEvent("Pod", "g-worker-0-0", "SchedulerRefuses", "the kube-scheduler says")
	w.inSight("a-r0-0")
	w.ready("g")
}

// What one tree cannot hold waits and says so.
func TestPodGroupWantsOnePriority(t *testing.T) {
	tier.All(t)
	t.Parallel()
	w := newWorldIn(t, podGroups(t), "priorities", racks(2, 8, "a/r0")...)
	dgd := w.graphOf("g", "zone", services{"Worker": worker(1, 2, 8, "rack"), "Frontend": frontend(1)})
	dgd.Spec.Services["Frontend"].ExtraPodSpec.PodSpec = &corev1.PodSpec{PriorityClassName: "system-cluster-critical"}
	w.create(dgd)
	w.hasCondition("g", providerReady, metav1.ConditionFalse, "ProviderUnsupported", "one priorityClassName", `service Frontend has "system-cluster-critical", service Worker has ""`)
	w.waitsFor("ProviderNotReady", "one priorityClassName")
	w.nothingReleased("Worker", 2)

	t.Log("made equal by the user, it goes on by itself")
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"services":{"Frontend":{"extraPodSpec":{"priorityClassName":null}}}}}`))
	if err := w.c.Patch(t.Context(), w.dgd("g"), patch); err != nil {
		t.Fatal(err)
	}
	w.ready("g")
}
