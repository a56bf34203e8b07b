// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/quota"
	"github.com/trellis-k8s/trellis/internal/render"
)

// inWorkload is a graph in the Workload w of Kueue, which holds its pods.
func inWorkload(number int, pods int32) gang.Observation {
	o := asking(number, pods, 0)
	for _, pod := range o.Pods {
		if pod.Labels == nil {
			pod.Labels = map[string]string{}
		}
		if pod.Annotations == nil {
			pod.Annotations = map[string]string{}
		}
		pod.Labels["kueue.x-k8s.io/pod-group-name"], pod.Labels[render.LabelComponent] = "w", "work"
		pod.Annotations["kueue.x-k8s.io/pod-suspending-parent"], pod.Annotations["kueue.x-k8s.io/role-hash"] = "trellis", "main"
		pod.Spec.SchedulingGates = append(pod.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: quota.Gate})
	}
	return o
}

// promising is a bench whose scheduler is promised that the pods of a graph get a node label with their admission.
func promising(t *testing.T, o gang.Observation, labels map[string]string) (*bench, *quota.Promises) {
	promises := quota.NewPromises()
	b := newBench(t, Options{Promises: promises})
	promises.Set(clientKey(o), quota.Look{Promises: map[string]quota.Promise{"w": {"main": quota.Addition{NodeSelector: labels}}}}, b.clock.Now())
	return b, promises
}

// A gang that has quota, and waits for its place alone, has its place reserved where its flavor allows it, and is not released.
func TestAPlaceBeforeAdmission(t *testing.T) {
	o := inWorkload(1, 2)
	b, promises := promising(t, o, map[string]string{"r": "b"})
	d := b.decide(o)
	if checked, looked := d.result.Checked["w"]; !looked || checked.Why != "" || checked.Fingerprint != promises.Of(clientKey(o))["w"].Fingerprint("w", o.Pods) || len(d.releases) > 0 {
		t.Fatalf("checked %v, released %v, waiting %v", d.result.Checked, d.releases, d.result.Waiting)
	}
	if !gang.OnlyAdmission(d.result.Waiting) || !strings.HasPrefix(d.result.Waiting[0].Message, "its place in z/b is reserved; waits for admission by") {
		t.Errorf("waiting %v", d.result.Waiting)
	}
	if len(d.wake.later) == 0 {
		t.Error("it is not looked at before the reservation ends")
	}
	b.expect("one that came later", asking(2, 2, 0), "rack a")
	b.expect("one more", asking(3, 1, 0), "holds 0 of 1")
	admit(o.Pods, func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{"r": "b"} })
	b.expect("once it is admitted", o, "rack b")
}

// Without a place the reason is that of any gang that waits for capacity.
func TestNoPlaceBeforeAdmission(t *testing.T) {
	o := inWorkload(1, 2)
	b, _ := promising(t, o, map[string]string{"r": "none"})
	d := b.decide(o)
	if why := d.result.Checked["w"].Why; !strings.Contains(why, "node selector mismatch") || gang.OnlyAdmission(d.result.Waiting) {
		t.Errorf("checked %v, waiting %v", d.result.Checked, d.result.Waiting)
	}
}

// A reservation ends when the quota is lost, and when no one renews it.
func TestTheEndOfAPlaceBeforeAdmission(t *testing.T) {
	for name, end := range map[string]func(b *bench, o gang.Observation, p *quota.Promises){
		"the quota is lost": func(b *bench, o gang.Observation, p *quota.Promises) {
			p.Set(clientKey(o), quota.Look{}, b.clock.Now())
			b.decide(o)
		},
		"it expires": func(b *bench, _ gang.Observation, _ *quota.Promises) {
			b.pass(DefaultHoldFor)
			b.s.expireHolds()
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := inWorkload(1, 2)
			b, p := promising(t, o, map[string]string{"r": "b"})
			b.decide(o)
			b.expect("rack a is taken", asking(2, 2, 0), "rack a")
			b.expect("the rest is reserved", asking(3, 2, 0), "holds 0 of 2")
			end(b, o, p)
			b.expect("it is free", asking(3, 2, 0), "rack b")
		})
	}
}

// Nothing is released before the first replicas that wait for admission alone, also where Kueue admits another replica first.
func TestNothingIsReleasedBeforeTheFirstReplicas(t *testing.T) {
	replica := func(component string, ordinal int, base bool) placement.ReplicaResult {
		return placement.ReplicaResult{
			Component: component, Ordinal: ordinal, Base: base, Pods: []placement.PodResult{{ID: fmt.Sprint(component, ordinal)}},
		}
	}
	placed := []placement.ReplicaResult{replica("front", 0, true), replica("work", 0, true), replica("work", 1, false)}
	for name, tc := range map[string]struct {
		promised []string
		released int
	}{
		"the first replicas wait": {[]string{"front0", "work0"}, 0},
		"a part of them waits":    {[]string{"work0"}, 0},
		"another replica waits":   {[]string{"work1"}, 2},
		"nothing waits":           {nil, 3},
	} {
		p := promised{workloads: map[string]string{}}
		for _, id := range tc.promised {
			p.workloads[id] = "w"
		}
		if released := p.split(placed); len(released) != tc.released || len(released)+len(p.kept) != len(placed) && len(tc.promised) > 0 {
			t.Errorf("%s: released %v, kept %v", name, released, p.kept)
		}
	}
}

// Pods of components without a constraint are not planned: a Workload has its place when the others have theirs, or when there are no
// others.
func TestPodsThatNeedNoPlace(t *testing.T) {
	for name, tc := range map[string]struct {
		labels  map[string]string
		planned bool
		has     bool
		// gate of another controller that the planned pods have, too.
		gate string
	}{
		"the others have a place": {map[string]string{"r": "b"}, true, true, ""},
		"the others have none":    {map[string]string{"r": "none"}, true, false, ""},
		"there are no others":     {nil, false, true, ""},
		"another gate holds them": {map[string]string{"r": "b"}, true, false, "example.com/quota"},
	} {
		o := inWorkload(1, 2)
		for _, pod := range o.Pods {
			if tc.gate != "" {
				pod.Spec.SchedulingGates = append(pod.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: tc.gate})
			}
		}
		front := newGroup("front", 1, 1, nil)
		front.Name, front.UID = "g1-front", "front"
		pod := newPod(front, 0, 0)
		pod.Labels["kueue.x-k8s.io/pod-group-name"] = "w"
		pod.Annotations = o.Pods[0].Annotations
		pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: quota.Gate}}
		o.Groups, o.Pods = append(o.Groups, front), append(o.Pods, pod)
		if !tc.planned {
			o.Groups, o.Pods = o.Groups[1:], o.Pods[2:]
		}
		b, promises := promising(t, o, tc.labels)
		d := b.decide(o)
		checked, looked := d.result.Checked["w"]
		current := looked && checked.Fingerprint == promises.Of(clientKey(o))["w"].Fingerprint("w", o.Pods)
		if current == (tc.gate != "") || (current && checked.Why == "") != tc.has {
			t.Errorf("%s: %v, waiting %v", name, d.result.Checked, d.result.Waiting)
		}
	}
}
