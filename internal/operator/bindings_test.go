// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topologybinding"
	"github.com/trellis-k8s/trellis/test/integration/peers/definitions"
	"github.com/trellis-k8s/trellis/test/testutil/apiserver"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// bindingWorld is an inPlaceWorld whose operator soon learns that Bindings are served.
type bindingWorld struct {
	*inPlaceWorld
	// name of the Binding.
	name string
}

func newBindingWorld(ctx context.Context) *bindingWorld {
	GinkgoHelper()
	p := newInPlaceWorld(ctx, nil)
	p.stop()
	p.change = func(o *Options) { o.LookEvery = betweenLooks }
	p.start()
	return &bindingWorld{p, p.namespace + "-binding"}
}

// serve installs the definition of Bindings until the spec ends.
func (w *bindingWorld) serve() {
	GinkgoHelper()
	crd, err := definitions.Load("grove/grove.io_clustertopologybindings.yaml")
	Expect(err).NotTo(HaveOccurred())
	Expect(apiserver.Install(w.config, crd)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { w.remove(ctx) })
}

// remove deletes the definition, and with it all Bindings.
func (w *bindingWorld) remove(ctx context.Context) {
	GinkgoHelper()
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "clustertopologybindings.grove.io"}}
	Expect(client.IgnoreNotFound(w.c.Delete(ctx, crd))).To(Succeed())
	Eventually(ctx, func() bool {
		return apierrors.IsNotFound(w.c.Get(ctx, client.ObjectKeyFromObject(crd), crd))
	}).WithPolling(betweenLooks).Should(BeTrue(), "the definition is gone")
}

// bind creates the Binding with the levels zone and rack.
func (w *bindingWorld) bind(annotations map[string]string) *topologybinding.Binding {
	GinkgoHelper()
	return w.bindBy(rightRack, annotations)
}

// bindBy is the same with another label of racks.
func (w *bindingWorld) bindBy(rack string, annotations map[string]string) *topologybinding.Binding {
	GinkgoHelper()
	b := &topologybinding.Binding{ObjectMeta: metav1.ObjectMeta{Name: w.name, Annotations: annotations}}
	b.Spec.Levels = []topologybinding.Level{{Domain: "zone", Key: corev1.LabelTopologyZone}, {Domain: "rack", Key: rack}}
	w.until("the Binding is created", func() error { return w.c.Create(w.ctx, b) })
	return b
}

// graphOf is a deployment that names the Binding.
func (w *bindingWorld) graphOf(components graphs.Components) *nvidiav1alpha1.DynamoGraphDeployment {
	dgd := w.graph("zone", components)
	dgd.Spec.TopologyConstraint.TopologyProfile = w.name
	return dgd
}

// eventOn waits for an event about an object that no namespace has.
func (w *bindingWorld) eventOn(kind, name, reason, text string) {
	GinkgoHelper()
	w.until(fmt.Sprintf("there is an event %s on %s %s", reason, kind, name), func() error {
		list := &eventsv1.EventList{}
		if err := w.c.List(w.ctx, list, client.InNamespace(metav1.NamespaceDefault)); err != nil {
			return err
		}
		if !slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool {
			return e.Regarding.Kind == kind && e.Regarding.Name == name && e.Reason == reason && strings.Contains(e.Note, text)
		}) {
			return fmt.Errorf("none of %d events is", len(list.Items))
		}
		return nil
	})
}

var _ = Describe("A deployment that names a ClusterTopologyBinding", func() {
	It("is placed by it once it is served, keeps its pods when it is removed, and follows the next one", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		w := newBindingWorld(ctx)
		dgd := w.graphOf(graphs.Components{"A": graphs.Worker(1, 2, 2, "rack")})
		Expect(w.c.Create(ctx, dgd)).To(Succeed())
		w.says(dgd, "TopologyLevelsAvailable", "False", "TopologyDefinitionNotFound", w.name)

		By("Bindings are served from now on")
		w.serve()
		w.bind(nil)
		w.open(2)
		w.says(dgd, "Placed", "True")
		w.says(dgd, "TopologyLevelsAvailable", "True")

		By("their definition is removed")
		w.remove(ctx)
		w.says(dgd, "TopologyLevelsAvailable", "False", "TopologyDefinitionNotFound", w.name)
		w.open(2)

		By("it is installed again")
		w.serve()
		w.bind(nil)
		w.says(dgd, "TopologyLevelsAvailable", "True")
	})

	It("is placed on the nodes that an annotation of the Binding selects", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		w := newBindingWorld(ctx)
		w.serve()
		b := w.bind(map[string]string{topologybinding.AnnotationNodeSelector: "pool=none"})
		w.eventOn("ClusterTopologyBinding", w.name, "NoNodes", "LevelsLabeled")
		dgd := w.graphOf(graphs.Components{"A": graphs.Worker(1, 2, 2, "rack")})
		Expect(w.c.Create(ctx, dgd)).To(Succeed())
		w.says(dgd, "Placed", "False")
		b.Annotations[topologybinding.AnnotationNodeSelector] = rightRack + "=b"
		Expect(w.c.Update(ctx, b)).To(Succeed())
		w.open(2)
		for _, pod := range w.pods(w.namespace) {
			Expect(pod.Spec.NodeSelector).To(HaveKeyWithValue(rightRack, "b"))
		}
	})

	It("is placed by the ClusterTopology of that name, which counts, and both say how they differ", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		w := newBindingWorld(ctx)
		w.serve()
		w.bind(nil)
		ct := &grovev1alpha1.ClusterTopology{ObjectMeta: metav1.ObjectMeta{Name: w.name}}
		ct.Spec.Levels = []grovev1alpha1.TopologyLevel{{Domain: "zone", Key: corev1.LabelTopologyZone}, {Domain: "rack", Key: wrongRack}}
		(&autoscaler{bare: w.bare}).install("", ct)
		const differ = "the ClusterTopology counts"
		inSync := func(status metav1.ConditionStatus, text string) {
			GinkgoHelper()
			w.until("BindingInSync is "+string(status), func() error {
				if err := w.c.Get(ctx, client.ObjectKeyFromObject(ct), ct); err != nil {
					return err
				}
				c := meta.FindStatusCondition(ct.Status.Conditions, grovev1alpha1.ConditionBindingInSync)
				if c == nil || c.Status != status || !strings.Contains(c.Message, text) {
					return fmt.Errorf("it is %+v", c)
				}
				return nil
			})
		}
		inSync(metav1.ConditionFalse, differ)
		w.eventOn("ClusterTopology", w.name, "TopologiesDiffer", differ)
		w.eventOn("ClusterTopologyBinding", w.name, "TopologiesDiffer", differ)
		dgd := w.graphOf(graphs.Components{"A": graphs.Worker(1, 2, 2, "rack")})
		Expect(w.c.Create(ctx, dgd)).To(Succeed())
		w.says(dgd, "Placed", "False", "NoDomain: ", "no node has label "+wrongRack)

		By("the ClusterTopology is corrected")
		Expect(retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			if err := w.c.Get(ctx, client.ObjectKeyFromObject(ct), ct); err != nil {
				return err
			}
			ct.Spec.Levels[1].Key = rightRack
			return w.c.Update(ctx, ct)
		})).To(Succeed())
		inSync(metav1.ConditionTrue, "same levels")
		w.open(2)
	})

	It("finds no topology in a Binding that cannot be read as one, which says why", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		w := newBindingWorld(ctx)
		w.serve()
		b := w.bind(map[string]string{topologybinding.AnnotationNodeSelector: "pool"})
		w.eventOn("ClusterTopologyBinding", w.name, "BindingInvalid", "write it as KEY=VALUE")
		dgd := w.graphOf(graphs.Components{"A": graphs.Worker(1, 2, 2, "rack")})
		Expect(w.c.Create(ctx, dgd)).To(Succeed())
		w.says(dgd, "TopologyLevelsAvailable", "False", "TopologyDefinitionNotFound")
		b.Annotations = nil
		Expect(w.c.Update(ctx, b)).To(Succeed())
		w.open(2)
	})

	It("has prefill and decode replicas share a domain of the Binding, and its pods labels of its levels", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		w := newBindingWorld(ctx)
		w.serve()
		w.bind(nil)
		prefill, decode := graphs.Worker(1, 1, 2, ""), graphs.Worker(1, 1, 2, "")
		prefill.SubComponentType, decode.SubComponentType = "prefill", "decode"
		dgd := w.graphOf(graphs.Components{"Prefill": prefill, "Decode": decode})
		dgd.Spec.Experimental = &nvidiav1alpha1.FreeObject{RawExtension: runtime.RawExtension{Raw: fmt.Appendf(nil,
			`{"kvTransferPolicy":{"clusterTopologyName":%q,"domain":"rack","enforcement":"required"}}`, w.name)}}
		Expect(w.c.Create(ctx, dgd)).To(Succeed())
		w.open(2)
		groups := &trellisv1alpha1.ScalingGroupList{}
		Expect(w.c.List(ctx, groups, client.InNamespace(w.namespace))).To(Succeed())
		for i := range groups.Items {
			t := groups.Items[i].Spec.Topology
			Expect(constraint.Transfers(t)).To(BeTrue(), "the policy places %s", groups.Items[i].Name)
			Expect(t.ClusterTopology).To(Equal(w.name))
		}
		pods := w.pods(w.namespace)
		rack := pods[0].Spec.NodeSelector[rightRack]
		for _, pod := range pods {
			Expect(pod.Spec.NodeSelector).To(HaveKeyWithValue(rightRack, rack), "the rack of both roles")
			Expect(pod.Labels).To(HaveKeyWithValue(render.LabelTopologyPrefix+"rack", rack), pod.Name)
		}
	})

	It("needs no name where an annotation of the Binding makes it the default", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		w := newBindingWorld(ctx)
		w.serve()
		w.bindBy(wrongRack, map[string]string{"trellis.dev/is-default-topology": "true"})
		w.eventOn("ClusterTopologyBinding", w.name, "LabelsMissing", wrongRack) // the operator has seen it
		dgd := deployment(w.namespace, graphs.Components{"A": graphs.Worker(1, 2, 2, "")})
		Expect(w.c.Create(ctx, dgd)).To(Succeed())
		w.until("it is packed by the default topology", func() error {
			groups := &trellisv1alpha1.ScalingGroupList{}
			if err := w.c.List(ctx, groups, client.InNamespace(w.namespace)); err != nil {
				return err
			}
			if len(groups.Items) != 1 || groups.Items[0].Spec.Topology == nil || groups.Items[0].Spec.Topology.ClusterTopology != w.name {
				return fmt.Errorf("the groups are %+v", groups.Items)
			}
			return nil
		})
	})
})
