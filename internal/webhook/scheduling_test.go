// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"fmt"
	"maps"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/test/testutil/manifest"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
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
func workerWith(version, name, component, pod string) *unstructured.Unstructured {
	GinkgoHelper()
	object := deploymentOf(version, name)
	maps.Copy(object.Object, manifest.Parse(GinkgoTB(), fmt.Sprintf(workers[version].manifest, component, pod)))
	return object
}

var _ = Describe("Placing pods", func() {
	DescribeTable("is up to the operator: a deployment that sets it is refused, in", func(ctx SpecContext, version string) {
		form := workers[version]
		s := newServer(ctx)
		s.wantRefused(s.tryCreate(workerWith(version, "fixed", twoNodes, `"nodeName":"n1",`)),
			form.path+"nodeName: Forbidden", "remove nodeName, or use nodeSelector")
		s.wantRefused(s.tryCreate(workerWith(version, "gated", twoNodes, `"schedulingGates":[{"name":"mine"},{"name":"trellis.dev/placement"}],`)),
			form.path+"schedulingGates[1].name: Forbidden", "the gate trellis.dev/placement is the operator's own; remove it")
		s.wantRefused(s.tryCreate(workerWith(version, "gated", "", `"schedulingGates":[{"name":"trellis.dev/placement"}],`)),
			form.path+"schedulingGates[0].name: Forbidden")
		s.create(workerWith(version, "free", "", `"nodeName":"n1","schedulingGates":[{"name":"mine"}],`))
		s.create(workerWith(version, "own-gate", twoNodes, `"schedulingGates":[{"name":"mine"}],`))
	}, eachVersion())

	tolerations := func(n int) string {
		return `"tolerations":[` + strings.TrimSuffix(strings.Repeat(`{"operator":"Exists"},`, n), ",") + `],`
	}
	DescribeTable("compares every node with lists that are bounded", func(ctx SpecContext, version string) {
		form := workers[version]
		s := newServer(ctx)
		says := []string{form.path + "tolerations: Too many: 257", "must have at most 256 tolerations", "tolerate a key with operator Exists instead of each value"}
		s.wantRefused(s.tryCreate(workerWith(version, "many", "", tolerations(257))), says...)
		s.create(workerWith(version, "most", "", tolerations(256)))
		s.wantRefused(s.admin.Patch(ctx, workerWith(version, "most", "", tolerations(257)), client.Merge), says...)
	}, eachVersion())

	DescribeTable("stays up to the operator in a change, in", func(ctx SpecContext, version string) {
		form := workers[version]
		s := newServer(ctx)
		s.create(workerWith(version, "later", twoNodes, ""))
		for path, pod := range map[string]string{"nodeName": `"nodeName":"n1",`, "schedulingGates[0].name": `"schedulingGates":[{"name":"trellis.dev/placement"}],`} {
			changed := workerWith(version, "later", twoNodes, pod)
			s.wantRefused(s.admin.Patch(ctx, changed, client.Merge), form.path+path+": Forbidden")
		}
	}, eachVersion())
})

// eachVersion are the served versions.
func eachVersion() (entries []TableEntry) {
	for _, version := range bothVersions {
		entries = append(entries, Entry(version, SpecTimeout(suite.Timeout()), version))
	}
	return entries
}
