// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"

	"github.com/trellis-k8s/trellis/internal/capacity"
	"github.com/trellis-k8s/trellis/internal/operator"
	"github.com/trellis-k8s/trellis/test/testutil/tier"
)

// TestCapacityIsOptional: what asking for capacity needs is optional, the same by kustomize and Helm, and narrowed to the managed namespaces.
func TestCapacityIsOptional(t *testing.T) {
	tier.All(t)
	component, err := kustomize("testdata/capacity")
	if err != nil {
		t.Fatal(err)
	}
	const both = `capacity={"requests":["Placeholders","ProvisioningRequest"]}`
	added := map[string]bool{}
	plain, err := kustomized()
	if err != nil {
		t.Fatal(err)
	}
	before := byIdentity(plain)
	for id := range byIdentity(component) {
		if before[id] == nil {
			added[id] = true
		}
	}
	for name, tc := range map[string]struct {
		values []string
		want   []string
	}{
		"by default": {},
		"both":       {[]string{both}, slices.Sorted(maps.Keys(added))},
		"one":        {[]string{`capacity={"requests":["Placeholders"]}`}, []string{"PriorityClass /trellis-placeholder"}},
		"in a namespace": {[]string{both, `watchNamespaces=["team"]`}, []string{
			"PriorityClass /trellis-placeholder", "Role team/trellis-manager-capacity", "Role trellis-system/trellis-manager-placeholders",
			"RoleBinding team/trellis-manager-capacity", "RoleBinding trellis-system/trellis-manager-placeholders"}},
	} {
		rendered, err := chart(namespace, tc.values...)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for id, o := range byIdentity(rendered) {
			if strings.Contains(id, "capacity") || strings.Contains(id, "placeholder") {
				got = append(got, id)
			}
			if want := byIdentity(component)[id]; added[id] && cmp.Diff(strip(want), strip(o)) != "" {
				t.Errorf("%s: %s differs (-kustomize +chart):\n%s", name, id, cmp.Diff(strip(want), strip(o)))
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if class := one[schedulingv1.PriorityClass](t, component, "PriorityClass"); class.Name != capacity.PriorityClass || class.Value != capacity.Priority {
		t.Errorf("the class is %s with %d", class.Name, class.Value)
	}
	kinds := parse(t, one[appsv1.Deployment](t, component, "Deployment").Spec.Template.Spec.Containers[0].Args).Capacity.Kinds
	if diff := cmp.Diff(capacity.Kinds, kinds); diff != "" {
		t.Errorf("the component allows (-want +got):\n%s", diff)
	}
}

// The chart's values reach the operator.
func TestCapacityValues(t *testing.T) {
	tier.All(t)
	rendered, err := chart(namespace, `capacity={"requests":["Placeholders"],"default":"Placeholders","maxPods":9,"nodeShapes":["cpu=4","nvidia.com/gpu=8,cpu=190"],`+
		`"newNodeLabels":["example.com/block"],"placeholderImage":"example.com/pause:1"}`)
	if err != nil {
		t.Fatal(err)
	}
	o := parse(t, one[appsv1.Deployment](t, rendered, "Deployment").Spec.Template.Spec.Containers[0].Args)
	if o.Namespace = namespace; o.Complete() != nil {
		t.Fatal(o.Complete())
	}
	c := o.Capacity
	if c.Preset != capacity.KindPlaceholders || c.MaxPods != 9 || len(c.Shapes) != 2 || c.NewNodeLabels[0] != "example.com/block" || c.Image != "example.com/pause:1" {
		t.Errorf("%+v", c)
	}
	plain := parse(t, nil).Capacity
	if plain.MaxPods != operator.DefaultCapacityMaxPods || len(plain.Kinds) > 0 || plain.Preset != capacity.KindNone {
		t.Errorf("without flags: %+v", plain)
	}
}
