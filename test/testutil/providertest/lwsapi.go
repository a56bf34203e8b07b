// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package providertest

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
)

// LWSDefaults applies the defaults of the admission webhook of LeaderWorkerSet v0.9.0.
func LWSDefaults(set *unstructured.Unstructured) error {
	for _, missing := range []struct {
		value string
		path  []string
	}{
		{"RollingUpdate", []string{"spec", "rolloutStrategy", "type"}},
		{"Shared", []string{"spec", "networkConfig", "subdomainPolicy"}},
	} {
		if have, _, _ := unstructured.NestedString(set.Object, missing.path...); have != "" {
			continue
		}
		if err := unstructured.SetNestedField(set.Object, missing.value, missing.path...); err != nil {
			return err
		}
	}
	return nil
}

// LWSRefuses returns why that webhook refuses a set; nil if it accepts it. The set's name becomes the name of a Service.
func LWSRefuses(set *unstructured.Unstructured) error {
	if problems := validation.IsDNS1035Label(set.GetName()); len(problems) > 0 {
		return fmt.Errorf("metadata.name: Invalid value: %q: %s", set.GetName(), strings.Join(problems, "; "))
	}
	if size, set, _ := unstructured.NestedInt64(set.Object, "spec", "leaderWorkerTemplate", "size"); set && size < 1 {
		return fmt.Errorf("spec.leaderWorkerTemplate.size: Invalid value: %d: size must be equal or greater than 1", size)
	}
	return nil
}
