// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/provider/external"
	"github.com/trellis-k8s/trellis/internal/provider/grove"
	"github.com/trellis-k8s/trellis/test/testutil/providertest"
)

// mixed has all there is: both places of a constraint, required and preferred, a gang and single pods.
const mixed = `
metadata: {name: NAME, namespace: default, annotations: {nvidia.com/kai-scheduler-queue: serving}}
spec:
  priorityClassName: inference
  topologyConstraint: {topologyProfile: grove-topology, packDomain: zone, preferredPackDomain: block}
  services:
    Decode:
      componentType: worker
      replicas: 2
      multinode: {nodeCount: 3}
      topologyConstraint: {packDomain: block, preferredPackDomain: rack}
      resources: {limits: {gpu: "8"}}
      extraPodSpec: {mainContainer: {command: [python3, -m, dynamo.sglang], args: [--tp, "24"]}}
    Frontend: {componentType: frontend, replicas: 2}`

func deployment(name string) *nvidiav1beta1.DynamoGraphDeployment {
	GinkgoHelper()
	return providertest.Deployment(GinkgoTB(), strings.ReplaceAll(mixed, "NAME", name))
}

// resourceOf finds where an object is served; older shapes of Grove are in groups of their own.
func resourceOf(object *unstructured.Unstructured) dynamic.ResourceInterface {
	gvk := object.GroupVersionKind()
	resource := resources[gvk.Kind]
	resource.Group = gvk.Group
	if object.GetNamespace() == "" {
		return client.Resource(resource)
	}
	return client.Resource(resource).Namespace(object.GetNamespace())
}

// sent is the object as clients send it, in the group that serves this shape of Grove.
func sent(typed any, shape grove.Shape) *unstructured.Unstructured {
	GinkgoHelper()
	object, err := external.Object(typed)
	Expect(err).NotTo(HaveOccurred())
	if object.GetKind() == grove.PodCliqueSetKind.Kind && shape != "" {
		object.SetGroupVersionKind(schema.GroupVersionKind{Group: groves[shape].Spec.Group, Version: "v1alpha1", Kind: object.GetKind()})
	}
	return object
}

// create asks as a strict client does: unknown fields are errors.
func create(ctx context.Context, object *unstructured.Unstructured, dryRun ...string) (*unstructured.Unstructured, error) {
	GinkgoHelper()
	created, err := resourceOf(object).Create(ctx, object, metav1.CreateOptions{DryRun: dryRun, FieldValidation: metav1.FieldValidationStrict})
	if err == nil && len(dryRun) == 0 {
		DeferCleanup(func(ctx SpecContext) { _ = resourceOf(object).Delete(ctx, object.GetName(), metav1.DeleteOptions{}) })
	}
	return created, err
}

// accepted fails unless the object is taken whole.
func accepted(ctx context.Context, object *unstructured.Unstructured, dryRun ...string) *unstructured.Unstructured {
	GinkgoHelper()
	created, err := create(ctx, object, dryRun...)
	Expect(err).NotTo(HaveOccurred(), "%s %s is refused", object.GetKind(), object.GetName())
	Expect(external.Missing(object, created)).To(BeEmpty(), "a field of %s %s that is not kept", object.GetKind(), object.GetName())
	return created
}

func refused(ctx context.Context, object *unstructured.Unstructured, words string) {
	GinkgoHelper()
	_, err := create(ctx, object, metav1.DryRunAll)
	Expect(err).To(Or(Satisfy(apierrors.IsInvalid), Satisfy(apierrors.IsBadRequest)), "the refusal of %s %s", object.GetKind(), object.GetName())
	Expect(err).To(MatchError(ContainSubstring(words)))
}

// status writes a status as the peer's operator would, and returns the object read back.
func status(ctx context.Context, object *unstructured.Unstructured, text string) *unstructured.Unstructured {
	GinkgoHelper()
	raw, err := yaml.YAMLToJSON([]byte("status:\n" + text))
	Expect(err).NotTo(HaveOccurred())
	strict := metav1.PatchOptions{FieldValidation: metav1.FieldValidationStrict}
	changed, err := resourceOf(object).Patch(ctx, object.GetName(), types.MergePatchType, raw, strict, "status")
	Expect(err).NotTo(HaveOccurred())
	return changed
}

func read[T any](object *unstructured.Unstructured) *T {
	GinkgoHelper()
	out := new(T)
	Expect(external.Read(object, out)).To(Succeed())
	return out
}
