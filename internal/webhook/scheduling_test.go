// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// A pod that takes the placing into its own hands would be refused by the API server, one by one, or never be planned.
var _ = Describe("The placing of pods", func() {
	const (
		alpha = `{"spec":{"services":{"Worker":{"replicas":1,%s"extraPodSpec":{%s"mainContainer":{"image":"i"}}}}}}`
		beta  = `{"spec":{"components":[{"name":"Worker","type":"worker","replicas":1,%s"podTemplate":{"spec":{%s"containers":[{"name":"main","image":"i"}]}}}]}}`
		two   = `"multinode":{"nodeCount":2},`
	)
	for version, form := range map[string]struct{ manifest, path string }{
		"v1alpha1": {alpha, "spec.services[Worker].extraPodSpec."},
		"v1beta1":  {beta, "spec.components[0].podTemplate.spec."},
	} {
		object := func(name, shape, pod string) client.Object {
			GinkgoHelper()
			out := deploymentOf(version, name)
			Expect(yaml.Unmarshal(fmt.Appendf(nil, form.manifest, shape, pod), &out.Object)).To(Succeed())
			named := deploymentOf(version, name)
			out.SetAPIVersion(named.GetAPIVersion())
			out.SetKind(named.GetKind())
			out.SetNamespace(named.GetNamespace())
			out.SetName(name)
			return out
		}
		It("is the operator's in "+version, func() {
			Expect(admin.Create(ctx, object("fixed", two, `"nodeName":"n1",`))).To(badRequest(form.path+"nodeName: Forbidden", "remove nodeName, or use nodeSelector"))
			Expect(admin.Create(ctx, object("gated", two, `"schedulingGates":[{"name":"mine"},{"name":"trellis.dev/placement"}],`))).
				To(badRequest(form.path+"schedulingGates[1].name: Forbidden", "the gate trellis.dev/placement is the operator's own; remove it"))
			Expect(admin.Create(ctx, object("gated", "", `"schedulingGates":[{"name":"trellis.dev/placement"}],`))).To(badRequest(form.path + "schedulingGates[0].name: Forbidden"))
			created(object("free-"+version, "", `"nodeName":"n1","schedulingGates":[{"name":"mine"}],`))
			created(object("own-gate-"+version, two, `"schedulingGates":[{"name":"mine"}],`))
		})
		It("stays the operator's in a change in "+version, func() {
			created(object("later-"+version, two, ""))
			for path, pod := range map[string]string{"nodeName": `"nodeName":"n1",`, "schedulingGates[0].name": `"schedulingGates":[{"name":"trellis.dev/placement"}],`} {
				changed := object("later-"+version, two, pod)
				changed.SetManagedFields(nil)
				Expect(admin.Patch(ctx, changed, client.Merge)).To(badRequest(form.path + path + ": Forbidden"))
			}
		})
	}
})
