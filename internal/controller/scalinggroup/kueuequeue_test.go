// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider"
	gates "github.com/trellis-k8s/trellis/internal/provider/gates/placer"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/quota"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/rollout"
	"github.com/trellis-k8s/trellis/internal/scheduler"
)

// queued is a group in a queue of Kueue, of the deployment g.
func queued(replicas, size int32) *trellisv1alpha1.ScalingGroup {
	sg := group(replicas, size)
	sg.Annotations = map[string]string{render.AnnotationKueueQueue: "q"}
	sg.OwnerReferences = []metav1.OwnerReference{{Kind: "DynamoGraphDeployment", Name: "g", UID: "g-uid", Controller: ptr.To(true)}}
	return sg
}

// sibling is another group of the same deployment.
func sibling(name string) *trellisv1alpha1.ScalingGroup {
	sg := queued(1, 1)
	sg.Name, sg.UID, sg.Spec.Component = "g-"+name, types.UID(name), name
	return sg
}

// clusterOf has scaling groups of the deployment g, which has more components, too.
func clusterOf(t *testing.T, components []string, groups ...*trellisv1alpha1.ScalingGroup) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{trellisv1alpha1.AddToScheme, nvidiav1beta1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	dgd := &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g", UID: "g-uid"}}
	build := fake.NewClientBuilder().WithScheme(scheme).WithIndex(&trellisv1alpha1.ScalingGroup{}, scheduler.IndexGroupsByGraph, func(o client.Object) []string {
		return []string{string(metav1.GetControllerOf(o).UID)}
	})
	for _, sg := range groups {
		components = append(components, sg.Spec.Component)
		build.WithObjects(sg.DeepCopy())
	}
	for _, name := range components {
		dgd.Spec.Components = append(dgd.Spec.Components, nvidiav1beta1.ComponentSpec{Name: name})
	}
	return build.WithObjects(dgd).Build()
}

// names are what steps create and delete.
func (s *steps) names() []string {
	var out []string
	for _, pod := range s.create {
		out = append(out, "+"+pod.Name)
	}
	for _, d := range s.delete {
		out = append(out, "-"+d.pod.Name)
	}
	slices.Sort(out)
	return out
}

// While Workloads cannot be read nothing is made, so nothing that serves is taken down; scale-in continues.
func TestNothingIsReplacedWithoutKueue(t *testing.T) {
	for name, tc := range map[string]struct {
		replicas int32
		pods     [][]state
		want     []string
	}{
		"an update":        {2, [][]state{{old(running)}, {old(running)}}, nil},
		"a failed replica": {2, [][]state{{running}, {failed}}, nil},
		"a new replica":    {2, [][]state{{running}}, nil},
		"scale-in":         {1, [][]state{{running}, {running}}, []string{"-g-worker-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			sg := queued(tc.replicas, 1)
			r := &Reconciler{Providers: provider.New(provider.Options{}, provider.All{Placers: []provider.Placer{gates.Placer{}}})}
			if got := stepsIn(t, r, sg, tc.pods); !cmp.Equal(got, tc.want) {
				t.Errorf("steps %v, want %v", got, tc.want)
			}
		})
	}
}

// stepsIn are the steps for a group whose replicas have pods in such states.
func stepsIn(t *testing.T, r *Reconciler, sg *trellisv1alpha1.ScalingGroup, states [][]state) []string {
	t.Helper()
	var pods []*corev1.Pod
	for ordinal, of := range states {
		pods = append(pods, podsOf(sg, int32(ordinal), of...)...)
	}
	replicas := replicasOf(sg, pods, func(*corev1.Pod) bool { return false })
	q, err := r.queueOf(t.Context(), sg)
	if err != nil {
		t.Fatal(err)
	}
	p := &pass{Reconciler: r, observed: observed{sg: sg, pods: found{own: pods}, replicas: replicas, queue: q}}
	p.stepsFor(t.Context(), plan(sg, replicas))
	return p.steps.names()
}

// A queue is closed while no quota is asked for the deployment.
func TestClosedQueues(t *testing.T) {
	many := []*trellisv1alpha1.ScalingGroup{queued(1, 1)}
	for i := range quota.MaxPodSets {
		many = append(many, sibling(fmt.Sprintf("more-%d", i)))
	}
	grove := sibling("other")
	grove.Spec.Provider = specs.Grove.Name
	for name, tc := range map[string]struct {
		missing []string
		groups  []*trellisv1alpha1.ScalingGroup
		closed  bool
	}{
		"one group":               {nil, many[:1], false},
		"another is missing":      {[]string{"other"}, many[:1], true},
		"too many roles":          {nil, many, true},
		"pods are made by others": {nil, []*trellisv1alpha1.ScalingGroup{many[0], grove}, true},
	} {
		t.Run(name, func(t *testing.T) {
			q, err := readQueue(t.Context(), clusterOf(t, tc.missing, tc.groups...), tc.groups[0], noWorkloads{})
			if err != nil || q.closed != tc.closed || !q.named {
				t.Errorf("closed %v, %v", q.closed, err)
			}
		})
	}
}

// noWorkloads is a cluster without Workloads.
type noWorkloads struct{ client.Reader }

func (noWorkloads) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

// A replica of a component without a place of its own waits while Kueue holds it: it is the first that goes, and loses nothing.
func TestHeldByKueueAlone(t *testing.T) {
	held := func(pod *corev1.Pod) { pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: quota.Gate}} }
	for name, tc := range map[string]struct {
		pods []state
		want rollout.State
	}{
		"held":             {[]state{held, held}, rollout.Waiting},
		"one of them runs": {[]state{held, running}, rollout.Starting},
		"none is held":     {[]state{unready, unready}, rollout.Starting},
	} {
		sg := group(1, 2)
		sg.Spec.Topology = nil
		replicas := replicasOf(sg, podsOf(sg, 0, tc.pods...), func(*corev1.Pod) bool { return false })
		if got, _ := replicas[0].state(); got != tc.want {
			t.Errorf("%s: state %d, want %d", name, got, tc.want)
		}
	}
}

// An update whose surplus replica gets no quota continues in place, to its end and no further.
func TestUpdateWithinQuota(t *testing.T) {
	sg := surge(group(2, 1))
	replicas := func(surplus *replica) map[int32]*replica {
		pods := slices.Concat(podsOf(sg, 0, old(running)), podsOf(sg, 1, old(running)), podsOf(sg, 2, gated))
		out := replicasOf(sg, pods, func(*corev1.Pod) bool { return false })
		out[0].keepsQuota, out[1].keepsQuota = true, true
		out[2].noQuota = surplus.noQuota
		return out
	}
	look := func(of map[int32]*replica) (inPlace bool, removed int, says string) {
		next := plan(sg, of)
		sg.Status = statusOf(sg, of, next, nil)
		c := meta.FindStatusCondition(sg.Status.Conditions, trellisv1alpha1.ConditionRolledOut)
		return sg.Status.Progress.InPlace, len(next.Remove), c.Message
	}
	if inPlace, removed, says := look(replicas(&replica{})); inPlace || removed > 0 || strings.Contains(says, saysInPlace) {
		t.Errorf("it has quota: in place %v, %d go: %s", inPlace, removed, says)
	}
	if inPlace, removed, says := look(replicas(&replica{noQuota: true})); !inPlace || removed > 0 || !strings.Contains(says, saysInPlace) {
		t.Errorf("it has none: in place %v, %d go: %s", inPlace, removed, says)
	}
	next := plan(sg, replicas(&replica{noQuota: true}))
	var got []int
	for _, r := range next.Remove {
		got = append(got, r.Ordinal)
	}
	if diff := cmp.Diff([]int{2, 1}, got); diff != "" {
		t.Errorf("the surplus replica and one of the others go (-want +got):\n%s", diff)
	}
	if inPlace, _, _ := look(replicas(&replica{})); !inPlace {
		t.Error("it is forgotten during the update")
	}
	sg.Spec.Revision = "newer"
	if inPlace, removed, _ := look(replicas(&replica{})); inPlace || removed > 1 {
		t.Errorf("another update: in place %v, %d go", inPlace, removed)
	}
}
