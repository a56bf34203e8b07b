// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/test/testutil/quotas"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// documentedQuotas are the quotas of docs/placement.md, by name.
func documentedQuotas() map[string]*corev1.ResourceQuota {
	GinkgoHelper()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "placement.md"))
	Expect(err).NotTo(HaveOccurred())
	_, rest, _ := strings.Cut(string(page), "### Bounding priorities by namespace")
	_, rest, _ = strings.Cut(rest, "```yaml\n")
	text, _, _ := strings.Cut(rest, "```")
	out := map[string]*corev1.ResourceQuota{}
	for document := range strings.SplitSeq(text, "---\n") {
		quota := &corev1.ResourceQuota{}
		Expect(yaml.UnmarshalStrict([]byte(document), quota)).To(Succeed())
		out[quota.Name] = quota
	}
	return out
}

var _ = Describe("Documented quotas of priority classes", func() {
	It("bound the pods of a class in a namespace, and the condition names the quota", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		s := newServer(ctx)
		for name, value := range map[string]int32{"critical": 1000, "high": 100, "usual": 0} {
			class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
			Expect(client.IgnoreAlreadyExists(s.c.Create(ctx, class))).To(Succeed()) // by the same spec before
		}
		documented := documentedQuotas()
		for _, quota := range documented {
			quota.Namespace = s.ns
			quotas.Enforce(ctx, s.c, quota)
		}
		for class, want := range map[string]struct {
			pods    int
			refused string
		}{"critical": {0, "no-critical-pods"}, "high": {16, "some-high-pods"}, "usual": {20, ""}} {
			sg := s.startable(group(20, 1))
			sg.Spec.Roles[0].Template.Spec.PriorityClassName = class
			Expect(s.c.Create(ctx, sg)).To(Succeed())
			for range 3 {
				_ = s.reconcile()
			}
			c := meta.FindStatusCondition(s.group().Status.Conditions, trellisv1alpha1.ConditionPodsInSync)
			got := len(s.pods())
			Expect(got).To(Equal(want.pods), "pods of class %s", class)
			Expect(c).To(HaveField("Message", ContainSubstring(want.refused)), "class %s", class)
			Expect(c.Status == metav1.ConditionFalse).To(Equal(want.refused != ""), "class %s: %+v", class, c)
			Expect(s.c.Delete(ctx, s.group())).To(Succeed())
			for _, pod := range s.pods() {
				Expect(s.c.Delete(ctx, &pod)).To(Succeed())
			}
			s.r.refusals.byGroup = nil
		}
	})
})
