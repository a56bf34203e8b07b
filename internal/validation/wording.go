// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

// Wording rewrites what checks say of a deployment for the API version in which its user wrote it. Checks speak of v1alpha1.
//
//	spec.services[Decode].topologyConstraint.packDomain    spec.components[2].topologyConstraint.packDomain
//	spec.services[Decode].resources.limits.gpu             spec.components[2].podTemplate.spec.containers[main].resources.limits[nvidia.com/gpu]
//	topologyProfile is required                            clusterTopologyName is required
//
// The zero value is that of v1alpha1 and changes nothing.
type Wording struct {
	// index of each component, in the order in which the user wrote them; nil in v1alpha1.
	index map[string]int
}

// WordingOf returns the wording for a deployment that was written in the given version.
func WordingOf(dgd *nvidiav1beta1.DynamoGraphDeployment, version string) Wording {
	if version != nvidiav1beta1.GroupVersion.Version {
		return Wording{}
	}
	w := Wording{index: map[string]int{}}
	for i := range dgd.Spec.Components {
		w.index[dgd.Spec.Components[i].Name] = i
	}
	return w
}

// WordingOfComponents returns the wording for a deployment of v1beta1 with these components, in the order in which the user wrote them.
func WordingOfComponents(names []string) Wording {
	w := Wording{index: map[string]int{}}
	for i, name := range names {
		w.index[name] = i
	}
	return w
}

// Errors rewrites path and text of each error.
func (w Wording) Errors(errs field.ErrorList) field.ErrorList {
	if w.index == nil {
		return errs
	}
	out := make(field.ErrorList, 0, len(errs))
	for _, err := range errs {
		rewritten := *err
		rewritten.Field, rewritten.Detail = w.Text(err.Field), w.Text(err.Detail)
		out = append(out, &rewritten)
	}
	return out
}

// Lines rewrites each line.
func (w Wording) Lines(lines []string) []string {
	if w.index == nil {
		return lines
	}
	out := make([]string, 0, len(lines))
	for _, line := range lines {
		out = append(out, w.Text(line))
	}
	return out
}

var (
	quoted      = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	servicePart = regexp.MustCompile(`spec\.services\[([^\]]*)\]((?:\.[A-Za-z]+|\[[^\]]*\])*)`)
	// otherWords are those of v1alpha1 outside of paths of services.
	otherWords = strings.NewReplacer(
		"spec.services", "spec.components", "spec.envs", "spec.env",
		"topologyProfile", "clusterTopologyName", "componentType", "type",
		"intraPod", "IntraPod", "interPod", "InterPod", "resources.limits.gpu", "the limit of nvidia.com/gpu",
	)
	serviceWord = regexp.MustCompile(`\b([Ss])ervice(s?)\b`)
)

// Text rewrites a text. What stands in quotes is a user's own and stays.
func (w Wording) Text(text string) string {
	if w.index == nil {
		return text
	}
	var out strings.Builder
	at := 0
	for _, span := range quoted.FindAllStringIndex(text, -1) {
		out.WriteString(w.unquoted(text[at:span[0]]))
		out.WriteString(text[span[0]:span[1]])
		at = span[1]
	}
	out.WriteString(w.unquoted(text[at:]))
	return out.String()
}

func (w Wording) unquoted(text string) string {
	var out strings.Builder
	at := 0
	for _, span := range servicePart.FindAllStringSubmatchIndex(text, -1) {
		out.WriteString(words(text[at:span[0]]))
		out.WriteString(w.component(text[span[2]:span[3]]) + componentField(text[span[4]:span[5]]))
		at = span[1]
	}
	out.WriteString(words(text[at:]))
	return out.String()
}

func words(text string) string {
	return serviceWord.ReplaceAllStringFunc(otherWords.Replace(text), func(word string) string {
		component := "component"
		if word[0] == 'S' {
			component = "Component"
		}
		if strings.HasSuffix(word, "s") {
			component += "s"
		}
		return component
	})
}

func (w Wording) component(name string) string {
	if i, ok := w.index[name]; ok {
		return fmt.Sprintf("spec.components[%d]", i)
	}
	return "spec.components[" + name + "]"
}

const mainPath = ".podTemplate.spec.containers[main]"

// componentFields are the fields of a service that v1beta1 has elsewhere, the longest first.
var componentFields = []struct{ alpha, beta string }{
	{".extraPodSpec.mainContainer", mainPath},
	{".extraPodSpec", ".podTemplate.spec"},
	{".extraPodMetadata", ".podTemplate.metadata"},
	{".annotations", ".podTemplate.metadata.annotations"},
	{".labels", ".podTemplate.metadata.labels"},
	{".resources", mainPath + ".resources"},
	{".envFromSecret", mainPath + ".envFrom"},
	{".envs", mainPath + ".env"},
	{".livenessProbe", mainPath + ".livenessProbe"},
	{".readinessProbe", mainPath + ".readinessProbe"},
	{".volumeMounts", mainPath + ".volumeMounts"},
	{".sharedMemory.size", ".sharedMemorySize"},
	{".sharedMemory", ".sharedMemorySize"},
	{".scalingAdapter.enabled", ".scalingAdapter"},
	{".frontendSidecar.image", ".frontendSidecar"},
	{".checkpoint", ".experimental.checkpoint"},
	{".gpuMemoryService", ".experimental.gpuMemoryService"},
	{".failover", ".experimental.failover"},
	{".componentType", ".type"},
	{".subComponentType", ".type"},
}

var resourceAmount = regexp.MustCompile(`^(\.(?:requests|limits))(?:\.(cpu|memory|gpu)|\.custom(\[[^\]]*\]))$`)

func componentField(path string) string {
	for _, f := range componentFields {
		rest, ok := strings.CutPrefix(path, f.alpha)
		if !ok || rest != "" && rest[0] != '.' && rest[0] != '[' {
			continue
		}
		if m := resourceAmount.FindStringSubmatch(rest); m != nil && f.alpha == ".resources" {
			switch m[2] {
			case "":
				return f.beta + m[1] + m[3]
			case "gpu":
				return f.beta + m[1] + "[nvidia.com/gpu]"
			}
		}
		return f.beta + rest
	}
	return path
}
