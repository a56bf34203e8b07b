// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/version"
	testclock "k8s.io/utils/clock/testing"

	"github.com/trellis-k8s/trellis/internal/leaving"
	"github.com/trellis-k8s/trellis/internal/topology"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// versions answers with one version after the other, then with the last one; "" is an error.
type versions struct{ list []string }

// ServerVersionWithContext implements discovery.ServerVersionInterfaceWithContext.
func (v *versions) ServerVersionWithContext(context.Context) (*version.Info, error) {
	now := v.list[0]
	if len(v.list) > 1 {
		v.list = v.list[1:]
	}
	if now == "" {
		return nil, errors.New("no answer")
	}
	return &version.Info{GitVersion: now}, nil
}

// A node that declares no features takes a pod that uses one while the API server is of a release before 1.36. An upgrade changes that, and
// an API server that does not answer changes nothing.
func TestUpgradeBringsFilter(t *testing.T) {
	clock := testclock.NewFakeClock(time.Unix(0, 0))
	l := newLedger(Options{Clock: clock}, func() {}, nil)
	node := &corev1.Node{}
	node.Name = "n"
	node.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("10")}
	l.cluster.SetNode(node)
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{RestartPolicyRules: []corev1.ContainerRestartRule{{
		Action: corev1.ContainerRestartRuleActionRestartAllContainers}}}}}}
	type answer struct{ waiting, excluded bool }
	answers := make(chan answer, 1)
	r := &serverVersion{server: &versions{[]string{"v1.35.4", "", "v1.36.0"}}, clock: clock, set: func(v string) {
		waiting := l.versionIs(v).waiting
		_, excluded := l.cluster.Why("n", topology.ShapeOf(pod))
		answers <- answer{waiting, excluded}
	}}
	r.watch(t.Context())
	if got := <-answers; got != (answer{true, false}) {
		t.Errorf("at 1.35: %+v", got)
	}
	for patience := time.After(suite.Patience()); ; {
		select {
		case got := <-answers:
			if got != (answer{true, true}) {
				t.Errorf("at 1.36: %+v", got)
			}
			return
		case <-patience:
			t.Fatal("the version is not asked for again")
		case <-time.After(time.Millisecond):
			if clock.HasWaiters() {
				clock.Step(versionEvery)
			}
		}
	}
}

// A node that begins to declare features is a change to the planner.
func TestDeclaredFeaturesAreCapacity(t *testing.T) {
	old, now := &corev1.Node{}, &corev1.Node{}
	now.Status.DeclaredFeatures = []string{"RestartAllContainersOnContainerExits"}
	if SameCapacity(old, now) {
		t.Error("the features that a node declares are left out")
	}
	if stripped, err := StripNode(now.DeepCopy()); err != nil || !SameCapacity(now, stripped.(*corev1.Node)) {
		t.Errorf("the features that a node declares are stripped: %v, %v", stripped, err)
	}
}

// A node that is about to be removed is a change to the planner, and the cache keeps what says so.
func TestLeavingNodesAreCapacity(t *testing.T) {
	old, now := &corev1.Node{Spec: corev1.NodeSpec{Unschedulable: true}}, &corev1.Node{Spec: corev1.NodeSpec{Unschedulable: true}}
	now.Annotations = map[string]string{leaving.AnnotationDrain: "2026-12-01T00:00:00Z", "example.com/other": "x"}
	stripped, err := StripNode(now.DeepCopy())
	if err != nil || SameCapacity(old, stripped.(*corev1.Node)) || len(stripped.(*corev1.Node).Annotations) != 1 {
		t.Errorf("that a node is drained is left out: %v, %v", stripped, err)
	}
	announced := old.DeepCopy()
	announced.Status.Conditions = []corev1.NodeCondition{{Type: "MaintenancePlanned", Status: corev1.ConditionTrue}}
	if SameCapacity(old, announced) {
		t.Error("that maintenance of a node is planned is left out")
	}
}

// Empty selectors of spread constraints count existing pods by the release. After a change of the release, waiting graphs are planned again.
func TestVersionDecidesEmptySelectors(t *testing.T) {
	l := newBench(t, Options{}).s.ledger
	for _, tc := range []struct {
		version        string
		waiting, count bool
	}{{"v1.37.2", false, false}, {"v1.38.0-rc.0", true, true}, {"v1.38.1", false, true}, {"v1.37.2", true, false}} {
		if got := l.versionIs(tc.version).waiting; got != tc.waiting || l.binders.affinity.CountsAll != tc.count {
			t.Errorf("%s: %t, wakes %t; want %t, %t", tc.version, l.binders.affinity.CountsAll, got, tc.count, tc.waiting)
		}
	}
}
