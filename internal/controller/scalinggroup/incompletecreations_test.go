// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/trellis-k8s/trellis/internal/gang"
	gates "github.com/trellis-k8s/trellis/internal/provider/gates/placer"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/rollout"
)

// A replica whose pods were created in two places is recreated, and one of which a read past the cache shows more is left alone.
func TestStatesOfCreations(t *testing.T) {
	created := func(creation string, uid types.UID) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid, Annotations: map[string]string{render.AnnotationCreation: creation}}}
	}
	ours := func(pod *corev1.Pod) bool { return pod.Annotations[render.AnnotationCreation] == "our-1" }
	for name, tc := range map[string]struct {
		pods  []*corev1.Pod
		live  map[int32]types.UID
		state rollout.State
		// foreign: another operator created some of them.
		foreign bool
	}{
		"all of it":             {[]*corev1.Pod{created("our-1", "a"), created("our-1", "b")}, nil, rollout.Starting, false},
		"in two places":         {[]*corev1.Pod{created("our-1", "a"), created("its-1", "b")}, nil, rollout.Broken, true},
		"a member is lost":      {[]*corev1.Pod{created("our-1", "a")}, map[int32]types.UID{0: "a"}, rollout.Broken, false},
		"begun by another":      {[]*corev1.Pod{created("its-1", "a")}, map[int32]types.UID{0: "a"}, rollout.Broken, true},
		"ended by another":      {[]*corev1.Pod{created("its-1", "a")}, map[int32]types.UID{0: "a", 1: "b"}, rollout.Starting, true},
		"another one meanwhile": {[]*corev1.Pod{created("its-1", "a")}, map[int32]types.UID{0: "c", 1: "b"}, rollout.Broken, true},
		"the rest of its gang":  {[]*corev1.Pod{created("our-2", "a"), created("our-2", "b")}, nil, rollout.Broken, true},
		"one is gated":          {[]*corev1.Pod{created("our-1", "a"), {}}, nil, rollout.Starting, false},
	} {
		t.Run(name, func(t *testing.T) {
			one := &replica{size: 2, pods: map[int32]*corev1.Pod{}}
			for i, pod := range tc.pods {
				one.pods[int32(i)] = pod
			}
			creations, foreign := creationsAmong(one, ours)
			one.beingMade = showsMore(tc.live, one)
			switch {
			case len(creations) > 1:
				one.misplaced = mixed
			case creations["our-2"]:
				one.misplaced = withoutRest
			}
			if state, why := one.state(); state != tc.state || foreign != tc.foreign {
				t.Errorf("state %v (%s), foreign %v; want %v, %v", state, why, foreign, tc.state, tc.foreign)
			}
		})
	}
}

// Pods that the API server has and the cache does not show, or not yet, are not taken as gone.
func TestPodsThatTheCacheDoesNotShow(t *testing.T) {
	pod := func(uid types.UID) *corev1.Pod { return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}} }
	for name, tc := range map[string]struct {
		live map[int32]types.UID
		one  *replica
		want bool
	}{
		"neither shows any":           {nil, nil, false},
		"the cache shows none":        {map[int32]types.UID{0: "a"}, nil, true},
		"the cache shows one":         {map[int32]types.UID{0: "a", 1: "b"}, &replica{pods: map[int32]*corev1.Pod{0: pod("a")}}, true},
		"one is gone":                 {map[int32]types.UID{0: "a"}, &replica{pods: map[int32]*corev1.Pod{0: pod("a")}}, false},
		"all are gone but the cache":  {nil, &replica{pods: map[int32]*corev1.Pod{0: pod("a")}}, false},
		"the cache shows it leaving":  {map[int32]types.UID{0: "a"}, &replica{leaving: []*corev1.Pod{pod("a")}}, false},
		"the cache shows it lost":     {map[int32]types.UID{0: "a"}, &replica{lost: []*corev1.Pod{pod("a")}}, false},
		"the cache shows its earlier": {map[int32]types.UID{0: "b"}, &replica{leaving: []*corev1.Pod{pod("a")}}, true},
	} {
		if got := showsOthers(tc.live, tc.one); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

// Pods of one kind differ in their names, their environment and what Trellis labels them with, and in nothing that admission goes by.
func TestKinds(t *testing.T) {
	pod := func(change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", Labels: map[string]string{"trellis.dev/role": "x", "team": "t"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "i", Env: []corev1.EnvVar{{Name: "A"}}}}},
		}
		change(p)
		return p
	}
	same := kindOf(pod(func(*corev1.Pod) {}))
	for name, tc := range map[string]struct {
		change func(*corev1.Pod)
		same   bool
	}{
		"name and environment": {func(p *corev1.Pod) { p.Name, p.Spec.Hostname, p.Spec.Containers[0].Env = "b", "b", nil }, true},
		"labels of Trellis":    {func(p *corev1.Pod) { p.Labels["trellis.dev/role"], p.Labels["nvidia.com/x"] = "y", "z" }, true},
		"another label":        {func(p *corev1.Pod) { p.Labels["team"] = "u" }, false},
		"another namespace":    {func(p *corev1.Pod) { p.Namespace = "other" }, false},
		"another image":        {func(p *corev1.Pod) { p.Spec.Containers[0].Image = "j" }, false},
		"another class":        {func(p *corev1.Pod) { p.Spec.PriorityClassName = "high" }, false},
		"other requests": {func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("1")}
		}, false},
	} {
		if got := kindOf(pod(tc.change)) == same; got != tc.same {
			t.Errorf("%s: of one kind %v, want %v", name, got, tc.same)
		}
	}
}

// A pod was stored that differs from the answer to the dry run: the next pods of its kind are created gated, and the first of them tells
// what is stored. The dry run, which was wrong, is not asked again.
func TestKindsThatDiffer(t *testing.T) {
	pod := func(node map[string]string) *corev1.Pod { return &corev1.Pod{Spec: corev1.PodSpec{NodeSelector: node}} }
	k := kinds{}
	k.learn("a", pod(nil))
	k.differ("a")
	if !k.triedOut("a") || k.stored("a") != nil {
		t.Errorf("tried out %v, stored %v", k.triedOut("a"), k.stored("a"))
	}
	want := map[string]string{"pool": "x"}
	k.learn("a", pod(want))
	if diff := cmp.Diff(want, k.stored("a").NodeSelector); diff != "" {
		t.Error(diff)
	}
}

// What the API server has stored of the first pod of a kind decides whether further ones are created in place.
func TestLearnt(t *testing.T) {
	for name, tc := range map[string]struct {
		spec  corev1.PodSpec
		known bool
	}{
		"as it was sent":      {corev1.PodSpec{SchedulingGates: []corev1.PodSchedulingGate{{Name: render.PlacementGate}}}, true},
		"with another's gate": {corev1.PodSpec{SchedulingGates: []corev1.PodSchedulingGate{{Name: "kueue.x-k8s.io/admission"}}}, false},
		"on a node":           {corev1.PodSpec{NodeName: "n"}, false},
		"with a claim":        {corev1.PodSpec{ResourceClaims: []corev1.PodResourceClaim{{Name: "c"}}}, false},
		"with a volume claim": {corev1.PodSpec{Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{},
		}}}}, false},
		"with a rule about others": {corev1.PodSpec{Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{}}}, false},
		"spread":                   {corev1.PodSpec{TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{}}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			k := kinds{}
			k.learn("kind", &corev1.Pod{Spec: tc.spec})
			k.learn("kind", &corev1.Pod{Spec: corev1.PodSpec{NodeName: "later"}})
			if got := k.stored("kind"); (got != nil) != tc.known || got != nil && len(got.SchedulingGates) > 0 {
				t.Errorf("known: %v", got)
			}
		})
	}
}

// An answer that differs from the plan in what decides about the place, or about when the pod is scheduled, ends the gang.
func TestAnswersAreCompared(t *testing.T) {
	release := gang.Release{New: true, Pin: gang.Pin{Gang: "g", Labels: map[string]string{"rack": "r"}}, Pod: &corev1.Pod{
		Spec: corev1.PodSpec{SchedulerName: "default-scheduler", Priority: ptr.To[int32](3)},
	}}
	for name, tc := range map[string]struct {
		change func(*corev1.Pod)
		want   string
	}{
		"as planned":          {func(pod *corev1.Pod) { pod.UID, pod.Labels = "u", map[string]string{"a": "b"} }, ""},
		"with a gate":         {func(pod *corev1.Pod) { pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "x"}} }, `it has the scheduling gate "x"`},
		"on a node":           {func(pod *corev1.Pod) { pod.Spec.NodeName = "n" }, "it names its node"},
		"another scheduler":   {func(pod *corev1.Pod) { pod.Spec.SchedulerName = "x" }, `its scheduler is "x" instead of "default-scheduler"`},
		"another priority":    {func(pod *corev1.Pod) { pod.Spec.Priority = ptr.To[int32](4) }, "its priority is 4 instead of 3"},
		"without its gang":    {func(pod *corev1.Pod) { pod.Annotations = nil }, "it lacks the name of its gang"},
		"for other nodes":     {func(pod *corev1.Pod) { pod.Spec.NodeSelector = nil }, "it asks for something else, or for other nodes"},
		"with more tolerated": {func(pod *corev1.Pod) { pod.Spec.Tolerations = []corev1.Toleration{{Key: "x"}} }, "it asks for something else, or for other nodes"},
		"with overhead": {func(pod *corev1.Pod) {
			pod.Spec.Overhead = corev1.ResourceList{"cpu": resource.MustParse("1")}
		}, "it asks for something else, or for other nodes"},
	} {
		t.Run(name, func(t *testing.T) {
			expected := expectedOf(gates.Placer{}, release)
			stored := expected.DeepCopy()
			tc.change(stored)
			if got := differs(expected, stored); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}
