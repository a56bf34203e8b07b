// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
)

// annotated is the part of an object that conversionLoses reads: the annotations that store the fields of the other API version.
type annotated struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        struct {
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
}

func (a *annotated) version() string { return a.GroupVersionKind().Version }

// conversionLoses refuses fields that the conversion could not keep. The parameter was is the former object; empty for none. Problems of
// the former object do not block other changes.
func conversionLoses(raw, was []byte) field.ErrorList {
	now, before := readAnnotated(raw), readAnnotated(was)
	path := field.NewPath("metadata", "annotations")
	errs := field.ErrorList{}
	for _, key := range []string{nvidiav1alpha1.AnnotationSpecMemory, nvidiav1alpha1.AnnotationStatusMemory} {
		text := now.Metadata.Annotations[key]
		why := nvidiav1alpha1.MemoryProblem(map[string]string{key: text}, now.version())
		if why != "" && text != before.Metadata.Annotations[key] {
			_, why, _ = strings.Cut(why, "] ")
			errs = append(errs, &field.Error{Type: field.ErrorTypeInvalid, Field: path.Key(key).String(), BadValue: field.OmitValueType{},
				Detail: why})
		}
	}
	if nvidiav1alpha1.MemoryDropped(now.Metadata.Annotations, now.version()) {
		other := nvidiav1alpha1.OtherVersion(now.version())
		errs = append(errs, field.Forbidden(path.Key(nvidiav1alpha1.AnnotationSpecMemory), fmt.Sprintf(
			"the annotations have no room for what only %s can express in the spec, and a write in %s would delete it: write the deployment in %s "+
				"(kubectl edit dynamographdeployments.%s.nvidia.com), or remove annotations there", other, now.version(), other, other)))
	}
	if err := nvidiav1alpha1.ConversionFits(raw); err != nil && (len(was) == 0 || nvidiav1alpha1.ConversionFits(was) == nil) {
		errs = append(errs, &field.Error{Type: field.ErrorTypeTooLong, Field: path.String(), BadValue: field.OmitValueType{},
			Detail: strings.TrimPrefix(err.Error(), path.String()+": ")})
	}
	return errs
}

// readAnnotated reads an object. It returns an empty result for a malformed object, which other checks refuse.
func readAnnotated(raw []byte) annotated {
	out := annotated{}
	if len(raw) == 0 || json.Unmarshal(raw, &out) != nil {
		return annotated{}
	}
	return out
}
