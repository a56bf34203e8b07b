// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/topologybinding"
	"github.com/trellis-k8s/trellis/test/testutil/providertest"
)

// keeping is a ClusterTopology and the object of a peer that is kept in step with it.
type keeping struct {
	ctx   context.Context
	ct    *grovev1alpha1.ClusterTopology
	kind  string
	write func(context.Context, *grovev1alpha1.ClusterTopology) (string, error)
}

func newKeeping(ctx context.Context, name, kind string, write func(context.Context, *grovev1alpha1.ClusterTopology) (string, error)) *keeping {
	GinkgoHelper()
	k := &keeping{ctx: ctx, ct: providertest.Topology(), kind: kind, write: write}
	k.ct.Name, k.ct.UID = name, ""
	made(ctx, k.ct)
	DeferCleanup(func(ctx SpecContext) {
		_ = client.Resource(resources[kind]).Delete(ctx, name, metav1.DeleteOptions{})
	})
	return k
}

// newBindingKeeping is the same for a topology that is a ClusterTopologyBinding of another owner.
func newBindingKeeping(ctx context.Context, name, kind string, write func(context.Context, *grovev1alpha1.ClusterTopology) (string, error)) *keeping {
	GinkgoHelper()
	b := &topologybinding.Binding{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, level := range providertest.Topology().Spec.Levels {
		b.Spec.Levels = append(b.Spec.Levels, topologybinding.Level(level))
	}
	ct, err := topologybinding.Read(made(ctx, b))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		_ = client.Resource(resources[kind]).Delete(ctx, name, metav1.DeleteOptions{})
	})
	return &keeping{ctx: ctx, ct: ct, kind: kind, write: write}
}

// keep brings the object in step, or explains why not.
func (k *keeping) keep() string {
	GinkgoHelper()
	why, err := k.write(k.ctx, k.ct)
	Expect(err).NotTo(HaveOccurred())
	return why
}

func (k *keeping) get() *unstructured.Unstructured {
	GinkgoHelper()
	object, err := client.Resource(resources[k.kind]).Get(k.ctx, k.ct.Name, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	return object
}

// disown takes our owner reference from the object.
func (k *keeping) disown() {
	GinkgoHelper()
	object := k.get()
	object.SetOwnerReferences(nil)
	Expect(client.Resource(resources[k.kind]).Update(k.ctx, object, metav1.UpdateOptions{})).Error().NotTo(HaveOccurred())
}
