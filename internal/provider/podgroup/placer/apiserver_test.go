// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placer

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/trellis-k8s/trellis/internal/provider"
	gates "github.com/trellis-k8s/trellis/internal/provider/gates/placer"
	"github.com/trellis-k8s/trellis/test/testutil/apiserver"
	"github.com/trellis-k8s/trellis/test/testutil/podgrouptest"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

const (
	beta, alpha = "scheduling.k8s.io/v1beta1=true", "scheduling.k8s.io/v1alpha3=true"
	all         = "GenericWorkload=true,TopologyAwareWorkloadScheduling=true,CompositePodGroup=true"
	noTree      = "compositepodgroups of scheduling.k8s.io/v1alpha3"
)

// flags are what an API server is started with, and what comes of it.
type flags struct {
	apis, gates string
	// missing is what is not served, group and pod what is taken out of them.
	missing, group, pod string
}

// An API server is asked as it is started: what it serves, and which fields it drops without an error because a gate is off. What is written
// into an API server that drops fields would be half constrained.
var _ = DescribeTable("An API server is found ready for PodGroups by what it serves and keeps", Label("podgroup"), func(ctx SpecContext, c flags) {
	p := onServer(c.apis, c.gates)
	state, err := p.Probe(ctx)
	Expect(err).NotTo(HaveOccurred())
	if c.missing == "" {
		Expect(state).To(HaveField("Ready", true))
	} else {
		Expect(state).To(And(HaveField("Ready", false), HaveField("Reason", "APINotServed"),
			HaveField("Message", ContainSubstring("does not serve "+c.missing+"; it requires Kubernetes 1.37"))))
	}
	Expect(p.tryPod(ctx)).To(Equal(c.pod), "what is dropped of a pod")
	if c.apis == "" {
		return // no group to try
	}
	Expect(p.tryGroup(ctx)).To(Equal(c.group), "what is dropped of a group")
},
	Entry("as it comes", SpecTimeout(suite.Timeout()),
		flags{missing: "podgroups and workloads of scheduling.k8s.io/v1beta1", pod: "the API server drops spec.schedulingGroup of pods"}),
	Entry("one version of two", suite.Slow, SpecTimeout(suite.Timeout()),
		flags{apis: beta, gates: all, missing: noTree}),
	Entry("no topology", suite.Slow, SpecTimeout(suite.Timeout()),
		flags{apis: beta + "," + alpha, gates: "GenericWorkload=true", missing: noTree, group: "the API server drops spec.schedulingConstraints of PodGroups"}),
	Entry("topology, but no groups", suite.Slow, SpecTimeout(suite.Timeout()),
		flags{apis: beta + "," + alpha, gates: "GenericWorkload=true,TopologyAwareWorkloadScheduling=true", missing: noTree, group: "the API server drops spec.parentCompositePodGroupName of PodGroups"}),
	Entry("all of it", SpecTimeout(suite.Timeout()),
		flags{apis: beta + "," + alpha, gates: all}),
)

// In Kubernetes 1.37 minGroupCount is immutable. TestForm has the rule of 1.38, whose API server the tests cannot build.
var _ = Describe("A root with another minGroupCount than its gang", func() {
	It("makes the gang be formed anew where the field is immutable", suite.Slow, SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		p := onServer(beta+","+alpha, all)
		Expect(p.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}})).To(Succeed())
		gang := podgrouptest.GangOfAll(true, podgrouptest.Component("Decode", 2, 8, "rack"), podgrouptest.Component("Frontend", 1, 0, ""))
		Expect(p.Form(ctx, gang)).To(Succeed())
		root := &schedulingv1alpha3.CompositePodGroup{}
		key := client.ObjectKey{Namespace: "ns", Name: gang.Name}
		Expect(p.Client.Get(ctx, key, root)).To(Succeed())
		Expect(root.Spec.SchedulingPolicy.Gang.MinGroupCount).To(BeEquivalentTo(2))
		Expect(p.Form(ctx, gang)).To(Succeed(), "formed again")

		By("another client has made the root")
		Expect(p.Client.Delete(ctx, root)).To(Succeed())
		other := &schedulingv1alpha3.CompositePodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, Spec: root.Spec}
		other.Spec.SchedulingPolicy.Gang.MinGroupCount = 1
		Expect(p.Client.Create(ctx, other)).To(Succeed())
		Expect(p.Form(ctx, gang)).To(MatchError(provider.ErrStale))
		Expect(p.Client.Get(ctx, key, root)).To(Succeed())
		Expect(root.Spec.SchedulingPolicy.Gang.MinGroupCount).To(BeEquivalentTo(1))
	})
})

// onServer is the provider on an API server that is started with these APIs and feature gates.
func onServer(apis, features string) Placer {
	GinkgoHelper()
	env := &envtest.Environment{}
	arguments := env.ControlPlane.GetAPIServer().Configure()
	if apis != "" {
		arguments.Append("runtime-config", apis)
	}
	if features != "" {
		arguments.Append("feature-gates", features)
	}
	apiserver.Start(GinkgoTB(), env)
	c, err := client.New(env.Config, client.Options{Scheme: clientgoscheme.Scheme})
	Expect(err).NotTo(HaveOccurred())
	served, err := discovery.NewDiscoveryClientForConfig(env.Config)
	Expect(err).NotTo(HaveOccurred())
	return Placer{Placer: gates.Placer{Client: c, Live: c}, Discovery: served, Namespace: "default"}
}
