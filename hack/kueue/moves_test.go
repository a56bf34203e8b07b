// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"encoding/json"
	"errors"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-k8s/trellis/internal/leaving"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// drains marks or unmarks a node as kubectl trellis drain does.
func (h *hall) drains(node string, leaves bool) {
	GinkgoHelper()
	var mark any
	if leaves {
		mark = "now"
	}
	change, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{leaving.AnnotationDrain: mark}}, "spec": map[string]any{"unschedulable": leaves},
	})
	Expect(err).NotTo(HaveOccurred())
	h.answered(func() error {
		return api.Patch(h.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, merge(string(change)))
	})
}

// isReplica returns an error unless the workers are those of one replica, bound to other nodes than the given one.
func (t *team) isReplica(ordinal, avoided string) error {
	GinkgoHelper()
	pods := t.podsOf("g", "Worker")
	if len(pods) != hostsPerRack {
		return fmt.Errorf("%d pods", len(pods))
	}
	for i := range pods {
		if got := pods[i].Labels[render.LabelReplica]; got != ordinal || pods[i].Spec.NodeName == avoided || pods[i].Spec.NodeName == "" {
			return fmt.Errorf("pod %s of replica %s is on %q", pods[i].Name, got, pods[i].Spec.NodeName)
		}
	}
	return nil
}

var _ = Describe("A replica that is to leave its node, with quota of the real Kueue,", Serial, func() {
	It("has a successor first where there is quota for one, and goes first where there is none", func(ctx SpecContext) {
		t := newHall(ctx, 3).newTeam("a", 32)
		t.create(t.graph("g", workers(1)))
		t.ready("g")

		By("draining a node, with quota for a successor")
		before, node := graphs.UIDs(t.pods()), t.podsOf("g", "Worker")[0].Spec.NodeName
		t.drains(node, true)
		t.until("its successor has replaced it", func() error { return t.isReplica("1", node) })
		Expect(graphs.AllNew(before, t.pods(), hostsPerRack)).To(Succeed())
		t.ready("g")
		t.until("it has returned its quota", func() error { return t.uses(16) })
		t.drains(node, false)

		By("draining a node, without quota for a successor")
		t.quotaIs(16)
		before, node = graphs.UIDs(t.pods()), t.podsOf("g", "Worker")[0].Spec.NodeName
		t.drains(node, true)
		t.until("it is recreated in its quota", func() error { return t.isReplica("1", node) })
		Expect(graphs.AllNew(before, t.pods(), hostsPerRack)).To(Succeed())
		t.ready("g")
		t.until("it has its quota", func() error { return t.uses(16) })
		t.until("nothing requests more", func() error {
			if workloads := t.workloads(); len(workloads) > 1 {
				return errors.New("Workload " + workloads[1].Name + " is left")
			}
			return nil
		})
		t.settle()
	}, SpecTimeout(suite.Timeout()))
})
