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

// inputForm is the version of the content and the hashing of templateInput. Every change of the content or the hashing must increment it,
// because hashes of different forms cannot be compared. A new version of the Kubernetes API types or of the conversion from v1alpha1 can
// also be such a change.
const inputForm = 2

// templateInput is the input that determines the pods of a component: the addresses in the operator's flags, and the user's fields. It
// omits fields that affect only replicas, placement or traffic. It also omits the deployment's name and namespace, which never change.
type templateInput struct {
	// Inherited are the deployment's annotations that apply to components.
	Inherited        map[string]string              `json:"inherited,omitempty"`
	Annotations      map[string]string              `json:"annotations,omitempty"`
	Labels           map[string]string              `json:"labels,omitempty"`
	Env              []corev1.EnvVar                `json:"env,omitempty"`
	BackendFramework nvidiav1beta1.BackendFramework `json:"backendFramework,omitempty"`
	PriorityClass    string                         `json:"priorityClassName,omitempty"`
	Component        nvidiav1beta1.ComponentSpec    `json:"component"`
	Alpha            alphaInput                     `json:"alpha,omitzero"`
	Platform         Platform                       `json:"platform"`
	// KVTransfer is the graph's KV transfer policy, for workers only.
	KVTransfer *nvidiav1beta1.KVTransferPolicy `json:"kvTransferPolicy,omitempty"`
}

// alphaInput holds the fields of a component that only v1alpha1 has and that affect the component's pods.
type alphaInput struct {
	ComponentType     string `json:"componentType,omitempty"`
	SubComponentType  string `json:"subComponentType,omitempty"`
	MainContainerName string `json:"mainContainerName,omitempty"`
	GPUResource       string `json:"gpuResource,omitempty"`
}

// input returns a hash of the input from which the component's roles are made.
func (t *templater) input() *trellisv1alpha1.TemplateInput { return t.inputOn(t.platform) }

// inputOn is like input, but uses the given addresses of the platform.
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

// workersInput identifies the user's input for all workers, as FORM-HASH. It does not depend on the addresses in the operator's flags. An
// upgrade of the operator changes the hash only if it also changes the form.
func workersInput(components []*rendering) string {
	var all strings.Builder
	for _, r := range components {
		if r.worker() {
			all.WriteString(r.name + " " + r.inputOn(Platform{}).Hash + "\n")
		}
	}
	return fmt.Sprintf("%d-%s", inputForm, shortHash(all.String()))
}

// sameForm reports whether two inputs of workers have the same form. Only such inputs can be compared.
func sameForm(a, b string) bool {
	a, _, _ = strings.Cut(a, "-")
	b, _, _ = strings.Cut(b, "-")
	return a == b
}

// withoutRollout returns the annotations without the annotations that control how pods are replaced.
func withoutRollout(annotations map[string]string) map[string]string {
	out := maps.Clone(annotations)
	maps.DeleteFunc(out, func(key, _ string) bool { return slices.Contains(aboutRollout, key) })
	return out
}

// aboutRollout are the annotations that control how pods are replaced, on deployments and components.
var aboutRollout = slices.Concat(rollout.Annotations, rollout.SharedAnnotations, rollout.FormerAnnotations, []string{AnnotationGenerations})

// keepsRoles reports whether a scaling group keeps its stored roles. It keeps the roles if its input has not changed, or if its input
// cannot be compared, because another version of the operator stored no hash or a hash of another form. Roles whose input cannot be
// compared are adopted, so an upgrade of the operator replaces no pod. A scaling group does not keep roles that another client has changed.
func keepsRoles(stored *trellisv1alpha1.ScalingGroup, input *trellisv1alpha1.TemplateInput) bool {
	if stored == nil || len(stored.Spec.Roles) == 0 || EditOf(stored).Any("roles", "revision", "input") {
		return false
	}
	return adopts(stored) || *stored.Spec.Input == *input
}

// adopts reports whether the input of a scaling group's stored roles cannot be compared with today's input.
func adopts(stored *trellisv1alpha1.ScalingGroup) bool {
	return stored.Spec.Input == nil || stored.Spec.Input.Form != inputForm
}
