// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
)

// A refusal names a field of the object, in the message or as its cause.
var (
	inside  = regexp.MustCompile(`\b(spec|status|metadata)\b[.\[:]`)
	outside = regexp.MustCompile(`(?i)panic|failed calling webhook|conversion webhook|deadline exceeded|\btimed? ?out\b|internal error|nil pointer|index out of range`)
)

// refused describes what is wrong with a refusal; "" nothing.
func refused(a answer) string {
	s := a.status()
	switch {
	case a.code < 400 || a.code > 499:
		return fmt.Sprintf("answered with %d: %s", a.code, s.Message)
	case outside.MatchString(withoutValues(s.Message)):
		return fmt.Sprintf("refused by a fault: %s", s.Message)
	case inside.MatchString(s.Message):
		return ""
	}
	if s.Details != nil {
		for _, cause := range s.Details.Causes {
			if inside.MatchString(cause.Field + ":") {
				return ""
			}
		}
	}
	return fmt.Sprintf("the refusal names no field: %s", s.Message)
}

var quoted = regexp.MustCompile(`"(\\.|[^"\\])*"`)

// withoutValues leaves out what the user wrote.
func withoutValues(message string) string { return quoted.ReplaceAllString(message, `""`) }

// seen is an object as both versions have it; other is nil where there is one version.
type seen struct{ own, other map[string]any }

// see reads an object in a list of each version, as Go's types too, and builds its pods.
func (k *kind) see(ctx context.Context, name string) (seen, error) {
	var out seen
	for _, version := range []string{k.version, k.other} {
		if version == "" {
			continue
		}
		object, text, err := k.list(ctx, version, name)
		if err != nil {
			return out, err
		}
		if err := typed(k.definition.Spec.Names.Kind, version, text); err != nil {
			return out, fmt.Errorf("as a Go type of %s: %w", version, err)
		}
		if version == k.version {
			out.own = object
		} else {
			out.other = object
		}
	}
	return out, nil
}

// typed reads an object as the operator does. What is wrong with a deployment beyond that is said in its status; it must not panic.
func typed(kind, version string, text []byte) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("panic: %v", fault)
		}
	}()
	switch kind + "." + version {
	case "DynamoGraphDeployment.v1alpha1":
		return json.Unmarshal(text, &nvidiav1alpha1.DynamoGraphDeployment{})
	case "DynamoGraphDeploymentScalingAdapter.v1alpha1":
		return json.Unmarshal(text, &nvidiav1alpha1.DynamoGraphDeploymentScalingAdapter{})
	case "DynamoGraphDeploymentScalingAdapter.v1beta1":
		return json.Unmarshal(text, &nvidiav1beta1.DynamoGraphDeploymentScalingAdapter{})
	case "ClusterTopology.v1alpha1":
		return json.Unmarshal(text, &grovev1alpha1.ClusterTopology{})
	}
	dgd := &nvidiav1beta1.DynamoGraphDeployment{}
	if err := json.Unmarshal(text, dgd); err != nil {
		return err
	}
	for _, provider := range []string{specs.Gates.Name, specs.Grove.Name} {
		resolved, err := render.Resolve(dgd, render.Inputs{Provider: provider})
		if err != nil {
			continue // said in the status
		}
		for _, sg := range resolved.ScalingGroups() {
			render.BuildPod(sg, 0, 0)
		}
	}
	return nil
}

// memory are the annotations in which one version keeps what only the other can say.
var memory = []string{nvidiav1alpha1.AnnotationSpecMemory, nvidiav1alpha1.AnnotationStatusMemory}

// changes of what a user writes, but for the label that the test writes.
func changes(before, after map[string]any, withMemory bool) []string {
	var out []string
	for _, part := range []string{"spec", "status"} {
		out = append(out, differences(part, before[part], after[part])...)
	}
	strip := func(object map[string]any) (labels, annotations map[string]any) {
		meta, _ := object["metadata"].(map[string]any)
		labels, annotations = map[string]any{}, map[string]any{}
		for key, value := range asMap(meta["labels"]) {
			if key != "touched" {
				labels[key] = value
			}
		}
		for key, value := range asMap(meta["annotations"]) {
			if withMemory || key != memory[0] && key != memory[1] {
				annotations[key] = value
			}
		}
		return labels, annotations
	}
	labels, annotations := strip(before)
	labelsNow, annotationsNow := strip(after)
	out = append(out, differences("metadata.labels", labels, labelsNow)...)
	return append(out, differences("metadata.annotations", annotations, annotationsNow)...)
}

func asMap(value any) map[string]any {
	m, _ := value.(map[string]any)
	return m
}

// beyond are the changes that are not at or below a path.
func beyond(all []string, path string) []string {
	var out []string
	for _, one := range all {
		at, _, _ := strings.Cut(one, ": ")
		if at != path && !strings.HasPrefix(at, path+".") && !strings.HasPrefix(at, path+"[") {
			out = append(out, one)
		}
	}
	return out
}
