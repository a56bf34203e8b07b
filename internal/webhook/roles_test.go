// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// TestRolesAreDefaulted: a number that is left out, or that another nodeCount made, is what nodeCount makes it now. Others are left to validation.
func TestRolesAreDefaulted(t *testing.T) {
	list := func(leader, worker string) string {
		return fmt.Sprintf(`"roles":[{"name":"worker"%s},{"name":"leader"%s}]`, worker, leader)
	}
	replicas := func(n int) string { return fmt.Sprintf(`,"replicas":%d`, n) }
	nodes := func(n int, roles string) string { return fmt.Sprintf(`"multinode":{"nodeCount":%d},`, n) + roles }
	for name, c := range map[string]struct {
		old, updated string
		// want are the numbers of the worker and the leader that are set; 0: none.
		want [2]int
	}{
		"left out":                         {"", nodes(4, list("", "")), [2]int{3, 1}},
		"left out with the default":        {"", `"multinode":{},` + list("", ""), [2]int{1, 1}},
		"as they should be":                {"", nodes(4, list(replicas(1), replicas(3))), [2]int{}},
		"wrong":                            {"", nodes(4, list(replicas(2), replicas(4))), [2]int{}},
		"one node":                         {"", list("", ""), [2]int{}},
		"of an invalid nodeCount":          {"", nodes(1, list("", "")), [2]int{}},
		"of another nodeCount":             {nodes(2, list(replicas(1), replicas(1))), nodes(4, list(replicas(1), replicas(1))), [2]int{3, 0}},
		"of another nodeCount, fewer":      {nodes(4, list(replicas(1), replicas(3))), nodes(2, list(replicas(1), replicas(3))), [2]int{1, 0}},
		"wrong before and after":           {nodes(4, list(replicas(1), replicas(3))), nodes(4, list(replicas(1), replicas(2))), [2]int{}},
		"of no nodeCount there ever was":   {nodes(4, list(replicas(1), replicas(3))), nodes(6, list(replicas(1), replicas(2))), [2]int{}},
		"left out, with another nodeCount": {nodes(2, list(replicas(1), replicas(1))), nodes(4, list("", "")), [2]int{3, 1}},
	} {
		for version, form := range map[string]string{"v1alpha1": `"services":{"A":{%s"replicas":1}}`, "v1beta1": `"components":[{"name":"A",%s"replicas":1}]`} {
			object := func(says string) string {
				return fmt.Sprintf(`{"apiVersion":"nvidia.com/%s","kind":"DynamoGraphDeployment","metadata":{"name":"g"},"spec":{`+form+`}}`, version, says+",")
			}
			operation, old := admissionv1.Create, ""
			if c.old != "" {
				operation, old = admissionv1.Update, object(c.old)
			}
			response := handlers(testScheme(), Options{})[mutateDeploymentPath].Handle(t.Context(), request(operation, object(c.updated), old))
			if diff := cmp.Diff(c.want, numbersSet(t, response.Patch)); diff != "" {
				t.Errorf("%s in %s (-want +got):\n%s", name, version, diff)
			}
		}
	}
}

// numbersSet are the replicas of the first and the second role in a patch, which has nothing else.
func numbersSet(t *testing.T, raw []byte) [2]int {
	t.Helper()
	var out [2]int
	if len(raw) == 0 {
		return out
	}
	var patch []struct {
		Path  string
		Value int
	}
	if err := json.Unmarshal(raw, &patch); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	for _, operation := range patch {
		_, rest, found := strings.Cut(operation.Path, "/roles/")
		if !found || !strings.HasSuffix(rest, "/replicas") {
			t.Fatalf("the patch changes %s", operation.Path)
		}
		out[rest[0]-'0'] = operation.Value
	}
	return out
}

var _ = Describe("Roles of a multinode component", func() {
	// numbers are the nodeCount and the replicas of the roles, by name.
	numbers := func(s *server, version string) map[string]int64 {
		GinkgoHelper()
		object := deploymentOf(version, "both")
		s.get(object)
		worker := componentsOf(object)["Worker"]
		out := map[string]int64{"nodes": nodesOf(worker)}
		list, _ := worker["roles"].([]any)
		for _, value := range list {
			out[asMap(value)["name"].(string)], _ = asMap(value)["replicas"].(int64)
		}
		return out
	}
	applied := func(ctx SpecContext, s *server, object *unstructured.Unstructured, manager string) {
		GinkgoHelper()
		object.SetManagedFields(nil)
		object.SetResourceVersion("")
		Expect(s.admin.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(manager), client.ForceOwnership)).To(Succeed())
	}
	const twoRoles = `, roles: [{name: leader}, {name: worker}]`
	mains := map[string]string{"v1alpha1": alphaMain, "v1beta1": betaMain}

	for _, version := range bothVersions {
		It("follow a server-side apply of nodeCount alone in "+version, SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
			s := newServer(ctx)
			s.deleteAfter(oneWorker(version, "", ""))
			applied(ctx, s, oneWorker(version, "", "multinode: {nodeCount: 2}, "+mains[version]+twoRoles), "user")
			Expect(numbers(s, version)).To(Equal(map[string]int64{"nodes": 2, "leader": 1, "worker": 1}))
			By("the same manager, whose manifest has no numbers of roles")
			applied(ctx, s, oneWorker(version, "", "multinode: {nodeCount: 4}, "+mains[version]+twoRoles), "user")
			Expect(numbers(s, version)).To(Equal(map[string]int64{"nodes": 4, "leader": 1, "worker": 3}))
			By("another one, which has nodeCount alone")
			applied(ctx, s, oneWorker(version, "", "multinode: {nodeCount: 3}"), "scaler")
			Expect(numbers(s, version)).To(Equal(map[string]int64{"nodes": 3, "leader": 1, "worker": 2}))
			for _, other := range bothVersions {
				Expect(numbers(s, other)).To(Equal(numbers(s, version)), other)
			}
		})
	}

	It("keep an empty list apart from none through both versions", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		s := newServer(ctx)
		s.want(s.tryCreate(oneWorker("v1alpha1", "", "roles: [], "+alphaMain)), atWorker+"roles", "only a multinode service has roles")
		s.want(s.tryCreate(oneWorker("v1beta1", "", "roles: [], "+betaMain)), atFirst+"roles", "only a multinode component has roles")
	})
})
