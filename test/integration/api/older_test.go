// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// outdated breaks about every rule that can be broken by an object which is there already.
const outdated = `
apiVersion: ratchet.example.com/v1alpha1
kind: DynamoGraphDeployment
metadata: {name: outdated, finalizers: [example.com/hold]}
spec:
  backendFramework: tgi
  topologyConstraint: {packDomain: Rack}
  pvcs: [{name: models}, {name: models}]
  restart: {id: ""}
  services:
    my worker:
      replicas: -1
      multinode: {nodeCount: 1}
      topologyConstraint: {topologyProfile: p}
      sharedMemory: {disabled: true, size: 1Gi}
      resources: {limits: {gpu: many}}
      ingress: {enabled: true}
      volumeMounts: [{name: models}]
    my_worker: {}
    MY_worker: {}
`

var _ = Describe("An object older than a rule", func() {
	It("can be labelled, scaled, reported on and deleted; only what is wrong cannot be rewritten", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		ratchet := schema.GroupVersionResource{Group: "ratchet.example.com", Version: "v1alpha1", Resource: "dynamographdeployments"}
		objects := client.Resource(ratchet).Namespace(namespace)
		storeOlder(ctx, alphaOnly(readDefinition("nvidia.com_dynamographdeployments.yaml",
			"metadata: {name: dynamographdeployments.ratchet.example.com}", "spec: {group: ratchet.example.com}")), objects, object(outdated))

		change := func(text string, subresources ...string) error {
			_, err := patchThrough(ctx, objects, "outdated", text, subresources...)
			return err
		}
		Expect(change(`metadata: {labels: {a: b}}`)).To(Succeed())
		Expect(change(deploymentStatus, "status")).To(Succeed())
		Expect(change(`spec: {services: {my worker: {replicas: 3, resources: {limits: {cpu: "1"}}}}}`)).To(Succeed())
		Expect(change(`spec: {services: {my worker: {resources: {limits: {memory: many}}}}}`)).
			To(refusal{"spec.services.my worker.resources.limits.memory", "should match"})
		Expect(change(`metadata: {finalizers: null}`)).To(Succeed())
		Expect(objects.Delete(ctx, "outdated", metav1.DeleteOptions{})).To(Succeed())
		_, err := objects.Get(ctx, "outdated", metav1.GetOptions{})
		Expect(err).To(MatchError(apierrors.IsNotFound, "IsNotFound"))
	}, SpecTimeout(suite.Timeout()))

	const role = "roles: [{name: leader, count: 1, template: {}}, {name: worker, count: 2147483646, template: {}}]"
	type numbers struct {
		file, object, status, up, down string
		want                           refusal
		subresource                    string
	}
	// Its status is written, it is labelled and scaled in, and only a number beyond the bound is refused.
	DescribeTable("keeps numbers beyond the bounds of replicas and nodeCount", func(ctx SpecContext, kind string, tt numbers) {
		objects := client.Resource(schema.GroupVersionResource{Group: "bounds.example.com", Version: "v1alpha1", Resource: kind}).Namespace(namespace)
		storeOlder(ctx, readDefinition(tt.file, "metadata: {name: "+kind+".bounds.example.com}", "spec: {group: bounds.example.com}"), objects, object(tt.object))

		change := func(text string, subresources ...string) error {
			_, err := patchThrough(ctx, objects, "old", text, subresources...)
			return err
		}
		Expect(change("metadata: {labels: {a: b}}")).To(Succeed())
		Expect(change(tt.status, "status")).To(Succeed())
		Expect(change(tt.up)).To(tt.want)
		if tt.subresource != "" {
			Expect(change(tt.up, tt.subresource)).To(tt.want)
			Expect(change(tt.down, tt.subresource)).To(Succeed())
		}
		Expect(change(tt.down)).To(Succeed())
		Expect(change(tt.status, "status")).To(Succeed())
	},
		Entry("dynamographdeployments", "dynamographdeployments", SpecTimeout(suite.Timeout()), numbers{
			file:   "nvidia.com_dynamographdeployments.yaml",
			object: "{apiVersion: bounds.example.com/v1alpha1, kind: DynamoGraphDeployment, metadata: {name: old}, spec: {services: {a: {replicas: 1000000, multinode: {nodeCount: 2147483647}}, b: {replicas: 3}}}}",
			status: deploymentStatus, up: "spec: {services: {a: {replicas: 1000001}}}", down: "spec: {services: {a: {replicas: 0}}}",
			want: refusal{"spec.services.a.replicas", "should be less than or equal to 65536"},
		}),
		Entry("dynamographdeploymentscalingadapters", "dynamographdeploymentscalingadapters", SpecTimeout(suite.Timeout()), numbers{
			file:   "nvidia.com_dynamographdeploymentscalingadapters.yaml",
			object: "{apiVersion: bounds.example.com/v1alpha1, kind: DynamoGraphDeploymentScalingAdapter, metadata: {name: old}, spec: {replicas: 1000000, dgdRef: {name: g, serviceName: a}}}",
			status: scalingAdapterStatus, up: "spec: {replicas: 1000001}", down: "spec: {replicas: 65536}",
			want: refusal{"spec.replicas", "should be less than or equal to 65536"}, subresource: "scale",
		}),
		Entry("scalinggroups", "scalinggroups", SpecTimeout(suite.Timeout()), numbers{
			file:   "trellis.dev_scalinggroups.yaml",
			object: "{apiVersion: bounds.example.com/v1alpha1, kind: ScalingGroup, metadata: {name: old}, spec: {graph: g, service: a, engine: Gates, multinode: true, replicas: 1000000, revision: '1', " + role + "}}",
			status: "status: {observedGeneration: 1, replicas: 3}", up: "spec: {replicas: 1000001}", down: "spec: {replicas: 5}",
			want: refusal{"spec.replicas", "should be less than or equal to 65536"},
		}),
	)
})

// alphaOnly is the definition of DynamoGraphDeployment with v1alpha1 alone: in a group of its own nothing converts.
func alphaOnly(crd *unstructured.Unstructured) *unstructured.Unstructured {
	GinkgoHelper()
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	versions = slices.DeleteFunc(versions, func(v any) bool { return v.(map[string]any)["name"] != "v1alpha1" })
	versions[0].(map[string]any)["storage"] = true
	Expect(unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions")).To(Succeed())
	return crd
}
