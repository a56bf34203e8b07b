// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"context"
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
	"github.com/trellis-k8s/trellis/test/testutil/simulated"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// packed are the enforcements of the deployments that the earlier version creates with a kvTransferPolicy and a constraint, by name.
var packed = map[string]string{
	"unstated":  "",
	"required":  `, "enforcement": "required"`,
	"preferred": `, "enforcement": "preferred", "preferredWeight": 0.5`,
}

// loose is a deployment that the earlier version creates with a kvTransferPolicy, and whose workers nothing packs: the kube-scheduler
// chooses their nodes.
const loose = "loose"

var _ = DescribeTable("Deployments of an earlier version ignore their kvTransferPolicy, and later ones are placed by it", Serial,
	func(ctx SpecContext, commit string) {
		former, now := earlier(ctx, commit), present()
		w := newWorld(ctx, "kv-"+commit, former, simulated.Shape{Zones: 1, Blocks: 1, Racks: 24, Hosts: 4, GPUs: 8})
		for name, enforcement := range packed { // a rack with both roles, one with decode alone, and one with prefill alone: all full
			w.create(ctx, name, roles(graphs.Worker(1, 2, 8, "rack"), graphs.Worker(1, 2, 8, "rack")), withPolicy(enforcement))
			w.settled(ctx)
			w.scale(ctx, name, "Decode", 3, 8)
			w.settled(ctx)
			w.scale(ctx, name, "Prefill", 3, 12)
			w.settled(ctx)
		}
		components := roles(graphs.Worker(1, 1, 8, ""), graphs.Worker(1, 1, 8, ""))
		components["Frontend"] = graphs.Frontend(1)
		components["Frontend"].TopologyConstraint = &nvidiav1alpha1.ServiceTopologyConstraint{PackDomain: "rack"}
		w.create(ctx, loose, components, withPolicy(packed["required"]),
			func(dgd *nvidiav1alpha1.DynamoGraphDeployment) { dgd.Spec.TopologyConstraint.PackDomain = "" })
		w.settled(ctx)
		alone := map[string]int{}
		for name := range packed {
			alone[name] = w.withoutPrefill(ctx, name)
			Expect(alone[name]).NotTo(BeZero(), "decode replicas of %s without prefill in their rack: the policy must not be met", name)
		}

		By("the present version takes over")
		before := w.bound(ctx)
		w.becomes(ctx, now)
		w.recorded(ctx)
		w.unpaired(ctx)
		w.settled(ctx)
		Expect(w.bound(ctx)).To(Equal(before), "the pods after the upgrade")
		Expect(w.lost(before)).To(BeEmpty(), "pods that were deleted by the upgrade")

		By("one role grows, and a replica loses a pod")
		for name := range packed {
			w.scale(ctx, name, "Decode", 4, 14)
		}
		w.scale(ctx, loose, "Decode", 2, 4)
		w.settled(ctx)
		Expect(w.lost(before)).To(BeEmpty(), "pods that were deleted by scaling out")
		for name := range packed { // no rack with replicas of the deployment has room
			Expect(w.withoutPrefill(ctx, name)).To(Equal(alone[name]+1), "decode replicas of %s without prefill in their rack", name)
		}
		w.lose(ctx, "required-decode-1-1")
		w.settled(ctx)
		w.unpaired(ctx)

		By("deployments that are created from now on follow their policies")
		for name, enforcement := range packed {
			w.create(ctx, "new-"+name, roles(graphs.Worker(3, 2, 8, "rack"), graphs.Worker(3, 2, 8, "rack")), withPolicy(enforcement))
		}
		w.settled(ctx)
		for name := range packed {
			Expect(w.withoutPrefill(ctx, "new-"+name)).To(BeZero(), "decode replicas of new-%s without prefill in their rack", name)
		}
		Expect(w.byPolicy(ctx)).To(Equal([]string{"new-preferred", "new-required", "new-unstated"}), "deployments that a policy places")

		By("the earlier version returns, and the present one takes over again")
		before = w.bound(ctx)
		former.Keep = []string{keptDefinition}
		w.becomes(ctx, former)
		w.settled(ctx)
		w.becomes(ctx, now)
		w.recorded(ctx)
		w.settled(ctx)
		Expect(w.lost(before)).To(BeEmpty(), "pods that were deleted on the way")
	},
	Entry("v0.2.0", SpecTimeout(3*suite.Timeout()), "aebbfd5b"),
	Entry("the last without GraphPlacements", SpecTimeout(3*suite.Timeout()), "e533abc"),
)

// roles are a prefill and a decode component.
func roles(prefill, decode *nvidiav1alpha1.ServiceSpec) graphs.Components {
	prefill.SubComponentType, decode.SubComponentType = "prefill", "decode"
	return graphs.Components{"Prefill": prefill, "Decode": decode}
}

// withPolicy has KV caches transferred inside a rack.
func withPolicy(enforcement string) func(*nvidiav1alpha1.DynamoGraphDeployment) {
	return func(dgd *nvidiav1alpha1.DynamoGraphDeployment) {
		dgd.Spec.Experimental = &nvidiav1alpha1.FreeObject{RawExtension: runtime.RawExtension{
			Raw: fmt.Appendf(nil, `{"kvTransferPolicy": {"clusterTopologyName": %q, "domain": "rack"%s}}`, topology, enforcement)}}
	}
}

// withoutPrefill counts the decode replicas of a deployment that have no prefill replica in their rack.
func (w *world) withoutPrefill(ctx context.Context, name string) int {
	GinkgoHelper()
	racks := w.domains(ctx, rackKey)
	prefill, decode := map[string]bool{}, map[string]string{}
	for _, pod := range w.pods(ctx) {
		rack := racks[pod.Spec.NodeName]
		switch {
		case pod.Labels[render.LabelGraph] != name || pod.DeletionTimestamp != nil:
		case pod.Labels[render.LabelComponent] == "Prefill":
			prefill[rack] = true
		default:
			decode[pod.Labels[render.LabelReplica]] = rack
		}
	}
	n := 0
	for _, rack := range decode {
		if !prefill[rack] {
			n++
		}
	}
	return n
}

// byPolicy are the deployments with a component that a kvTransferPolicy places.
func (w *world) byPolicy(ctx context.Context) (names []string) {
	GinkgoHelper()
	list := &trellisv1alpha1.ScalingGroupList{}
	Expect(w.c.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
	for i := range list.Items {
		if sg := &list.Items[i]; constraint.Transfers(sg.Spec.Topology) {
			names = append(names, sg.Spec.Graph)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// unpaired waits until the present version has written that all replicas are placed, and of no deployment that its policy is not met.
func (w *world) unpaired(ctx context.Context) {
	GinkgoHelper()
	Eventually(func() error {
		for name := range packed {
			dgd := w.dgd(name)
			if err := w.c.Get(ctx, client.ObjectKeyFromObject(dgd), dgd); err != nil {
				return err
			}
			placed := meta.FindStatusCondition(dgd.Status.Conditions, nvidiav1alpha1.ConditionPlaced)
			if placed == nil || placed.Status != "True" || strings.Contains(placed.Message, "kvTransferPolicy") {
				return fmt.Errorf("deployment %s has the condition %+v", name, placed)
			}
		}
		return nil
	}, suite.Timeout()).WithContext(ctx).Should(Succeed())
	Expect(w.byPolicy(ctx)).To(BeEmpty(), "deployments that a policy places")
}
