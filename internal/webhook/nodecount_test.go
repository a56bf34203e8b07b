// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/validation"
	"github.com/trellis-k8s/trellis/test/testutil/hub"
	"github.com/trellis-k8s/trellis/test/testutil/providertest"
)

// TestNodeCountUnderGrove: Grove would refuse the new size of its gangs after admission, and the deployment would stay failed.
func TestNodeCountUnderGrove(t *testing.T) {
	const text = "metadata: {name: g, namespace: ns, annotations: {trellis.dev/provider: PROVIDER}}\n" +
		"spec: {services: {A: {componentType: worker, multinode: {nodeCount: 2}}}}"
	v := &deploymentValidator{}
	for provider, refused := range map[string]bool{specs.Grove.Name: true, specs.KAI.Name: false, specs.Gates.Name: false} {
		old := hub.Back(providertest.Deployment(t, strings.ReplaceAll(text, "PROVIDER", provider)))
		updated := old.DeepCopy()
		updated.Spec.Services["A"].Multinode.NodeCount = 4
		err := validated(t, v, old, updated)
		if (err != nil) != refused || refused && !strings.Contains(err.Error(), "spec.services[A].multinode.nodeCount: Forbidden: nodeCount is immutable under the provider Grove") {
			t.Errorf("%s: %v", provider, err)
		}
	}
	old := hub.Back(providertest.Deployment(t, strings.ReplaceAll(text, "PROVIDER", specs.Grove.Name)))
	updated := hub.Back(providertest.Deployment(t, strings.ReplaceAll(text, "PROVIDER", specs.Gates.Name)))
	updated.Spec.Services["A"].Multinode.NodeCount = 4
	if err := validated(t, v, old, updated); err != nil {
		t.Errorf("with another provider at the same time: %v", err)
	}
}

// validated asks about a change as admission does.
func validated(t *testing.T, v *deploymentValidator, old, updated *nvidiav1alpha1.DynamoGraphDeployment) error {
	t.Helper()
	was, is := validation.Written{DynamoGraphDeployment: hub.Of(old), Alpha: old}, validation.Written{DynamoGraphDeployment: hub.Of(updated), Alpha: updated}
	_, errs := v.update(admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Object: runtime.RawExtension{Raw: []byte("{}")}}}, was, is)
	return errs.In("v1alpha1").ToAggregate()
}
