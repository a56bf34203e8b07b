// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/trellis-k8s/trellis/test/testutil/tier"
)

// TestKueueRights: the rights on Workloads are optional, the same by kustomize and Helm, and narrowed to the managed namespaces.
func TestKueueRights(t *testing.T) {
	tier.All(t)
	const role = "trellis-manager-kueue"
	component, err := kustomize(root + "/config/kueue")
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(component, func(o *unstructured.Unstructured) bool { return o.GetKind() == "ClusterRole" && o.GetName() == role })
	if at < 0 || len(component) != 2 {
		t.Fatalf("the component has %d objects, want a ClusterRole and its binding", len(component))
	}
	want := component[at]
	for name, tc := range map[string]struct {
		values []string
		kinds  []string
	}{
		"by default":  {},
		"switched on": {[]string{`kueue.enabled=true`}, []string{"ClusterRole", "ClusterRoleBinding"}},
		"for some namespaces": {[]string{`kueue.enabled=true`, `watchNamespaces=["team-a","team-b"]`},
			[]string{"Role team-a", "Role team-b", "RoleBinding team-a", "RoleBinding team-b"}},
	} {
		rendered, err := chart(namespace, tc.values...)
		if err != nil {
			t.Fatal(err)
		}
		var kinds []string
		for _, o := range rendered {
			if o.GetName() != role {
				continue
			}
			kind := o.GetKind()
			if o.GetNamespace() != "" {
				kind += " " + o.GetNamespace()
			}
			kinds = append(kinds, kind)
			if diff := cmp.Diff(rulesOf(want), rulesOf(o)); o.GetKind() == "ClusterRole" && diff != "" {
				t.Errorf("%s: not the rules of kustomize: %s", name, diff)
			}
		}
		slices.Sort(kinds)
		if diff := cmp.Diff(tc.kinds, kinds); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func rulesOf(o *unstructured.Unstructured) any {
	rules, _, _ := unstructured.NestedSlice(o.Object, "rules")
	return rules
}

// TestPlacementRights: the rights to decide AdmissionChecks are optional, the same by kustomize and Helm, and narrowed where the kinds have namespaces.
func TestPlacementRights(t *testing.T) {
	tier.All(t)
	const role = "trellis-manager-kueue-placement"
	component, err := kustomize(root + "/config/kueue-placement")
	if err != nil {
		t.Fatal(err)
	}
	whole := slices.Sorted(maps.Keys(byIdentity(component)))
	for name, tc := range map[string]struct {
		values []string
		want   []string
	}{
		"by default":       {},
		"with quota alone": {[]string{`kueue.enabled=true`}, nil},
		"switched on":      {[]string{`kueue={"enabled":true,"placement":true}`}, whole},
		"for a namespace": {[]string{`kueue={"enabled":true,"placement":true}`, `watchNamespaces=["team"]`},
			append(slices.Clone(whole), "Role team/"+role, "RoleBinding team/"+role)},
	} {
		rendered, err := chart(namespace, tc.values...)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		rights := map[string]bool{}
		for id, o := range byIdentity(rendered) {
			if o.GetName() != role {
				continue
			}
			got = append(got, id)
			for _, right := range rightsIn(o) {
				if rights[right] {
					t.Errorf("%s: %s is given twice", name, right)
				}
				rights[right] = true
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		want := rightsIn(byIdentity(component)["ClusterRole /"+role])
		if diff := cmp.Diff(want, slices.Sorted(maps.Keys(rights))); len(got) > 0 && diff != "" {
			t.Errorf("%s: not the rights of kustomize (-want +got):\n%s", name, diff)
		}
	}
	if _, err := chart(namespace, `kueue={"enabled":false,"placement":true}`); err == nil {
		t.Error("the chart takes rights on AdmissionChecks without those on Workloads")
	}
}

// rightsIn are the rights of a role, each as "verb resource".
func rightsIn(o *unstructured.Unstructured) []string {
	var out []string
	rules, _, _ := unstructured.NestedSlice(o.Object, "rules")
	for _, rule := range rules {
		verbs, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "verbs")
		resources, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "resources")
		for _, verb := range verbs {
			for _, resource := range resources {
				out = append(out, verb+" "+resource)
			}
		}
	}
	slices.Sort(out)
	return out
}
