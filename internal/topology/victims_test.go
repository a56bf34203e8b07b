// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// A pod that is being deleted takes its capacity until it is gone, and is listed with its grace period.
func TestLeavingOn(t *testing.T) {
	asked := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	leaving := func(grace int64) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.DeletionTimestamp = &metav1.Time{Time: asked.Add(time.Duration(grace) * time.Second)}
			p.DeletionGracePeriodSeconds = ptr.To(grace)
		}
	}
	c := NewCluster()
	c.SetNode(makeNode("n", nil, amounts{gpu: "4"}))
	for _, pod := range []*corev1.Pod{
		makePod("stays", "n", amounts{gpu: "1"}), makePod("b", "n", amounts{gpu: "1"}, leaving(30)), makePod("c", "n", nil, leaving(600)),
		makePod("a", "n", nil, leaving(30)), makePod("elsewhere", "m", nil, leaving(30)),
	} {
		c.SetPod(pod)
	}
	want := []Leaving{
		{"ns/c", asked, asked.Add(10 * time.Minute)}, {"ns/a", asked, asked.Add(30 * time.Second)}, {"ns/b", asked, asked.Add(30 * time.Second)},
	}
	if diff := cmp.Diff(want, c.LeavingOn("n")); diff != "" {
		t.Errorf("leaving (-want +got):\n%s", diff)
	}
	c.SetPod(makePod("c", "n", nil, leaving(30))) // deleted again, with a shorter grace period
	if got := c.LeavingOn("n"); len(got) != 3 || got[0].Pod != "ns/a" {
		t.Errorf("leaving: %v", got)
	}
	if got := fit(c, nil, ShapeOf(makePod("p", "", amounts{gpu: "1"}))); got != 2 || c.Overbooked("n") {
		t.Errorf("%d fit, want 2; overbooked: %v", got, c.Overbooked("n"))
	}
	c.Assume("more", "n", ShapeOf(makePod("more", "", amounts{gpu: "3"})))
	if !c.Overbooked("n") || c.Overbooked("unknown") || len(c.LeavingOn("unknown")) > 0 {
		t.Error("5 of 4 GPUs are taken, which is not overbooked; or an unknown node is")
	}
}

// Pods of a shape that avoids hosts fit everywhere else, and are not interchangeable with others.
func TestAvoidingHosts(t *testing.T) {
	c := NewCluster()
	for _, name := range []string{"n1", "n2", "n3"} {
		c.SetNode(makeNode(name, nil, amounts{gpu: "2"}))
	}
	plain := ShapeOf(makePod("p", "", amounts{gpu: "1"}))
	shape := plain.Avoiding([]string{"n3", "n1"})
	if got := fit(c, nil, shape); got != 2 {
		t.Errorf("%d fit on one host of three, want 2", got)
	}
	if e, off := c.Why("n1", shape); !off || e.String() != "avoided" {
		t.Errorf("n1: %v", e)
	}
	if shape.Key() == plain.Key() || shape.Key() != plain.Avoiding([]string{"n1", "n3"}).Key() || plain.Avoiding(nil).Key() != plain.Key() {
		t.Errorf("keys: %q, %q", plain.Key(), shape.Key())
	}
}
