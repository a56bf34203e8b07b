// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// components are as many as a deployment may have.
const components = 25

// A deployment with the most components, each with more replicas than are listed: its status is stored, and a condition describes what it leaves out.
var _ = Describe("The status of a deployment at the maximum", func() {
	DescribeTable("is stored and tells what it leaves out, with", func(ctx SpecContext, domain string, listed int) {
		dgd := &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: suite.Namespace(api), Name: "g"}}
		o := observed{groups: map[string]*trellisv1alpha1.ScalingGroup{}, result: gang.Result{Wanted: 400 * components, Placed: 400 * components, Score: 1}, judged: true}
		o.provider = providerView{ProviderChoice: render.ProviderChoice{Name: "Gates"}, state: provider.Ready()}
		o.result.Places.Components = map[string][]nvidiav1beta1.ReplicaPlacement{}
		wanted := &render.Graph{}
		for i := range components {
			component := fmt.Sprintf("component-%d-%s", i, strings.Repeat("n", 40))
			dgd.Spec.Components = append(dgd.Spec.Components, nvidiav1beta1.ComponentSpec{Name: component, Type: nvidiav1beta1.ComponentTypeWorker, Replicas: ptr.To[int32](400)})
			wanted.Components = append(wanted.Components, render.Component{Name: component})
			sg := &trellisv1alpha1.ScalingGroup{Spec: trellisv1alpha1.ScalingGroupSpec{Component: component, Replicas: 400}}
			for n := range int32(gang.MaxPlaces) {
				o.result.Places.Components[component] = append(o.result.Places.Components[component], nvidiav1beta1.ReplicaPlacement{Replica: 2 * n, Domain: domain})
			}
			o.groups[component] = sg
		}
		Expect(api.Create(ctx, dgd)).To(Succeed())
		o.dgd, o.settled = dgd, dgd
		changed := dgd.DeepCopy()
		changed.Status = statusOf(o, wanted, nil, nil)
		Expect(api.Status().Patch(ctx, changed, client.MergeFrom(dgd))).To(Succeed())
		stored := &nvidiav1beta1.DynamoGraphDeployment{}
		Expect(api.Get(ctx, client.ObjectKeyFromObject(dgd), stored)).To(Succeed())
		raw, err := json.Marshal(stored)
		Expect(err).NotTo(HaveOccurred())
		Expect(len(raw)).To(BeNumerically("<=", 512<<10), "bytes that are stored")

		condition := meta.FindStatusCondition(stored.Status.Conditions, nvidiav1beta1.ConditionPlacementsComplete)
		if listed == gang.MaxPlaces {
			Expect(condition).To(BeNil())
		} else {
			left := dgd.Spec.Components[0].Name + fmt.Sprintf(" lists %d of 64", listed)
			Expect(condition).To(And(HaveField("Status", metav1.ConditionFalse), HaveField("Message", ContainSubstring(left))))
		}
		Expect(stored.Status.Components).To(HaveLen(components))
		for component, s := range stored.Status.Components {
			Expect(s.Placements).To(Or(HaveLen(listed), HaveLen(min(listed+1, gang.MaxPlaces))), "places of %s", component)
			Expect(s.Placements[0].Domain).To(Equal(domain))
			Expect(s.Placements[1].Replica).To(BeEquivalentTo(2))
		}
		o.dgd = stored
		Expect(equality.Semantic.DeepEqual(statusOf(o, wanted, nil, nil), stored.Status)).To(BeTrue(), "it would be written again")
	},
		Entry("short paths, all of which are there", SpecTimeout(suite.Timeout()), "zone/rack", gang.MaxPlaces),
		Entry("the longest paths", SpecTimeout(suite.Timeout()), strings.Join(slices.Repeat([]string{strings.Repeat("l", 63)}, 16), "/"), 9),
	)
})
