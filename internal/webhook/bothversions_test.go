// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"fmt"
	"maps"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/trellis-k8s/trellis/test/testutil/manifest"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// These go the whole way through the API server: schema, rules of the definitions, conversion, webhooks. What else the rules say is tested where
// they are.

const (
	alphaMain = `extraPodSpec: {mainContainer: {image: "r/runtime:1.4.0"}}`
	betaMain  = `podTemplate: {spec: {containers: [{name: main, image: "r/runtime:1.4.0"}]}}`
	atWorker  = "spec.services[Worker]."
	atFirst   = "spec.components[0]."
)

// oneWorker is a deployment of a Worker, in the version whose spec it has; more is what else its spec says.
func oneWorker(version, more, worker string) *unstructured.Unstructured {
	GinkgoHelper()
	form := `{spec: {%sservices: {Worker: {%s}}}}`
	if version == "v1beta1" {
		form = `{spec: {%scomponents: [{name: Worker, %s}]}}`
	}
	object := deploymentOf(version, "both")
	maps.Copy(object.Object, manifest.Parse(GinkgoTB(), fmt.Sprintf(form, more, worker)))
	return object
}

var _ = Describe("A deployment in either version, by schema, rules, conversion and webhooks", func() {
	Context("on create", func() {
		type creation struct {
			version, spec, worker string
			// want are texts of the refusal; none: the deployment is accepted.
			want []string
		}
		tests := map[string]creation{
			"alpha":             {version: "v1alpha1", worker: alphaMain},
			"beta":              {version: "v1beta1", worker: betaMain},
			"a name with a dot": {version: "v1beta1", worker: betaMain + "}, {name: a.b, " + betaMain, want: []string{"spec.components[1].name", "a component name must have 1 to 63"}},
			"a long name": {
				version: "v1beta1", worker: betaMain + `}, {name: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa, ` + betaMain,
				want: []string{"spec.components[1].name"},
			},
			"a name with a dot in v1alpha1":       {version: "v1alpha1", worker: alphaMain + "}, a.b: {" + alphaMain},
			"a frontend sidecar without a name":   {version: "v1beta1", worker: betaMain + `, frontendSidecar: ""`, want: []string{atFirst + "frontendSidecar"}},
			"a picker of the runtime":             {version: "v1beta1", worker: `type: epp, podTemplate: {spec: {containers: [{name: main, image: "r/dynamo:1.5.0"}]}}`},
			"a picker of the runtime in v1alpha1": {version: "v1alpha1", worker: `componentType: epp, extraPodSpec: {mainContainer: {image: "r/dynamo:1.5.0"}}`},
			"an early picker":                     {version: "v1alpha1", worker: `componentType: epp, ` + alphaMain, want: []string{atWorker + "eppConfig", "runtime before 1.5.0"}},
			"configuration of a picker of the runtime": {
				version: "v1beta1", worker: `type: epp, runtimeVersionOverride: 1.5.0, eppConfig: {configMapRef: {name: c, key: k}}, ` + betaMain,
				want: []string{atFirst + "eppConfig", "reads no eppConfig; remove it"},
			},
			"devices without a GPU": {
				version: "v1alpha1", worker: `componentType: worker, gpuMemoryService: {enabled: true}, ` + alphaMain,
				want: []string{atWorker + "gpuMemoryService", "resources.limits.gpu"},
			},
			"devices without a GPU in v1beta1": {
				version: "v1beta1", worker: `type: worker, experimental: {gpuMemoryService: {}}, ` + betaMain,
				want: []string{atFirst + "experimental.gpuMemoryService", "limit of nvidia.com/gpu"},
			},
			"failover in the pod": {
				version: "v1beta1", worker: `type: worker, experimental: {failover: {}}, ` + betaMain,
				want: []string{"metadata.annotations[nvidia.com/dynamo-kube-discovery-mode]", atFirst + "experimental.failover", "needs gpuMemoryService"},
			},
			"a job beside a checkpoint": {version: "v1alpha1", worker: `checkpoint: {enabled: true, checkpointRef: a, job: {}}, ` + alphaMain, want: []string{atWorker + "checkpoint.job"}},
			"an override of Grove": {
				version: "v1alpha1", spec: "providerOverride: {apiVersion: grove.io/v1alpha1, value: {spec: {template: {topologyConstraint: {packDomain: rack}}}}}, ",
				worker: alphaMain,
			},
			"an override of replicas": {
				version: "v1beta1", spec: "providerOverride: {apiVersion: grove.io/v1alpha1, value: {spec: {replicas: 2}}}, ", worker: betaMain,
				want: []string{"spec.providerOverride.value"},
			},
			"a transfer policy with two selectors": {
				version: "v1alpha1", spec: "experimental: {kvTransferPolicy: {labelKey: a/b, clusterTopologyName: c, domain: rack}}, ", worker: alphaMain,
				want: []string{"spec.experimental.kvTransferPolicy", "exactly one of labelKey or clusterTopologyName"},
			},
			"negative shared memory":     {version: "v1beta1", worker: betaMain + ", sharedMemorySize: -1Gi", want: []string{atFirst + "sharedMemorySize"}},
			"a planner of several nodes": {version: "v1alpha1", worker: "componentType: planner, multinode: {nodeCount: 2}, " + alphaMain, want: []string{atWorker + "multinode", "remove multinode"}},
		}
		DescribeTable("is accepted or refused with", func(ctx SpecContext, tc creation) {
			s := newServer(ctx)
			object := oneWorker(tc.version, tc.spec, tc.worker)
			s.want(s.tryCreate(object), tc.want...)
		}, suite.Entries(tests, SpecTimeout(suite.Timeout())))
	})

	Context("on update", func() {
		type update struct {
			version, before, after string
			// want are texts of the refusal; none: the update is accepted.
			want []string
		}
		tests := map[string]update{
			"removes the image": {
				version: "v1beta1", before: betaMain,
				after: "podTemplate: {spec: {containers: [{name: main}]}}", want: []string{atFirst + "podTemplate.spec.containers[main].image"},
			},
			"removes the image in v1alpha1":              {version: "v1alpha1", before: alphaMain, after: "replicas: 2", want: []string{atWorker + "extraPodSpec.mainContainer.image"}},
			"leaves a minAvailable of 1 out":             {version: "v1beta1", before: betaMain + ", minAvailable: 1", after: betaMain},
			"leaves a minAvailable of 1 out in v1alpha1": {version: "v1alpha1", before: alphaMain + ", minAvailable: 1", after: alphaMain},
			"leaves a minAvailable of 2 out": {
				version: "v1beta1", before: betaMain + ", replicas: 2, minAvailable: 2",
				after: betaMain + ", replicas: 2", want: []string{atFirst + "minAvailable", "is immutable"},
			},
			"changes a minAvailable of 1": {
				version: "v1alpha1", before: alphaMain + ", replicas: 2, minAvailable: 1",
				after: alphaMain + ", replicas: 2, minAvailable: 2", want: []string{atWorker + "minAvailable", "is immutable"},
			},
			"gives a picker the runtime's image and no configuration": {
				version: "v1beta1", before: "type: epp, eppConfig: {configMapRef: {name: c, key: k}}, " + betaMain,
				after: `type: epp, podTemplate: {spec: {containers: [{name: main, image: "r/dynamo:1.5.0"}]}}`,
			},
			"gives a picker the runtime's image alone": {
				version: "v1beta1", before: "type: epp, eppConfig: {configMapRef: {name: c, key: k}}, " + betaMain,
				after: `type: epp, eppConfig: {configMapRef: {name: c, key: k}}, podTemplate: {spec: {containers: [{name: main, image: "r/dynamo:1.5.0"}]}}`, want: []string{atFirst + "eppConfig"},
			},
		}
		DescribeTable("is accepted or refused when it", func(ctx SpecContext, tc update) {
			s := newServer(ctx)
			object := oneWorker(tc.version, "", tc.before)
			s.create(object)
			updated := oneWorker(tc.version, "", tc.after)
			updated.SetResourceVersion(object.GetResourceVersion())
			s.want(s.admin.Update(ctx, updated), tc.want...)
		}, suite.Entries(tests, SpecTimeout(suite.Timeout())))
	})

	It("is changed through v1beta1 although it has a component whose name only v1alpha1 takes", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		s := newServer(ctx)
		s.create(oneWorker("v1alpha1", "", alphaMain+"}, a.b: {"+alphaMain))
		beta := deploymentOf("v1beta1", "both")
		s.get(beta)
		components, _, err := unstructured.NestedSlice(beta.Object, "spec", "components")
		Expect(err).NotTo(HaveOccurred())
		components[1].(map[string]any)["replicas"] = int64(3)
		Expect(unstructured.SetNestedSlice(beta.Object, components, "spec", "components")).To(Succeed())
		Expect(s.admin.Update(ctx, beta)).To(Succeed())
	})
})
