// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/render"
)

// A gang that was refused before its pods were created is announced on the first of them as soon as it exists, and once.
func TestAnnouncedOnPodsThatAreCreatedLater(t *testing.T) {
	b, o := newBench(t, Options{}), asking(1, 2, 0)
	for _, pod := range o.Pods {
		metav1.SetMetaDataLabel(&pod.ObjectMeta, render.LabelComponent, "work")
	}
	result := gang.Result{Waiting: []gang.Waiting{{Component: "work", Code: "InsufficientCapacity", Message: "too little"}}}
	events := func(pods []*corev1.Pod, isNew bool) (n int) {
		b.s.announce(t.Context(), o.DGD, pods, result, isNew)
		for {
			select {
			case text := <-b.said.Events:
				if !strings.Contains(text, "too little") {
					t.Errorf("event %q", text)
				}
				n++
			default:
				return n
			}
		}
	}
	for i, step := range []struct {
		pods  []*corev1.Pod
		isNew bool
		want  int
	}{{nil, true, 0}, {nil, false, 0}, {o.Pods, false, 1}, {o.Pods, false, 0}, {o.Pods, true, 1}, {o.Pods, false, 0}} {
		if got := events(step.pods, step.isNew); got != step.want {
			t.Errorf("step %d: %d events, want %d", i, got, step.want)
		}
	}
	if len(b.s.unannounced) > 0 {
		t.Errorf("left to announce: %v", b.s.unannounced)
	}
}

// That a replica waits for admission is announced once on a pod, until it waits for something else.
func TestAdmissionIsAnnouncedOnce(t *testing.T) {
	b, o := newBench(t, Options{}), asking(1, 2, 0)
	for _, pod := range o.Pods {
		metav1.SetMetaDataLabel(&pod.ObjectMeta, render.LabelComponent, "work")
	}
	for i, step := range []struct {
		code string
		want int
	}{
		{gang.CodeWaitingForAdmission, 1}, {gang.CodeWaitingForAdmission, 0}, {placement.CodeInsufficientCapacity, 1},
		{placement.CodeInsufficientCapacity, 1}, {gang.CodeWaitingForAdmission, 1}, {"", 0}, {gang.CodeWaitingForAdmission, 1},
	} {
		result := gang.Result{}
		if step.code != "" {
			result.Waiting = []gang.Waiting{{Component: "work", Code: step.code, Message: "it waits"}}
		}
		b.s.announce(t.Context(), o.DGD, o.Pods, result, true)
		if got := len(b.said.Events); got != step.want {
			t.Errorf("step %d: %d events, want %d", i, got, step.want)
		}
		for len(b.said.Events) > 0 {
			<-b.said.Events
		}
	}
	if b.s.forgetGraph(client.ObjectKeyFromObject(o.DGD)); len(b.s.awaiting) > 0 {
		t.Errorf("kept for a graph that is gone: %v", b.s.awaiting)
	}
}

// Pods of a replica become visible in any order, and are recreated: the first of them has the event, also where the result stays the same.
func TestAdmissionIsAnnouncedOnTheFirstPod(t *testing.T) {
	b, o := newBench(t, Options{}), asking(1, 2, 0)
	for _, pod := range o.Pods {
		metav1.SetMetaDataLabel(&pod.ObjectMeta, render.LabelComponent, "work")
	}
	again := slices.Clone(o.Pods)
	again[0] = again[0].DeepCopy()
	again[0].UID = "another"
	result := func(message string) gang.Result {
		return gang.Result{Waiting: []gang.Waiting{{Component: "work", Code: gang.CodeWaitingForAdmission, Message: message}}}
	}
	for i, step := range []struct {
		pods    []*corev1.Pod
		message string
		want    int
	}{{o.Pods[1:], "a", 1}, {o.Pods, "a", 1}, {o.Pods, "b", 0}, {nil, "a", 0}, {o.Pods, "b", 0}, {again, "b", 1}, {again, "a", 0}} {
		b.s.publish(t.Context(), o.DGD, step.pods, result(step.message))
		if got := len(b.said.Events); got != step.want {
			t.Errorf("step %d: %d events, want %d", i, got, step.want)
		}
		for len(b.said.Events) > 0 {
			<-b.said.Events
		}
	}
}
