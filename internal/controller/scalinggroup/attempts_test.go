// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/trellis-k8s/trellis/internal/assignment"
	"github.com/trellis-k8s/trellis/internal/gang"
	gates "github.com/trellis-k8s/trellis/internal/provider/gates/placer"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/rollout"
)

// A released pod of an earlier attempt than the recorded one makes its replica be recreated. Pods of earlier versions have no attempt.
func TestEarlierAttempts(t *testing.T) {
	pod := func(attempt string, gated bool) *corev1.Pod {
		p := &corev1.Pod{}
		if attempt != "" {
			p.Annotations = map[string]string{render.AnnotationAttempt: attempt}
		}
		if gated {
			p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: render.PlacementGate}}
		}
		return p
	}
	for name, tc := range map[string]struct {
		pods     []*corev1.Pod
		recorded int32
		want     rollout.State
	}{
		"as recorded":             {[]*corev1.Pod{pod("2", false), pod("2", false)}, 2, rollout.Starting},
		"not recorded":            {[]*corev1.Pod{pod("2", false), pod("2", false)}, 0, rollout.Starting},
		"later":                   {[]*corev1.Pod{pod("3", false), pod("3", false)}, 2, rollout.Starting},
		"earlier":                 {[]*corev1.Pod{pod("1", false), pod("1", false)}, 2, rollout.Broken},
		"one of them":             {[]*corev1.Pod{pod("2", false), pod("1", false)}, 2, rollout.Broken},
		"gated":                   {[]*corev1.Pod{pod("1", true), pod("1", true)}, 2, rollout.Waiting},
		"of an earlier version":   {[]*corev1.Pod{pod("", false), pod("", false)}, 2, rollout.Starting},
		"with another annotation": {[]*corev1.Pod{pod("x", false), pod("-1", false)}, 2, rollout.Starting},
	} {
		t.Run(name, func(t *testing.T) {
			sg := group(1, 2)
			replicas := map[int32]*replica{0: {size: 2, pods: map[int32]*corev1.Pod{0: tc.pods[0], 1: tc.pods[1]}}}
			o := observed{sg: sg, replicas: replicas, attempts: attempts{recorded: recordedAttempt(tc.recorded)}}
			if err := (&pass{Reconciler: &Reconciler{}, observed: o}).lookForCreations(t.Context()); err != nil {
				t.Fatal(err)
			}
			if state, why := replicas[0].state(); state != tc.want || state == rollout.Broken && why != superseded {
				t.Errorf("state %v (%s), want %v", state, why, tc.want)
			}
		})
	}
}

// recordedAttempt returns the attempts of a record in which the first replica is bound at an attempt; of an empty one for 0.
func recordedAttempt(n int32) assignment.Replicas {
	record := &assignment.Record{}
	if n > 0 {
		record.Bound = map[assignment.Key]assignment.Place{{Component: group(1, 2).Spec.Component}: {Attempt: n}}
	}
	return record.Replicas(group(1, 2).Spec.Component)
}

// New pods have host names of the next attempt, or those of the replica's other pods. A replica with host names of several attempts is
// recreated: its pods do not find each other.
func TestHostNamesOfAReplica(t *testing.T) {
	sg := group(1, 2)
	build := render.NewBuilder(sg)
	none := map[int32]*replica{}
	first := stepsOf(sg, none, attempts{}, plan(sg, none)).create
	two := attempts{recorded: recordedAttempt(2)}
	third := stepsOf(sg, none, two, plan(sg, none)).create
	two.answered = map[int32]int32{0: 2}
	if second := stepsOf(sg, none, two, plan(sg, none)).create; render.HostAttempt(second[1]) != 2 {
		t.Errorf("the pods of a recorded place have the host names %v", second)
	}
	for index, pod := range first {
		if pod.Spec.Hostname != pod.Name || render.HostAttempt(third[index]) != 3 {
			t.Errorf("host names %s and %s of pod %s", pod.Spec.Hostname, third[index].Spec.Hostname, pod.Name)
		}
	}
	rest := map[int32]*replica{0: {size: 2, pods: map[int32]*corev1.Pod{0: build.PodOfAttempt(0, 0, 3)}}}
	created := stepsOf(sg, rest, attempts{recorded: recordedAttempt(7)}, plan(sg, rest)).create
	if len(created) != 1 || render.HostAttempt(created[0]) != 3 {
		t.Errorf("the rest of a replica has the host names %v", created)
	}
	mixed := map[int32]*replica{0: {size: 2, pods: map[int32]*corev1.Pod{0: build.Pod(0, 0), 1: build.PodOfAttempt(0, 1, 2)}}}
	if err := (&pass{Reconciler: &Reconciler{}, observed: observed{sg: sg, replicas: mixed}}).lookForCreations(t.Context()); err != nil {
		t.Fatal(err)
	}
	if state, why := mixed[0].state(); state != rollout.Broken || why != mixedHosts {
		t.Errorf("state %v (%s)", state, why)
	}
}

// A replica is created at the recorded attempt of its answer, while its gang is assigned, and by pods with the host names of that attempt.
func TestReplicasAreCreatedAsRecorded(t *testing.T) {
	sg := group(1, 2)
	key := assignment.Key{Component: sg.Spec.Component}
	for name, tc := range map[string]struct {
		attempt, hosts int32
		change         func(*assignment.Record)
		want           bool
	}{
		"as recorded":                  {2, 2, func(*assignment.Record) {}, true},
		"it has no answer":             {0, 2, func(*assignment.Record) {}, false},
		"its answer is of another one": {1, 2, func(*assignment.Record) {}, false},
		"its host names are":           {2, 1, func(*assignment.Record) {}, false},
		"it is evicted":                {2, 2, func(r *assignment.Record) { r.Evict("gang", nil, "no", time.Now()) }, false},
		"it is not recorded":           {2, 2, func(r *assignment.Record) { *r = *(&assignment.Record{}).Clone() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := (&assignment.Record{}).Clone()
			r.Assign("gang", key, nil, []string{"a", "b"}, time.Now())
			r.Raise(key, 2)
			tc.change(r)
			one := &planned{pods: map[int32]*corev1.Pod{}}
			for index := range int32(2) {
				one.pods[index] = render.NewBuilder(sg).PodOfAttempt(0, index, tc.hosts)
			}
			if got := one.recordedAt(tc.attempt, r.Replicas(sg.Spec.Component)); got != tc.want || got && (one.gang != "gang" || len(one.place.Hosts) != 2) {
				t.Errorf("%v in gang %q at %+v, want %v", got, one.gang, one.place, tc.want)
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
	pin := gang.Pin{Gang: "g", Labels: map[string]string{"rack": "r"}}
	pod := &corev1.Pod{Spec: corev1.PodSpec{SchedulerName: "default-scheduler", Priority: ptr.To[int32](3)}}
	gang.AsPlanned(pod, group(1, 1))
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
			expected := expectedOf(gates.Placer{}, pod, pin)
			stored := expected.DeepCopy()
			tc.change(stored)
			if got := differs(expected, stored); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}
