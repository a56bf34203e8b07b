// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/test/testutil/manifest"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// The API server asks the defaulting webhook about every update. About a create it asks where replicas are left out once the defaults of the
// definitions are set: those that are shipped have one for replicas, those of another client may not.

var bothVersions = []string{"v1alpha1", "v1beta1"}

// wantAskedToDefault fails the spec unless the defaulting webhook is asked so many times while f runs, which must succeed.
func (s *server) wantAskedToDefault(times int, f func() error) {
	GinkgoHelper()
	before := askedToDefault.Load()
	Expect(f()).To(Succeed())
	Expect(askedToDefault.Load()-before).To(BeEquivalentTo(times), "how often the defaulting webhook is asked")
}

// withoutDefault takes the default of replicas from the definition until the spec or the container ends.
func (s *server) withoutDefault() {
	GinkgoHelper()
	var off, on []string
	for i, parts := range []string{"services/additionalProperties", "components/items"} {
		path := fmt.Sprintf("/spec/versions/%d/schema/openAPIV3Schema/properties/spec/properties/%s/properties/replicas/default", i, parts)
		off = append(off, fmt.Sprintf(`{"op":"remove","path":%q}`, path))
		on = append(on, fmt.Sprintf(`{"op":"add","path":%q,"value":1}`, path))
	}
	// served says that in each version a create without replicas is asked about so often.
	served := func(asked int) bool {
		return !slices.ContainsFunc(bothVersions, func(version string) bool {
			before := askedToDefault.Load()
			Expect(s.admin.Create(context.Background(), graphOf(version, ""), client.DryRunAll)).To(Succeed())
			return askedToDefault.Load()-before != int64(asked)
		})
	}
	patch := func(operations []string) {
		definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "dynamographdeployments.nvidia.com"}}
		Expect(s.admin.Patch(context.Background(), definition, client.RawPatch(types.JSONPatchType, []byte("["+strings.Join(operations, ",")+"]")))).To(Succeed())
	}
	patch(off)
	DeferCleanup(func(ctx SpecContext) {
		patch(on)
		Eventually(ctx, func() bool { return served(0) }).Should(BeTrue(), "waiting until the definition has a default")
	})
	s.eventually("the definition has no default", func() bool { return served(1) })
}

// graphOf has a component, or a component, for each of the texts, which are what they say alongside their image.
func graphOf(version string, says ...string) *unstructured.Unstructured {
	GinkgoHelper()
	var parts []string
	for i, more := range says {
		own := alphaMain
		if version == "v1beta1" {
			own = fmt.Sprintf("name: a%02d, %s", i, betaMain)
		}
		parts = append(parts, "{"+strings.TrimSuffix(own+", "+more, ", ")+"}")
	}
	return specified(version, "spec: {PARTS: "+listed(version, parts...)+"}")
}

// specified is a deployment of which a text says the rest, in which PARTS stands for the field of the components, or components.
func specified(version, spec string) *unstructured.Unstructured {
	GinkgoHelper()
	object := deploymentOf(version, "asked")
	maps.Copy(object.Object, manifest.Parse(GinkgoTB(), strings.ReplaceAll(spec, "PARTS", partsOf(version))))
	return object
}

// partsOf is the field of the components, or components.
func partsOf(version string) string {
	return map[string]string{"v1alpha1": "services", "v1beta1": "components"}[version]
}

// listed are components, or components.
func listed(version string, items ...string) string {
	if version == "v1beta1" {
		return "[" + strings.Join(items, ", ") + "]"
	}
	named := make([]string, len(items))
	for i, item := range items {
		named[i] = fmt.Sprintf("a%02d: %s", i, item)
	}
	return "{" + strings.Join(named, ", ") + "}"
}

// replicasOf are those of the components, or components, of a graph, in order.
func replicasOf(object *unstructured.Unstructured) []any {
	parts := componentsOf(object)
	var all []any
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		all = append(all, parts[name]["replicas"])
	}
	return all
}

// wantDefaulted creates graphs on a dry run, by server-side apply and by create, and fails the spec unless the webhook is asked so often about each and they get these replicas.
func (s *server) wantDefaulted(asked int, want []any, version string, says ...string) {
	GinkgoHelper()
	for _, create := range []func(object *unstructured.Unstructured) error{
		func(object *unstructured.Unstructured) error {
			return s.admin.Create(s.ctx, object, client.DryRunAll)
		},
		func(object *unstructured.Unstructured) error {
			return s.admin.Apply(s.ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("user"), client.DryRunAll)
		},
		func(object *unstructured.Unstructured) error { return s.tryCreate(object) },
	} {
		object := graphOf(version, says...)
		s.wantAskedToDefault(asked, func() error { return create(object) })
		Expect(cmp.Diff(want, replicasOf(object))).To(BeEmpty(), "replicas (-want +got)")
	}
}

var _ = Describe("A create", func() {
	const stated, null = "replicas: 3", "replicas: null"
	type creation struct {
		says []string
		// asked is how often, where the definition has no default.
		asked int
		want  []any
	}
	tests := map[string]creation{
		"stated":               {[]string{stated, stated}, 0, []any{int64(3), int64(3)}},
		"stated as 0":          {[]string{"replicas: 0"}, 0, []any{int64(0)}},
		"stated by 25":         {slices.Repeat([]string{stated}, 25), 0, slices.Repeat([]any{int64(3)}, 25)},
		"left out":             {[]string{"", ""}, 1, []any{int64(1), int64(1)}},
		"null":                 {[]string{null}, 1, []any{int64(1)}},
		"left out by the last": {[]string{stated, stated, ""}, 1, []any{int64(3), int64(3), int64(1)}},
		"null in the first":    {[]string{null, stated}, 1, []any{int64(1), int64(3)}},
	}
	for _, version := range bothVersions {
		DescribeTable("is defaulted by the definitions that are shipped, and the webhook is not asked, in "+version,
			func(ctx SpecContext, tc creation) { newServer(ctx).wantDefaulted(0, tc.want, version, tc.says...) },
			suite.Entries(tests, SpecTimeout(suite.Timeout())))
	}
	Context("with definitions that have no defaults", Ordered, func() {
		BeforeAll(func(ctx SpecContext) { newServer(ctx).withoutDefault() }, NodeTimeout(suite.Timeout()))
		for _, version := range bothVersions {
			DescribeTable("is defaulted by the webhook where replicas are left out, in "+version,
				func(ctx SpecContext, tc creation) {
					newServer(ctx).wantDefaulted(tc.asked, tc.want, version, tc.says...)
				},
				suite.Entries(tests, SpecTimeout(suite.Timeout())))
		}
	})
})

var _ = DescribeTable("An update is always defaulted by the webhook, in", func(ctx SpecContext, version string) {
	s := newServer(ctx)
	object := graphOf(version, "replicas: 3")
	s.create(object)
	labelled := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`))
	s.wantAskedToDefault(1, func() error { return s.admin.Patch(ctx, object.DeepCopy(), labelled) })
	s.get(object)
	s.wantAskedToDefault(1, func() error { return s.admin.Update(ctx, object.DeepCopy()) })
	s.wantAskedToDefault(1, func() error { return s.admin.Update(ctx, object.DeepCopy(), client.DryRunAll) })
	applied := client.ApplyConfigurationFromUnstructured(graphOf(version, "replicas: 4"))
	s.wantAskedToDefault(1, func() error {
		return s.admin.Apply(ctx, applied, client.FieldOwner("user"), client.ForceOwnership)
	})
}, eachVersion())
