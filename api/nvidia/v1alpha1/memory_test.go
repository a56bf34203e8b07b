// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

// TestEveryQuantityOfAMemoryIsBounded checks that every quantity in a preserved-fields annotation is bounded before it is parsed.
func TestEveryQuantityOfAMemoryIsBounded(t *testing.T) {
	for version, types := range map[string][]reflect.Type{
		// an object of one version preserves fields of the other
		v1beta1.GroupVersion.Version: {reflect.TypeFor[DynamoGraphDeploymentSpec](), reflect.TypeFor[DynamoGraphDeploymentStatus]()},
		GroupVersion.Version:         {reflect.TypeFor[v1beta1.DynamoGraphDeploymentSpec](), reflect.TypeFor[v1beta1.DynamoGraphDeploymentStatus]()},
	} {
		found := 0
		for _, of := range types {
			quantities(of, nil, map[reflect.Type]bool{}, func(path []string) {
				found++
				var value any = "1e999"
				for i := len(path) - 1; i >= 0; i-- {
					value = map[string]any{path[i]: value}
				}
				text, err := json.Marshal(value)
				if err != nil {
					t.Fatal(err)
				}
				if MemoryProblem(map[string]string{AnnotationSpecMemory: string(text)}, version) == "" {
					t.Errorf("an object of %s may remember any quantity at %s", version, strings.Join(path, "."))
				}
			})
		}
		if version == v1beta1.GroupVersion.Version && found < 10 {
			t.Errorf("%d quantities found", found)
		}
	}
}

// quantities calls call with the key path of each quantity below a type.
func quantities(of reflect.Type, path []string, within map[reflect.Type]bool, call func(path []string)) {
	switch of.Kind() {
	case reflect.Pointer, reflect.Slice:
		quantities(of.Elem(), path, within, call)
	case reflect.Map:
		quantities(of.Elem(), append(path, "key"), within, call)
	case reflect.Struct:
		if of == reflect.TypeFor[resource.Quantity]() {
			call(path)
			return
		}
		if within[of] {
			return
		}
		within[of] = true
		defer delete(within, of)
		for i := range of.NumField() {
			field := of.Field(i)
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			switch {
			case name == "-" || !field.IsExported():
			case name == "" && field.Anonymous:
				quantities(field.Type, path, within, call)
			default:
				quantities(field.Type, append(path, name), within, call)
			}
		}
	}
}

// TestEveryFieldOfAMemoryIsKnown checks that each field of the specs and the statuses is read from the annotation. Other keys are skipped.
func TestEveryFieldOfAMemoryIsKnown(t *testing.T) {
	for version, of := range map[string][]reflect.Type{
		v1beta1.GroupVersion.Version: {reflect.TypeFor[DynamoGraphDeploymentSpec](), reflect.TypeFor[DynamoGraphDeploymentStatus]()},
		GroupVersion.Version:         {reflect.TypeFor[v1beta1.DynamoGraphDeploymentSpec](), reflect.TypeFor[v1beta1.DynamoGraphDeploymentStatus]()},
	} {
		for _, part := range of {
			for i := range part.NumField() {
				name, _, _ := strings.Cut(part.Field(i).Tag.Get("json"), ",")
				// A value that is nested too deep is refused only under a key that is read.
				deep := strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100)
				if MemoryProblem(map[string]string{AnnotationSpecMemory: `{"` + name + `":` + deep + "}"}, version) == "" {
					t.Errorf("an object of %s does not remember %s", version, name)
				}
			}
		}
		deep := strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100)
		if why := MemoryProblem(map[string]string{AnnotationSpecMemory: `{"unknown":` + deep + "}"}, version); why != "" {
			t.Errorf("an unknown key is read: %s", why)
		}
	}
}
