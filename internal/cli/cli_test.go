// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"
	"testing"
)

func TestGraphName(t *testing.T) {
	for arg, want := range map[string]string{
		"dgd/a":                               "a",
		"DGD/a":                               "a",
		"dynamographdeployment/a":             "a",
		"dynamographdeployments/a":            "a",
		"dynamographdeployments.nvidia.com/a": "a",
		"dynamographdeployment.v1alpha1.nvidia.com/a": "a",
		"a":     "a",
		"pod/a": "error: want a DynamoGraphDeployment",
		"dgd/":  "error: the namespace is given with -n",
		"a/b/c": "error: want a DynamoGraphDeployment",
		"":      "error: want dgd/NAME",
	} {
		got, err := GraphName(arg)
		if text, wantErr := strings.CutPrefix(want, "error: "); wantErr {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%q: got %q, %v, want an error with %q", arg, got, err, text)
			}
		} else if err != nil || got != want {
			t.Errorf("%q: got %q, %v, want %q", arg, got, err, want)
		}
	}
}
