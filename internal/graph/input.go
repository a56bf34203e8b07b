// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"

	corev1 "k8s.io/api/core/v1"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/rollout"
)

// inputForm numbers what templateInput contains and how it is hashed. It goes up by one with every change of either, also one that comes
// with a newer version of the Kubernetes API types: hashes of two forms cannot be compared.
const inputForm = 1

// templateInput is everything outside this program that decides what the pods of a service look like: what the user wrote, without what
// concerns replicas, placement and traffic only, and the addresses the operator was started with. The name and namespace of a deployment
// never change and are left out.
type templateInput struct {
	// Inherited are the annotations of the deployment itself that hold for its services.
	Inherited        map[string]string               `json:"inherited,omitempty"`
	Annotations      map[string]string               `json:"annotations,omitempty"`
	Labels           map[string]string               `json:"labels,omitempty"`
	Envs             []corev1.EnvVar                 `json:"envs,omitempty"`
	BackendFramework nvidiav1alpha1.BackendFramework `json:"backendFramework,omitempty"`
	PriorityClass    string                          `json:"priorityClassName,omitempty"`
	Service          nvidiav1alpha1.ServiceSpec      `json:"service"`
	Platform         Platform                        `json:"platform"`
}

// inputOf identifies what the roles of a service are made from.
func inputOf(dgd *nvidiav1alpha1.DynamoGraphDeployment, spec *nvidiav1alpha1.ServiceSpec, platform Platform) *trellisv1alpha1.TemplateInput {
	service := *spec
	service.Replicas, service.MinAvailable, service.ScalingAdapter, service.Autoscaling = nil, nil, nil, nil
	service.TopologyConstraint, service.ProviderOverride, service.Ingress = nil, nil, nil
	service.ServiceName = ""
	service.Annotations = withoutRollout(spec.Annotations)
	raw, err := json.Marshal(templateInput{
		Inherited:   inherited(dgd),
		Annotations: withoutRollout(dgd.Spec.Annotations),
		Labels:      dgd.Spec.Labels, Envs: dgd.Spec.Envs, BackendFramework: dgd.Spec.BackendFramework, PriorityClass: dgd.Spec.PriorityClassName,
		Service: service, Platform: platform,
	})
	if err != nil {
		panic("a deployment does not marshal: " + err.Error()) // it was unmarshalled before; cannot happen
	}
	sum := sha256.Sum256(raw)
	return &trellisv1alpha1.TemplateInput{Form: inputForm, Hash: hex.EncodeToString(sum[:8])}
}

// withoutRollout leaves out how pods are replaced, which is not about the pods.
func withoutRollout(annotations map[string]string) map[string]string {
	out := maps.Clone(annotations)
	for _, key := range rollout.Annotations {
		delete(out, key)
	}
	return out
}

// keepsRoles says that a group's stored roles stay as they are: nothing they are made from has changed, or it is not known whether it has,
// because another version of the operator stored no hash or one of another form. Then what is there is adopted: an upgrade of the operator
// replaces no pod.
func keepsRoles(stored *trellisv1alpha1.ScalingGroup, input *trellisv1alpha1.TemplateInput) bool {
	if stored == nil || len(stored.Spec.Roles) == 0 {
		return false
	}
	return adopts(stored) || *stored.Spec.Input == *input
}

// adopts says that a group's stored roles cannot be compared with today's input.
func adopts(stored *trellisv1alpha1.ScalingGroup) bool {
	return stored.Spec.Input == nil || stored.Spec.Input.Form != inputForm
}
