// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package definitions

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

// Upstream are the files of the Dynamo operator's own definitions of the kinds that Trellis takes over. They are kept whole, in both
// versions, but for what describes pods: that takes any fields. One file holds one version.
var Upstream = []string{"dynamo/nvidia.com_dynamographdeployments.yaml", "dynamo/nvidia.com_dynamographdeploymentscalingadapters.yaml"}

// ofPods are fields that hold the types of Kubernetes itself: the specs of pods, and what is made for autoscaling.
var ofPods = []string{"podTemplate", "extraPodSpec", "env", "envs", "livenessProbe", "readinessProbe", "metrics", "behavior"}

// UpstreamFile is the name of the derived file of one version of a definition.
func UpstreamFile(file, version string) string {
	return strings.TrimSuffix(Name(file), ".txt") + "." + version + ".txt"
}

// DeriveUpstream returns of a definition in Upstream one derived definition for each version.
func DeriveUpstream(full *apiextensionsv1.CustomResourceDefinition) (out []*apiextensionsv1.CustomResourceDefinition) {
	for _, v := range full.Spec.Versions {
		v = *v.DeepCopy()
		v.AdditionalPrinterColumns, v.SelectableFields = nil, nil
		root := whole(withoutPods(*v.Schema.OpenAPIV3Schema))
		v.Schema.OpenAPIV3Schema = &root
		crd := &apiextensionsv1.CustomResourceDefinition{TypeMeta: full.TypeMeta, ObjectMeta: metav1.ObjectMeta{Name: full.Name}}
		crd.Spec = apiextensionsv1.CustomResourceDefinitionSpec{
			Group: full.Spec.Group, Names: full.Spec.Names, Scope: full.Spec.Scope, Versions: []apiextensionsv1.CustomResourceDefinitionVersion{v},
		}
		out = append(out, crd)
	}
	return out
}

// withoutPods replaces what describes pods by a schema that takes any fields.
func withoutPods(s schema) schema {
	for name, property := range s.Properties {
		if slices.Contains(ofPods, name) {
			s.Properties[name] = anything(property)
		} else {
			s.Properties[name] = withoutPods(property)
		}
	}
	if s.Items != nil && s.Items.Schema != nil {
		*s.Items.Schema = withoutPods(*s.Items.Schema)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		*s.AdditionalProperties.Schema = withoutPods(*s.AdditionalProperties.Schema)
	}
	return s
}

// anything is a schema of the same type, a list or an object, that takes any fields.
func anything(s schema) schema {
	if s.Items == nil {
		return schema{Type: "object", XPreserveUnknownFields: ptr.To(true)}
	}
	item := anything(*s.Items.Schema)
	return schema{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &item}}
}

// LoadUpstream returns the derived definition of a file in Upstream, with both versions.
func LoadUpstream(file string) (*apiextensionsv1.CustomResourceDefinition, error) {
	var out *apiextensionsv1.CustomResourceDefinition
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		name := "data/" + UpstreamFile(file, version)
		text, err := data.ReadFile(name)
		if err != nil {
			return nil, err
		}
		crd, err := Parse(string(text), PodSpecs{})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if out == nil {
			out = crd
		} else {
			out.Spec.Versions = append(out.Spec.Versions, crd.Spec.Versions...)
		}
	}
	return out, nil
}

// InstalledUpstream returns a definition in Upstream as the Dynamo operator installs it: the derived one, or the full one where dir, a
// folder laid out as Upstream says, is not empty. New objects are stored in a version. Conversion is called at the operator's Service.
func InstalledUpstream(dir, file, storage string) (*apiextensionsv1.CustomResourceDefinition, error) {
	crd, err := readUpstream(dir, file)
	if err != nil {
		return nil, err
	}
	for i := range crd.Spec.Versions {
		crd.Spec.Versions[i].Storage = crd.Spec.Versions[i].Name == storage
	}
	crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter,
		Webhook: &apiextensionsv1.WebhookConversion{
			ConversionReviewVersions: []string{"v1"},
			ClientConfig: &apiextensionsv1.WebhookClientConfig{Service: &apiextensionsv1.ServiceReference{
				Namespace: "dynamo-system", Name: "dynamo-operator-webhook-service", Path: ptr.To("/convert"),
			}},
		}}
	return crd, nil
}

func readUpstream(dir, file string) (*apiextensionsv1.CustomResourceDefinition, error) {
	if dir == "" {
		return LoadUpstream(file)
	}
	raw, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(file)))
	if err != nil {
		return nil, err
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	return crd, yaml.Unmarshal(raw, crd)
}
