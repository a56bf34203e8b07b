// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/trellis-k8s/trellis/test/testutil/tier"
)

// With watchNamespaces the operator writes in those namespaces only, and there may do all that it may do everywhere without.
func TestChartNarrowsRights(t *testing.T) {
	tier.All(t)
	whole, err := kustomized()
	if err != nil {
		t.Fatal(err)
	}
	narrow, err := chart(namespace, `watchNamespaces=["team-a","team-b"]`)
	if err != nil {
		t.Fatal(err)
	}
	all, have := granted(t, whole), granted(t, narrow)
	want := map[string]sets.Set[string]{
		namespace: all[namespace],
		// A ClusterTopology has no namespace; events about it are kept in this one.
		"default": sets.New("events.k8s.io/events create", "events.k8s.io/events patch"),
		// All pods take capacity on nodes.
		"":       sets.New("/pods get", "/pods list", "/pods watch"),
		"team-a": {}, "team-b": {},
	}
	for right := range all[""] {
		if clusterScoped(right) {
			want[""].Insert(right)
			continue
		}
		want["team-a"].Insert(right)
		want["team-b"].Insert(right)
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("rights by namespace (-want, +have):\n%s", diff)
	}
	policy := one[admissionregistrationv1.ValidatingAdmissionPolicy](t, narrow, "ValidatingAdmissionPolicy")
	asks := "authorizer.group('grove.io').resource('clustertopologies').subresource('status').check('patch')"
	if policy := policy.Spec.Validations[0].Expression; !strings.Contains(policy, asks) || !have[""].Has("grove.io/clustertopologies/status patch") {
		t.Errorf("without a right in all namespaces, the operator may not write a GraphPlacement: %s", policy)
	}
}

func clusterScoped(right string) bool {
	for _, prefix := range []string{"/nodes", "admissionregistration.k8s.io/", "apiextensions.k8s.io/", "grove.io/clustertopologies", "grove.io/clustertopologybindings", "resource.k8s.io/deviceclasses", "resource.k8s.io/devicetaintrules", "resource.k8s.io/resourceclaims ", "resource.k8s.io/resourceslices", "node.k8s.io/runtimeclasses", "/namespaces", "/persistentvolumes ", "storage.k8s.io/", "authentication.k8s.io/", "authorization.k8s.io/"} {
		if strings.HasPrefix(right, prefix) {
			return true
		}
	}
	return false
}

// granted follows every binding of the operator's account: rights as "group/resource[name] verb", by namespace, "" for the whole cluster.
func granted(t *testing.T, in objects) map[string]sets.Set[string] {
	t.Helper()
	rules, found := map[string][]rbacv1.PolicyRule{}, map[string]sets.Set[string]{}
	for _, o := range in {
		if o.GetKind() == "ClusterRole" || o.GetKind() == "Role" {
			role := decode[rbacv1.Role](t, o.Object)
			rules[o.GetKind()+" "+o.GetNamespace()+"/"+o.GetName()] = role.Rules
		}
	}
	for _, o := range in {
		if o.GetKind() != "ClusterRoleBinding" && o.GetKind() != "RoleBinding" {
			continue
		}
		binding := decode[rbacv1.RoleBinding](t, o.Object)
		if s := binding.Subjects; len(s) != 1 || s[0].Kind != "ServiceAccount" || s[0].Name != "trellis-controller-manager" || s[0].Namespace != namespace {
			t.Errorf("%s %s/%s is for %v", o.GetKind(), o.GetNamespace(), o.GetName(), s)
		}
		bound, ok := rules[binding.RoleRef.Kind+" "+o.GetNamespace()+"/"+binding.RoleRef.Name]
		if !ok {
			t.Errorf("%s %s/%s leads to no role: %v", o.GetKind(), o.GetNamespace(), o.GetName(), binding.RoleRef)
		}
		if found[o.GetNamespace()] == nil {
			found[o.GetNamespace()] = sets.New[string]()
		}
		for _, rule := range bound {
			found[o.GetNamespace()].Insert(words(rule)...)
		}
	}
	return found
}

func words(rule rbacv1.PolicyRule) []string {
	suffixes := []string{""}
	if len(rule.ResourceNames) > 0 {
		suffixes = nil
	}
	for _, name := range rule.ResourceNames {
		suffixes = append(suffixes, "["+name+"]")
	}
	var out []string
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, suffix := range suffixes {
				for _, verb := range rule.Verbs {
					out = append(out, group+"/"+resource+suffix+" "+verb)
				}
			}
		}
	}
	return out
}

func decode[T any](t *testing.T, object map[string]any) *T {
	t.Helper()
	typed := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, typed); err != nil {
		t.Fatal(err)
	}
	return typed
}
