// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package providertest

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

func TestStandInsRefuse(t *testing.T) {
	for text, c := range map[string]struct {
		refuses func(*unstructured.Unstructured) error
		why     string
	}{
		`{spec: {minSubGroup: 1, subGroups: [{name: a, minMember: 1}]}}`:                                    {KAIRefuses, ""},
		`{spec: {minMember: 1, minSubGroup: 1}}`:                                                            {KAIRefuses, "exclusive"},
		`{spec: {subGroups: [{name: a}]}}`:                                                                  {KAIRefuses, "minMember is required"},
		`{spec: {subGroups: [{name: a, minMember: 1}, {name: b, parent: a, minMember: 1}]}}`:                {KAIRefuses, "mid-level"},
		`{spec: {subGroups: [{name: a, minMember: 1}, {name: a, minMember: 1}]}}`:                           {KAIRefuses, "duplicate"},
		`{spec: {subGroups: [{name: a, parent: b, minMember: 1}]}}`:                                         {KAIRefuses, "not found"},
		`{spec: {subGroups: [{name: a, parent: b, minSubGroup: 1}, {name: b, parent: a, minSubGroup: 1}]}}`: {KAIRefuses, "cycle"},
		`{metadata: {name: good}, spec: {leaderWorkerTemplate: {size: 2}}}`:                                 {LWSRefuses, ""},
		`{metadata: {name: 1st}, spec: {leaderWorkerTemplate: {size: 2}}}`:                                  {LWSRefuses, "1st"},
		`{metadata: {name: none}, spec: {leaderWorkerTemplate: {size: 0}}}`:                                 {LWSRefuses, "size must be"},
	} {
		object := &unstructured.Unstructured{}
		raw, err := yaml.YAMLToJSON([]byte(text))
		if err == nil {
			err = json.Unmarshal(raw, &object.Object)
		}
		if err != nil {
			t.Fatal(err)
		}
		got := c.refuses(object)
		if (got == nil) != (c.why == "") || got != nil && !strings.Contains(got.Error(), c.why) {
			t.Errorf("%s: %v, want %q", text, got, c.why)
		}
	}
}
