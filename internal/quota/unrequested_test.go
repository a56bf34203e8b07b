// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/trellis-k8s/trellis/test/testutil/gangtest"
)

// admitted is a deployment of one front and three workers, whose Workloads all have quota.
func admitted(t *testing.T) *world {
	w := newWorld(t, group("front", 1, 1, "0"), group("work", 3, 2, "8"))
	w.make(w.groups[0], 0)
	w.make(w.groups[1], 0, 1, 2)
	w.step()
	for _, one := range w.workloads {
		set(one, workloadAdmitted, metav1.ConditionTrue, "")
	}
	return w
}

// The condition counts what the deployment needs, not only what exists.
func TestReportOfWhatIsNeeded(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(w *world)
		want   string
	}{
		"all is there": {func(*world) {}, "all 3 Workloads have quota in queue q"},
		"the pods of a new replica exist": {func(w *world) {
			w.groups[1].Spec.Replicas = 4
			w.make(w.groups[1], 3)
		}, "3 of 4 Workloads have quota in queue q; Workload g-work-3-"},
		"a new replica is due":                   {func(w *world) { w.groups[1].Spec.Replicas = 4 }, "3 of 4 Workloads have quota in queue q; Workload g-work-3-"},
		"a replica is lost: its quota is kept":   {func(w *world) { w.gone(w.groups[1], 1) }, "all 3 Workloads have quota in queue q"},
		"the first one is lost: its quota stays": {func(w *world) { w.gone(w.groups[1], 0) }, "all 3 Workloads have quota in queue q"},
		"a replica runs that is older than the queue": {func(w *world) {
			w.gone(w.groups[1], 2)
			w.workloads = w.workloads[:2]
			w.pods = append(w.pods, gangtest.Pod(w.groups[1], 2, 0), gangtest.Pod(w.groups[1], 2, 1))
		}, "all 2 Workloads have quota in queue q"},
		"the first replica of a component is scaled in": {func(w *world) {
			w.groups[1].Spec.Replicas = 0
			for ordinal := range int32(3) {
				w.gone(w.groups[1], ordinal)
			}
			w.workloads = w.workloads[:1]
		}, "all 1 Workloads have quota in queue q; Workload g-base-"},
	} {
		t.Run(name, func(t *testing.T) {
			w := admitted(t)
			tc.change(w)
			o := w.observation()
			got := o.Report()
			if !strings.HasPrefix(got.Message, tc.want) || got.Reserved != strings.HasPrefix(tc.want, "all ") {
				t.Errorf("got %+v, want %q", got, tc.want)
			}
			if unused := strings.Contains(got.Message, "for 2 more pods than it has"); unused != strings.HasSuffix(tc.want, "g-base-") {
				t.Errorf("got %q: says unused quota: %v", got.Message, unused)
			}
		})
	}
}

// Names hash what a pod asks for, in a form that no version of Go's types of Kubernetes changes: the names here must never change.
func TestNamesAreForGood(t *testing.T) {
	rich := group("work", 1, 1, "8")
	spec := &rich.Spec.Roles[0].Template.Spec
	spec.NodeSelector = map[string]string{"b": "2", "a": "1"}
	spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists, TolerationSeconds: ptr.To[int64](0)}, {Key: "k", Value: "v"}}
	spec.Overhead = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
	spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: ptr.To("claim")}}
	spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "k", Operator: corev1.NodeSelectorOpExists}}}},
	}}}
	roles := rolesOf(rich)
	for got, want := range map[string]string{
		rolesOf(group("work", 1, 1, "8"))[0].name: "work-main-ce4deb16",
		roles[0].name:           "work-main-012987c4",
		ownName(rich, 3, roles): "g-work-3-8451ec63",
	} {
		if got != want {
			t.Errorf("the name is %s, want %s", got, want)
		}
	}
}

// An empty value is as none: which of the two Go's types write differs from version to version.
func TestCanonical(t *testing.T) {
	plain := corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}}
	empty := corev1.PodSpec{
		Containers:  []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{}}}},
		Tolerations: []corev1.Toleration{}, NodeSelector: map[string]string{}, Affinity: &corev1.Affinity{},
	}
	const want = `{"containers":[{"name":"main"}]}`
	for name, spec := range map[string]corev1.PodSpec{"without": plain, "empty": empty} {
		if got := canonical(spec); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
