// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/graph"
	"github.com/trellis-k8s/trellis/test/testutil/tier"
)

// Services restart one after the other in the order asked for, each within the bounds of its update; one at zero has nothing to do. The
// request withdrawn afterwards changes nothing.
func TestRestartOneAfterTheOther(t *testing.T) {
	w := newWorld(t, "restart", racks(2, 8, "a/r0", "a/r1", "a/r2")...)
	w.create(w.graphOf("g", "zone", services{"Worker": worker(2, 2, 8, "rack"), "Frontend": frontend(2), "Idle": frontend(0)}))
	w.ready("g")
	before, where := w.uids(), w.placements()
	watcher := w.follow()
	watcher.expect("Worker", 1, 2)
	watcher.expect("Frontend", 1, 2)
	w.patch("g", `{"spec":{"restart":{"id":"one","strategy":{"type":"Sequential","order":["Worker","Idle","Frontend"]}}}}`)
	w.restarted("g", "one")
	if err := w.allNew(before, 6); err != nil {
		t.Error(err)
	}
	w.ready("g")
	var workers, frontends []int64
	for _, pod := range w.all() {
		if pod.Annotations[graph.AnnotationRestart] != "one" {
			t.Errorf("pod %s does not say for which restart it was made", pod.Name)
		}
		if pod.Labels[graph.LabelComponent] == "Worker" {
			workers = append(workers, pod.CreationTimestamp.Unix())
		} else {
			frontends = append(frontends, pod.CreationTimestamp.Unix())
		}
	}
	if slices.Max(workers) > slices.Min(frontends) {
		t.Errorf("workers were made at %v and frontends at %v; all workers come first", workers, frontends)
	}
	if now := w.placements(); now != where {
		t.Errorf("the replicas sat in %s and sit in %s; they come back where they were", where, now)
	}
	before = w.uids()
	w.patch("g", `{"spec":{"restart":null}}`)
	w.scale("g", "Idle", 1)
	w.ready("g")
	for uid := range before {
		if !w.uids()[uid] {
			t.Errorf("a pod is gone though nothing was asked for")
		}
	}
	watcher.stop()
}

// The graph's zone has become too small for its replica. A parallel restart stops everything, so the graph is free to choose, and moves.
func TestParallelRestartMovesTheGraph(t *testing.T) {
	tier.All(t)
	w := newWorld(t, "restart-all", racks(2, 8, "a/r0", "b/r0")...)
	w.create(w.graphOf("g", "zone", services{"Worker": worker(1, 2, 8, "rack"), "Frontend": frontend(2)}))
	w.ready("g")
	first := w.domains("zone", w.all()...)
	node := get(w, &corev1.Node{}, "", w.replicasOf("Worker")[0][0].Spec.NodeName)
	if err := w.c.Patch(t.Context(), node, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`))); err != nil {
		t.Fatal(err)
	}
	watcher := w.follow()
	w.patch("g", `{"spec":{"restart":{"id":"move","strategy":{"type":"Parallel"}}}}`)
	w.restarted("g", "move")
	w.ready("g")
	watcher.stop()
	if now := w.domains("zone", w.all()...); len(now) != 1 || slices.Equal(now, first) {
		t.Errorf("the graph was in %v and is in %v, want all of it in the other zone", first, now)
	}
	for _, sg := range list(w, &trellisv1alpha1.ScalingGroupList{}).Items {
		if sg.Spec.Restart == nil || sg.Spec.Restart.ID != "move" || sg.Spec.Restart.Stop {
			t.Errorf("%s ends with restart %+v", sg.Name, sg.Spec.Restart)
		}
	}
}

// A restart and an edit at once, a second restart before the first is over, a scale-out: the last word counts, and no more is missing
// than may be.
func TestRestartDuringAnUpdate(t *testing.T) {
	tier.All(t)
	w := newWorld(t, "restart-mid", racks(2, 8, "a/r0", "a/r1", "a/r2", "a/r3")...)
	w.create(w.graphOf("g", "zone", services{"Worker": worker(3, 2, 8, "rack"), "Frontend": frontend(1)}))
	w.ready("g")
	watcher := w.follow()
	watcher.expect("Worker", 2, 3)
	w.setImage("g", "Worker", "example.com/vllm:2")
	w.until("the update has begun", func() error {
		if u := w.dgd("g").Status.RollingUpdate; u == nil || u.Phase == nvidiav1alpha1.RollingUpdateCompleted {
			return fmt.Errorf("rollingUpdate is %+v", u)
		}
		return nil
	})
	w.patch("g", `{"spec":{"restart":{"id":"one"}}}`)
	w.until("the restart has begun", func() error {
		if r := w.dgd("g").Status.Restart; r == nil || r.ObservedID != "one" {
			return fmt.Errorf("restart is %+v", r)
		}
		return nil
	})
	w.patch("g", `{"spec":{"restart":{"id":"two"}}}`)
	w.restarted("g", "two")
	w.ready("g")
	watcher.stop()
	for _, pod := range w.all() {
		if pod.Annotations[graph.AnnotationRestart] != "two" || pod.Labels[graph.LabelComponent] == "Worker" && pod.Spec.Containers[0].Image != "example.com/vllm:2" {
			t.Errorf("pod %s was made for restart %q and runs %s", pod.Name, pod.Annotations[graph.AnnotationRestart], pod.Spec.Containers[0].Image)
		}
	}
	if u := w.dgd("g").Status.RollingUpdate; u == nil || u.Phase != nvidiav1alpha1.RollingUpdateCompleted {
		t.Errorf("rollingUpdate = %+v, want it completed", u)
	}
}

// Deleted in the foreground in the middle of everything, nothing stays.
func TestDeletedDuringARestart(t *testing.T) {
	tier.All(t)
	w := newWorld(t, "deleted-mid", racks(2, 8, "a/r0", "a/r1")...)
	w.create(w.graphOf("g", "zone", services{"Worker": worker(2, 2, 8, "rack"), "Frontend": frontend(1)}))
	w.ready("g")
	w.patch("g", `{"spec":{"restart":{"id":"one","strategy":{"type":"Parallel"}}}}`)
	w.setImage("g", "Worker", "example.com/vllm:2")
	if err := w.c.Delete(t.Context(), w.dgd("g"), client.PropagationPolicy("Foreground")); err != nil {
		t.Fatal(err)
	}
	w.until("nothing is left", func() error {
		for _, l := range []client.ObjectList{&nvidiav1alpha1.DynamoGraphDeploymentList{}, &trellisv1alpha1.ScalingGroupList{}, &corev1.PodList{}, &corev1.ServiceList{}} {
			if err := w.c.List(t.Context(), l, client.InNamespace(w.name)); err != nil {
				return err
			}
			if n := lengthOf(l); n > 0 {
				return fmt.Errorf("%d left in %T", n, l)
			}
		}
		return nil
	})
}

func lengthOf(l client.ObjectList) int {
	switch l := l.(type) {
	case *nvidiav1alpha1.DynamoGraphDeploymentList:
		return len(l.Items)
	case *trellisv1alpha1.ScalingGroupList:
		return len(l.Items)
	case *corev1.PodList:
		return len(l.Items)
	case *corev1.ServiceList:
		return len(l.Items)
	}
	return -1
}

// restarted waits until the request is done with.
func (w *world) restarted(name, id string) {
	w.t.Helper()
	w.until("restart "+id+" is completed", func() error {
		r := w.dgd(name).Status.Restart
		if r == nil || r.ObservedID != id || r.Phase != nvidiav1alpha1.RestartCompleted {
			return fmt.Errorf("it is %+v", r)
		}
		return nil
	})
}

// placements says in one line where the packed replicas sit.
func (w *world) placements() string {
	w.t.Helper()
	s := ""
	for _, p := range w.dgd("g").Status.Services["Worker"].Placements {
		s += fmt.Sprintf("%d:%s ", p.Replica, p.Domain)
	}
	return s
}

// The commands of docs/updates.md: a replica waits for its graph's zone, a Sequential restart waits with it, and the documented Parallel one takes its
// place and moves the graph to the zone that holds all of it.
func TestDocumentedParallelRestart(t *testing.T) {
	tier.All(t)
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "updates.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n### A Parallel restart\n")
	_, patch, found := strings.Cut(section, "kubectl patch dgd NAME --type=merge -p '")
	if !found {
		t.Fatal("the page shows no Parallel restart")
	}
	patch, _, _ = strings.Cut(patch, "'\n")
	w := newWorld(t, "restart-docs", racks(2, 8, "a/r0", "b/r0", "b/r1")...)
	w.create(w.graphOf("g", "zone", services{"Worker": worker(1, 2, 8, "rack")}))
	w.ready("g")
	if got := w.domains("zone", w.all()...); !slices.Equal(got, []string{"a"}) {
		t.Fatalf("the graph is in %v, want a", got)
	}
	w.scale("g", "Worker", 2)
	w.hasCondition("g", nvidiav1alpha1.ConditionPlaced, metav1.ConditionFalse, "InsufficientCapacity", "a Parallel restart moves it")
	w.patch("g", `{"spec":{"restart":{"id":"one","strategy":{"type":"Sequential","order":["Worker"]}}}}`)
	w.hasCondition("g", nvidiav1alpha1.ConditionRolledOut, metav1.ConditionFalse, nvidiav1alpha1.ReasonRolloutWaitsForCapacity, "a Parallel restart moves it")
	w.patch("g", strings.ReplaceAll(patch, "'$ID'", "moved"))
	w.restarted("g", "moved")
	w.ready("g")
	if got := w.domains("zone", w.all()...); !slices.Equal(got, []string{"b"}) {
		t.Errorf("the graph is in %v, want b", got)
	}
}
