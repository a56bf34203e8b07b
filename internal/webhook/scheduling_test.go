// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/test/testutil/manifest"
)

// Manifests of one Worker by version, with holes for what else the component and its pods say, and the path of a field of the pods.
var workers = map[string]struct{ manifest, path string }{
	"v1alpha1": {
		`{"spec":{"services":{"Worker":{"replicas":1,%s"extraPodSpec":{%s"mainContainer":{"image":"i"}}}}}}`,
		"spec.services[Worker].extraPodSpec.",
	},
	"v1beta1": {
		`{"spec":{"components":[{"name":"Worker","type":"worker","replicas":1,%s"podTemplate":{"spec":{%s"containers":[{"name":"main","image":"i"}]}}}]}}`,
		"spec.components[0].podTemplate.spec.",
	},
}

const twoNodes = `"multinode":{"nodeCount":2},`

// workerWith is a deployment of one Worker.
func workerWith(t *testing.T, version, name, component, pod string) *unstructured.Unstructured {
	t.Helper()
	object := deploymentOf(version, name)
	maps.Copy(object.Object, manifest.Parse(t, fmt.Sprintf(workers[version].manifest, component, pod)))
	return object
}

// A pod with a nodeName or the operator's gate of its own would be refused by the API server, one by one, or never be planned.
func TestPlacingPodsIsTheOperators(t *testing.T) {
	for version, form := range workers {
		t.Run(version, func(t *testing.T) {
			s := newServer(t)
			s.wantRefused(s.tryCreate(workerWith(t, version, "fixed", twoNodes, `"nodeName":"n1",`)),
				form.path+"nodeName: Forbidden", "remove nodeName, or use nodeSelector")
			s.wantRefused(s.tryCreate(workerWith(t, version, "gated", twoNodes, `"schedulingGates":[{"name":"mine"},{"name":"trellis.dev/placement"}],`)),
				form.path+"schedulingGates[1].name: Forbidden", "the gate trellis.dev/placement is the operator's own; remove it")
			s.wantRefused(s.tryCreate(workerWith(t, version, "gated", "", `"schedulingGates":[{"name":"trellis.dev/placement"}],`)),
				form.path+"schedulingGates[0].name: Forbidden")
			s.create(workerWith(t, version, "free", "", `"nodeName":"n1","schedulingGates":[{"name":"mine"}],`))
			s.create(workerWith(t, version, "own-gate", twoNodes, `"schedulingGates":[{"name":"mine"}],`))
		})
	}
}

// One deployment may not take the planner's time from all others: what it compares with every node has a bound, on a create and in a change.
func TestComparedListsAreBounded(t *testing.T) {
	tolerations := func(n int) string {
		return `"tolerations":[` + strings.TrimSuffix(strings.Repeat(`{"operator":"Exists"},`, n), ",") + `],`
	}
	for version, form := range workers {
		t.Run(version, func(t *testing.T) {
			s := newServer(t)
			says := []string{form.path + "tolerations: Too many: 257", "must have at most 256 tolerations", "tolerate a key with operator Exists instead of each value"}
			s.wantRefused(s.tryCreate(workerWith(t, version, "many", "", tolerations(257))), says...)
			s.create(workerWith(t, version, "most", "", tolerations(256)))
			s.wantRefused(s.admin.Patch(t.Context(), workerWith(t, version, "most", "", tolerations(257)), client.Merge), says...)
		})
	}
}

func TestPlacingPodsStaysTheOperatorsInAChange(t *testing.T) {
	for version, form := range workers {
		t.Run(version, func(t *testing.T) {
			s := newServer(t)
			s.create(workerWith(t, version, "later", twoNodes, ""))
			for path, pod := range map[string]string{"nodeName": `"nodeName":"n1",`, "schedulingGates[0].name": `"schedulingGates":[{"name":"trellis.dev/placement"}],`} {
				changed := workerWith(t, version, "later", twoNodes, pod)
				s.wantRefused(s.admin.Patch(t.Context(), changed, client.Merge), form.path+path+": Forbidden")
			}
		})
	}
}
