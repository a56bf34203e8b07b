// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/trellis-k8s/trellis/test/testutil/manifest"
)

// The API server asks the defaulting webhook about every update. About a create it asks where replicas are left out once the defaults of the
// definitions are set: those that are shipped have one for replicas, those of somebody else may not.

var bothVersions = []string{"v1alpha1", "v1beta1"}

// askedToDefault is how often the defaulting webhook has answered.
func (s *server) askedToDefault() int {
	s.t.Helper()
	families, err := metrics.Registry.Gather()
	s.must(err)
	asked := 0
	for _, family := range families {
		if family.GetName() != "controller_runtime_webhook_requests_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "webhook" && label.GetValue() == mutateDeploymentPath {
					asked += int(metric.GetCounter().GetValue())
				}
			}
		}
	}
	return asked
}

// wantAskedToDefault fails the test unless the defaulting webhook is asked so many times while f runs, which must succeed.
func (s *server) wantAskedToDefault(times int, f func() error) {
	s.t.Helper()
	before := s.askedToDefault()
	s.must(f())
	if asked := s.askedToDefault() - before; asked != times {
		s.t.Errorf("the defaulting webhook is asked %d times, want %d", asked, times)
	}
}

// withoutDefault takes the default of replicas from the definition until the test ends.
func (s *server) withoutDefault() {
	s.t.Helper()
	var off, on []string
	for i, parts := range []string{"services/additionalProperties", "components/items"} {
		path := fmt.Sprintf("/spec/versions/%d/schema/openAPIV3Schema/properties/spec/properties/%s/properties/replicas/default", i, parts)
		off = append(off, fmt.Sprintf(`{"op":"remove","path":%q}`, path))
		on = append(on, fmt.Sprintf(`{"op":"add","path":%q,"value":1}`, path))
	}
	// served says that in each version a create without replicas is asked about so often.
	served := func(asked int) bool {
		return !slices.ContainsFunc(bothVersions, func(version string) bool {
			before := s.askedToDefault()
			s.must(s.admin.Create(context.Background(), graphOf(s.t, version, ""), client.DryRunAll))
			return s.askedToDefault()-before != asked
		})
	}
	patch := func(operations []string) {
		definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "dynamographdeployments.nvidia.com"}}
		s.must(s.admin.Patch(context.Background(), definition, client.RawPatch(types.JSONPatchType, []byte("["+strings.Join(operations, ",")+"]"))))
	}
	patch(off)
	s.t.Cleanup(func() {
		patch(on)
		err := wait.PollUntilContextTimeout(context.Background(), lookEvery, patience, true, func(context.Context) (bool, error) { return served(0), nil })
		s.must(err)
	})
	s.eventually("the definition has no default", func() bool { return served(1) })
}

// graphOf has a component, or a service, for each of the texts, which are what they say beside their image.
func graphOf(t *testing.T, version string, says ...string) *unstructured.Unstructured {
	t.Helper()
	var parts []string
	for i, more := range says {
		own := alphaMain
		if version == "v1beta1" {
			own = fmt.Sprintf("name: a%02d, %s", i, betaMain)
		}
		parts = append(parts, "{"+strings.TrimSuffix(own+", "+more, ", ")+"}")
	}
	return specified(t, version, "spec: {PARTS: "+listed(version, parts...)+"}")
}

// specified is a deployment of which a text says the rest, in which PARTS stands for the field of the components, or services.
func specified(t *testing.T, version, spec string) *unstructured.Unstructured {
	t.Helper()
	object := deploymentOf(version, "asked")
	maps.Copy(object.Object, manifest.Parse(t, strings.ReplaceAll(spec, "PARTS", partsOf(version))))
	return object
}

// partsOf is the field of the components, or services.
func partsOf(version string) string {
	return map[string]string{"v1alpha1": "services", "v1beta1": "components"}[version]
}

// listed are components, or services.
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

// replicasOf are those of the components, or services, of a graph, in order.
func replicasOf(object *unstructured.Unstructured) []any {
	parts := componentsOf(object)
	var all []any
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		all = append(all, parts[name]["replicas"])
	}
	return all
}

// wantDefaulted creates graphs on a dry run, by server-side apply and by create, and fails the test unless the webhook is asked so often about each and they get these replicas.
func (s *server) wantDefaulted(asked int, want []any, version string, says ...string) {
	s.t.Helper()
	for _, create := range []func(object *unstructured.Unstructured) error{
		func(object *unstructured.Unstructured) error {
			return s.admin.Create(s.t.Context(), object, client.DryRunAll)
		},
		func(object *unstructured.Unstructured) error {
			return s.admin.Apply(s.t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("user"), client.DryRunAll)
		},
		func(object *unstructured.Unstructured) error { return s.tryCreate(object) },
	} {
		object := graphOf(s.t, version, says...)
		s.wantAskedToDefault(asked, func() error { return create(object) })
		if diff := cmp.Diff(want, replicasOf(object)); diff != "" {
			s.t.Errorf("replicas (-want +got):\n%s", diff)
		}
	}
}

func TestCreateIsDefaultedWhereReplicasAreLeftOut(t *testing.T) {
	const stated, null = "replicas: 3", "replicas: null"
	tests := map[string]struct {
		says []string
		// asked is how often, where the definition has no default.
		asked int
		want  []any
	}{
		"stated":               {[]string{stated, stated}, 0, []any{int64(3), int64(3)}},
		"stated as 0":          {[]string{"replicas: 0"}, 0, []any{int64(0)}},
		"stated by 25":         {slices.Repeat([]string{stated}, 25), 0, slices.Repeat([]any{int64(3)}, 25)},
		"left out":             {[]string{"", ""}, 1, []any{int64(1), int64(1)}},
		"null":                 {[]string{null}, 1, []any{int64(1)}},
		"left out by the last": {[]string{stated, stated, ""}, 1, []any{int64(3), int64(3), int64(1)}},
		"null in the first":    {[]string{null, stated}, 1, []any{int64(1), int64(3)}},
	}
	t.Run("with the definitions that are shipped, which set them", func(t *testing.T) {
		for name, tc := range tests {
			for _, version := range bothVersions {
				t.Run(name+" in "+version, func(t *testing.T) { newServer(t).wantDefaulted(0, tc.want, version, tc.says...) })
			}
		}
	})
	t.Run("with definitions that do not", func(t *testing.T) {
		newServer(t).withoutDefault()
		for name, tc := range tests {
			for _, version := range bothVersions {
				t.Run(name+" in "+version, func(t *testing.T) { newServer(t).wantDefaulted(tc.asked, tc.want, version, tc.says...) })
			}
		}
	})
}

func TestUpdateIsAlwaysDefaulted(t *testing.T) {
	for _, version := range bothVersions {
		t.Run(version, func(t *testing.T) {
			s := newServer(t)
			object := graphOf(t, version, "replicas: 3")
			s.create(object)
			labelled := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`))
			s.wantAskedToDefault(1, func() error { return s.admin.Patch(t.Context(), object.DeepCopy(), labelled) })
			s.get(object)
			s.wantAskedToDefault(1, func() error { return s.admin.Update(t.Context(), object.DeepCopy()) })
			s.wantAskedToDefault(1, func() error { return s.admin.Update(t.Context(), object.DeepCopy(), client.DryRunAll) })
			applied := client.ApplyConfigurationFromUnstructured(graphOf(t, version, "replicas: 4"))
			s.wantAskedToDefault(1, func() error {
				return s.admin.Apply(t.Context(), applied, client.FieldOwner("user"), client.ForceOwnership)
			})
		})
	}
}
