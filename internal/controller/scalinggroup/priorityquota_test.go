// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// documentedQuotas are the quotas of docs/placement.md, by name.
func documentedQuotas(t *testing.T) map[string]*corev1.ResourceQuota {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "placement.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "### Bounding priorities by namespace")
	_, rest, _ = strings.Cut(rest, "```yaml\n")
	text, _, _ := strings.Cut(rest, "```")
	out := map[string]*corev1.ResourceQuota{}
	for document := range strings.SplitSeq(text, "---\n") {
		quota := &corev1.ResourceQuota{}
		if err := yaml.UnmarshalStrict([]byte(document), quota); err != nil {
			t.Fatal(err)
		}
		out[quota.Name] = quota
	}
	return out
}

// The quotas of the documentation bound the pods of a priority class in a namespace: none of one class, some of another, any of the rest. The
// group's condition names the quota, and the pods are made when it is gone.
func TestPrioritiesAreBoundedByQuota(t *testing.T) {
	s := newServer(t)
	for name, value := range map[string]int32{"critical": 1000, "high": 100, "usual": 0} {
		class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
		s.must(client.IgnoreAlreadyExists(s.c.Create(t.Context(), class))) // by the same test before
	}
	quotas := documentedQuotas(t)
	for _, quota := range quotas {
		quota.Namespace = s.ns
		s.must(s.c.Create(t.Context(), quota))
		quota.Status.Hard, quota.Status.Used = quota.Spec.Hard, corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}
		s.must(s.c.Status().Update(t.Context(), quota)) // the quota controller's part
	}
	for class, want := range map[string]struct {
		pods    int
		refused string
	}{"critical": {0, "no-critical-pods"}, "high": {16, "some-high-pods"}, "usual": {20, ""}} {
		sg := s.startable(group(20, 1))
		sg.Spec.Roles[0].Template.Spec.PriorityClassName = class
		s.must(s.c.Create(t.Context(), sg))
		for range 3 {
			_ = s.reconcile()
		}
		c := meta.FindStatusCondition(s.group().Status.Conditions, trellisv1alpha1.ConditionPodsInSync)
		if got := len(s.pods()); got != want.pods || c == nil || (c.Status == metav1.ConditionFalse) != (want.refused != "") || !strings.Contains(c.Message, want.refused) {
			t.Errorf("class %s: %d pods, PodsInSync = %+v", class, got, c)
		}
		s.must(s.c.Delete(t.Context(), s.group()))
		for _, pod := range s.pods() {
			s.must(s.c.Delete(t.Context(), &pod))
		}
		s.r.refusals.byGroup = nil
	}
}
