// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"encoding/json"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/rollout"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// longest are 16 levels, as many as a topology may have, and for each host labels of 63 characters. Hosts share the broader ones: 8 to a rack, and so on.
func longest() (levels []trellisv1alpha1.ResolvedLevel, labels func(host string) map[string]string) {
	for i := range 16 {
		levels = append(levels, trellisv1alpha1.ResolvedLevel{Domain: fmt.Sprintf("level-%d", i), Key: fmt.Sprintf("example.com/level-%d", i)})
	}
	return levels, func(host string) map[string]string {
		var n int
		if _, err := fmt.Sscanf(host, "host-%d", &n); err != nil {
			return nil
		}
		out := map[string]string{}
		for i, level := range levels {
			out[level.Key] = fmt.Sprintf("%063d", n>>(3*(15-i)))
		}
		return out
	}
}

// At the most replicas, and at those of earlier faults, with the longest labels that there may be, every status is stored, read back, says what it leaves
// out, and is not written again.
var _ = Describe("The status of a group at the maximum", func() {
	type size struct {
		replicas, size int32
		cut            string
	}
	DescribeTable("is stored and tells what it leaves out, of so many replicas:", func(ctx SpecContext, c size) {
		s := newServer(ctx)
		sg := s.startable(group(c.replicas, c.size))
		levels, labels := longest()
		sg.Spec.Topology.Levels, sg.Spec.Topology.PackDomain = levels, "level-14"
		Expect(s.c.Create(ctx, sg)).To(Succeed())
		replicas := map[int32]*replica{}
		template := podsOf(sg, 0, running)[0]
		for n := range c.replicas {
			pod := template.DeepCopy()
			pod.Name, pod.Labels[render.LabelReplica], pod.Spec.NodeName = render.PodName(sg, n, 0), fmt.Sprint(n), fmt.Sprintf("host-%d", n)
			replicas[n] = &replica{ordinal: n, size: 1, pods: map[int32]*corev1.Pod{0: pod}}
		}
		for i := range maxFailed {
			sg.Status.FailedReplicas = append(sg.Status.FailedReplicas, trellisv1alpha1.FailedReplica{
				Replica: int32(i), Failures: 1, Reason: strings.Repeat("r", 256), NewestPod: metav1.Now(), RetryAt: metav1.Now(), Revision: strings.Repeat("r", 63),
			})
		}

		status := statusOf(sg, replicas, rollout.Plan{}, labels, nil)
		before := sg.DeepCopy()
		before.Status = trellisv1alpha1.ScalingGroupStatus{}
		_, err := s.r.report(ctx, before, status)
		Expect(err).NotTo(HaveOccurred())
		stored := &trellisv1alpha1.ScalingGroup{}
		Expect(s.r.Live.Get(ctx, client.ObjectKeyFromObject(sg), stored)).To(Succeed())
		raw, err := json.Marshal(stored)
		Expect(err).NotTo(HaveOccurred())
		GinkgoWriter.Printf("%d bytes are stored, %d are listed, %d domains\n", len(raw), len(stored.Status.Placements), len(stored.Status.FurtherPlacements))
		Expect(len(raw)).To(BeNumerically("<=", 1<<20), "bytes that are stored")

		places := gang.Placements(&stored.Status)
		Expect(places).To(HaveLen(int(c.replicas)))
		for n, p := range places {
			whole := gang.LevelsOf(sg.Spec.Topology).PathOf(labels(fmt.Sprintf("host-%d", n))).String()
			if int(p.Replica) != n || !p.Bound || p.Domain == "" || !strings.HasPrefix(whole+"/", p.Domain+"/") {
				Fail(fmt.Sprintf("replica %d is at %s, and is listed as %+v", n, whole, p))
			}
		}
		condition := meta.FindStatusCondition(stored.Status.Conditions, trellisv1alpha1.ConditionPlacementsComplete)
		if c.cut == "" {
			Expect(condition).To(BeNil())
		} else {
			Expect(condition).To(HaveField("Message", ContainSubstring(c.cut)))
		}
		again := statusOf(stored, replicas, rollout.Plan{}, labels, nil)
		Expect(equality.Semantic.DeepEqual(again, stored.Status)).To(BeTrue(), "it would be written again")
	},
		Entry("100, listed in full", SpecTimeout(suite.Timeout()), size{100, 1, ""}),
		Entry("2300", SpecTimeout(suite.Timeout()), size{2300, 1, "down to level level-13 only"}),
		Entry("10000, the most by the default of --max-pods-per-graph", SpecTimeout(suite.Timeout()), size{10000, 1, "down to level level-13 only"}),
		Entry("65536, the most by the schema", suite.Slow, SpecTimeout(suite.Timeout()), size{65536, 1, "down to level level-12 only"}),
	)
})
