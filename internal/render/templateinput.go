// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/rollout"
)

// inputForm numbers what templateInput contains and how it is hashed. It goes up by one with every change of either, also one that comes
// with a newer version of the Kubernetes API types or of the conversion from v1alpha1: hashes of two forms cannot be compared.
const inputForm = 2

// templateInput is everything outside this program that decides what the pods of a component look like: what the user wrote, without what
// concerns replicas, placement and traffic only, and the addresses the operator was started with. The name and namespace of a deployment
// never change and are left out.
type templateInput struct {
	// Inherited are the annotations of the deployment itself that hold for its components.
	Inherited        map[string]string              `json:"inherited,omitempty"`
	Annotations      map[string]string              `json:"annotations,omitempty"`
	Labels           map[string]string              `json:"labels,omitempty"`
	Env              []corev1.EnvVar                `json:"env,omitempty"`
	BackendFramework nvidiav1beta1.BackendFramework `json:"backendFramework,omitempty"`
	PriorityClass    string                         `json:"priorityClassName,omitempty"`
	Component        nvidiav1beta1.ComponentSpec    `json:"component"`
	Alpha            alphaInput                     `json:"alpha,omitzero"`
	Platform         Platform                       `json:"platform"`
	// KVTransfer is the graph's policy, of workers.
	KVTransfer *nvidiav1beta1.KVTransferPolicy `json:"kvTransferPolicy,omitempty"`
}

// alphaInput is what only v1alpha1 says of a component and is not in its podTemplate.
type alphaInput struct {
	ComponentType     string `json:"componentType,omitempty"`
	SubComponentType  string `json:"subComponentType,omitempty"`
	MainContainerName string `json:"mainContainerName,omitempty"`
	GPUResource       string `json:"gpuResource,omitempty"`
}

// input identifies what the roles of a component are made from.
func (t *templater) input() *trellisv1alpha1.TemplateInput { return t.inputOn(t.platform) }

// inputOn is the input with other addresses.
func (t *templater) inputOn(platform Platform) *trellisv1alpha1.TemplateInput {
	component := *t.spec
	component.Replicas, component.MinAvailable, component.ScalingAdapter = nil, nil, nil
	component.TopologyConstraint, component.ProviderOverride, component.Roles = nil, nil, nil
	if template := component.PodTemplate; template != nil {
		copied := *template
		copied.Annotations = withoutRollout(template.Annotations)
		component.PodTemplate = &copied
	}
	dgd, alpha := t.dgd, t.alpha
	raw, err := json.Marshal(templateInput{
		Inherited:   inherited(dgd),
		Annotations: withoutRollout(dgd.Spec.Annotations),
		Labels:      dgd.Spec.Labels, Env: dgd.Spec.Env, BackendFramework: dgd.Spec.BackendFramework, PriorityClass: dgd.Spec.PriorityClassName,
		Component: component, Platform: platform, KVTransfer: t.transferPolicy(),
		Alpha: alphaInput{
			ComponentType: alpha.ComponentType, SubComponentType: alpha.SubComponentType,
			MainContainerName: alpha.MainContainerName, GPUResource: alpha.GPUResource,
		},
	})
	if err != nil {
		panic("a deployment does not marshal: " + err.Error()) // it was unmarshalled before; cannot happen
	}
	sum := sha256.Sum256(raw)
	return &trellisv1alpha1.TemplateInput{Form: inputForm, Hash: hex.EncodeToString(sum[:8])}
}

// workersInput identifies what the user wrote of all workers, in the form FORM-HASH. It stays the same when the operator is upgraded,
// except to another form, or started with other addresses.
func workersInput(components []*rendering) string {
	var all strings.Builder
	for _, r := range components {
		if r.worker() {
			all.WriteString(r.name + " " + r.inputOn(Platform{}).Hash + "\n")
		}
	}
	return fmt.Sprintf("%d-%s", inputForm, shortHash(all.String()))
}

// sameForm reports whether two inputs of workers can be compared.
func sameForm(a, b string) bool {
	a, _, _ = strings.Cut(a, "-")
	b, _, _ = strings.Cut(b, "-")
	return a == b
}

// withoutRollout leaves out how pods are replaced, which is not about the pods.
func withoutRollout(annotations map[string]string) map[string]string {
	out := maps.Clone(annotations)
	maps.DeleteFunc(out, func(key, _ string) bool { return slices.Contains(aboutRollout, key) })
	return out
}

// aboutRollout are the annotations that say how pods are replaced, wherever they are written.
var aboutRollout = slices.Concat(rollout.Annotations, rollout.SharedAnnotations, rollout.FormerAnnotations, []string{AnnotationGenerations})

// keepsRoles reports whether a group's stored roles stay as they are: nothing they are made from has changed, or it is not known whether
// it has, because another version of the operator stored no hash or one of another form. Then what is there is adopted: an upgrade of the
// operator replaces no pod. Roles that another client has changed do not stay.
func keepsRoles(stored *trellisv1alpha1.ScalingGroup, input *trellisv1alpha1.TemplateInput) bool {
	if stored == nil || len(stored.Spec.Roles) == 0 || EditOf(stored).Any("roles", "revision", "input") {
		return false
	}
	return adopts(stored) || *stored.Spec.Input == *input
}

// adopts reports whether a group's stored roles cannot be compared with today's input.
func adopts(stored *trellisv1alpha1.ScalingGroup) bool {
	return stored.Spec.Input == nil || stored.Spec.Input.Form != inputForm
}
