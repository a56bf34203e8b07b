// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

var _ = Describe("A user edits objects that are being deleted and that a finalizer of theirs keeps", func() {
	const finalizers = `{"metadata":{"finalizers":["example.com/mine"]}}`

	// Admission is not asked about these edits (config/webhook), and nothing of them is acted on: no replica, pod template, provider or number
	// of an adapter. The graph that is created afterwards is placed.
	It("and nothing is placed, created or changed for them", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		p := newInPlaceWorld(ctx, nil)
		scaled := graphs.Worker(1, 1, 1, "")
		scaled.ScalingAdapter = &nvidiav1alpha1.ScalingAdapter{Enabled: true}
		dgd := p.graph("zone", graphs.Components{"Edited": graphs.Worker(1, 1, 1, ""), "Scaled": scaled})
		Expect(p.c.Create(ctx, dgd)).To(Succeed())
		p.open(2)
		other := p.graph("zone", graphs.Components{"Scaled": scaled})
		other.Name = "other"
		Expect(p.c.Create(ctx, other)).To(Succeed())
		p.open(3)
		patch := func(object client.Object, name, text string) {
			GinkgoHelper()
			object.SetNamespace(p.namespace)
			object.SetName(name)
			p.until(name+" can be edited", func() error {
				return p.c.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(text)))
			})
		}
		unfinalized := func(object client.Object) {
			DeferCleanup(func(ctx SpecContext) {
				patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
				Expect(client.IgnoreNotFound(p.c.Patch(ctx, object, patch))).To(Succeed())
			})
		}
		adapters := []string{dgd.Name + "-scaled", "other-scaled"}
		for _, name := range adapters {
			adapter := &nvidiav1beta1.DynamoGraphDeploymentScalingAdapter{}
			patch(adapter, name, finalizers)
			unfinalized(adapter)
		}
		patch(dgd, dgd.Name, finalizers)
		unfinalized(dgd)
		generations := func() map[string]int64 {
			groups := &trellisv1alpha1.ScalingGroupList{}
			Expect(p.c.List(ctx, groups, client.InNamespace(p.namespace))).To(Succeed())
			all := map[string]int64{}
			for i := range groups.Items {
				all[groups.Items[i].Name] = groups.Items[i].Generation
			}
			return all
		}

		Expect(p.c.Delete(ctx, dgd)).To(Succeed())
		gone := &nvidiav1beta1.DynamoGraphDeploymentScalingAdapter{}
		gone.SetNamespace(p.namespace)
		gone.SetName("other-scaled")
		Expect(p.c.Delete(ctx, gone)).To(Succeed())
		before, pods := generations(), p.uids(p.namespace)

		patch(dgd, dgd.Name, `{"metadata":{"annotations":{"trellis.dev/provider":"PodGroup"}},"spec":{"services":{
			"Edited":{"replicas":2,"extraPodSpec":{"mainContainer":{"image":"example.com/other:2"}}},"Scaled":{"replicas":2}}}}`)
		for _, name := range adapters {
			patch(&nvidiav1beta1.DynamoGraphDeploymentScalingAdapter{}, name, `{"spec":{"replicas":2}}`)
		}
		probe := p.graph("zone", graphs.Components{"Probe": graphs.Worker(1, 1, 1, "")})
		probe.Name = "probe"
		Expect(p.c.Create(ctx, probe)).To(Succeed())
		p.open(4)

		Expect(p.uids(p.namespace, "probe")).To(Equal(pods))
		after := generations()
		delete(after, "probe-probe")
		Expect(after).To(Equal(before), "the generations of the scaling groups")
	})
})
