// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-k8s/trellis/test/testutil/graphs"
)

// rule is one thing that holds for every user under every provider whose pods are Trellis' own. It is checked on a real cluster: pods are bound
// by the kube-scheduler, and where they are is read from their nodes.
type rule struct {
	nodes []host
	// graph of the deployment "g": its level, and its components. nil components: the scenario creates its own.
	level    string
	services services
	// preferred is the deployment's preferred level.
	preferred string
	// before the deployment is created; after it was, it is Ready unless waits is set.
	before func(w *world)
	// waits are parts of the message of Placed while the deployment does not fit.
	waits []string
	// never: no domain would hold it even when it is empty.
	never bool
	after func(w *world)
}

// in is what a step checks most: the domains of a level in which a service's pods are, all components for "".
func (w *world) in(service, level string, want ...string) {
	w.t.Helper()
	if got := w.domains(level, w.of(service)...); !slices.Equal(got, want) {
		w.t.Errorf("%s is in %v, want %v", service, got, want)
	}
}

// of are the pods of a component, of all components for "".
func (w *world) of(service string) []corev1.Pod {
	w.t.Helper()
	if service == "" {
		return w.all()
	}
	var pods []corev1.Pod
	replicas := w.replicasOf(service)
	for _, ordinal := range slices.Sorted(maps.Keys(replicas)) {
		pods = append(pods, replicas[ordinal]...)
	}
	return pods
}

// eachInOne: each replica of a component, of size pods, is whole in one domain of the level.
func (w *world) eachInOne(service, level string, size int) {
	w.t.Helper()
	for ordinal, pods := range w.replicasOf(service) {
		if got := w.domains(level, pods...); len(got) != 1 || len(pods) != size {
			w.t.Errorf("%s-%d: %d pods in %v, want %d in one %s", service, ordinal, len(pods), got, size, level)
		}
	}
}

func (w *world) free(pod *corev1.Pod) {
	w.t.Helper()
	if err := w.c.Delete(w.t.Context(), pod); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) waitsFor(reason string, parts ...string) {
	w.t.Helper()
	w.hasCondition("g", placed, metav1.ConditionFalse, reason, parts...)
}

func (w *world) gone(service string) {
	w.t.Helper()
	w.until(service+" has no pods", func() error {
		if n := len(w.of(service)); n > 0 {
			return fmt.Errorf("%d pods", n)
		}
		return nil
	})
}

// nothingReleasedOf: the pods of one replica exist, and none has been released.
func (w *world) nothingReleasedOf(service string, ordinal int32) {
	w.t.Helper()
	w.until("the replica is there", func() error {
		if len(w.replicasOf(service)[ordinal]) == 0 {
			return fmt.Errorf("no pods")
		}
		return nil
	})
	for _, pod := range w.replicasOf(service)[ordinal] {
		if len(pod.Spec.SchedulingGates) == 0 || pod.Spec.NodeName != "" {
			w.t.Errorf("pod %s was released", pod.Name)
		}
	}
}

// replaced waits until a component has n pods of which none was there before what was done.
func (w *world) replaced(service string, n int, do func()) {
	w.t.Helper()
	before := graphs.UIDs(w.of(service))
	do()
	w.until("the pods are new", func() error { return graphs.AllNew(before, w.of(service), n) })
}

// disk is a pod spec with an iSCSI disk in it, which several pods on a host may use if all of them only read. Trellis does not count that.
func disk(readOnly bool) corev1.PodSpec {
	return corev1.PodSpec{Volumes: []corev1.Volume{{Name: "disk", VolumeSource: corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{
		TargetPortal: "192.0.2.1:3260", IQN: "iqn.2026-01.com.example:disk", ReadOnly: readOnly}}}}}
}

// outOfSight has the kube-scheduler find a host unfit for a reason that Trellis does not count: a pod that is there writes to the disk which those of
// the scenario read. inSight ends it.
func (w *world) outOfSight(host string) {
	w.t.Helper()
	guard := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "guard-" + host}, Spec: disk(false)}
	guard.Spec.NodeName, guard.Spec.TerminationGracePeriodSeconds = w.node(host), new(int64)
	guard.Spec.Containers = []corev1.Container{{Name: "main", Image: "example.com/other:1"}}
	w.create(guard)
}

func (w *world) inSight(host string) {
	w.t.Helper()
	w.free(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "guard-" + host}})
}
