// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"slices"
	"strings"
	"testing"
)

func TestObject(t *testing.T) {
	for args, want := range map[string]string{
		"dgd/a":                               "DynamoGraphDeployment a",
		"DGD/a":                               "DynamoGraphDeployment a",
		"dynamographdeployment/a":             "DynamoGraphDeployment a",
		"dynamographdeployments/a":            "DynamoGraphDeployment a",
		"dynamographdeployments.nvidia.com/a": "DynamoGraphDeployment a",
		"dynamographdeployment.v1alpha1.nvidia.com/a": "DynamoGraphDeployment a",
		"dynamographdeployment.v1beta1.nvidia.com a":  "DynamoGraphDeployment a",
		"dgd a":                                "DynamoGraphDeployment a",
		"dynamographdeployments a":             "DynamoGraphDeployment a",
		"a":                                    "DynamoGraphDeployment a",
		"dgd dgd":                              "DynamoGraphDeployment dgd",
		"dgd/dgd":                              "DynamoGraphDeployment dgd",
		"ctopo hall":                           "ClusterTopology hall",
		"clustertopologies.grove.io/hall":      "ClusterTopology hall",
		"clustertopology hall":                 "ClusterTopology hall",
		"dgd":                                  "error: the name is missing: want dgd NAME, or dgd/dgd",
		"dynamographdeployments.example.com a": "error: want a DynamoGraphDeployment, as dgd NAME or dgd/NAME; or a ClusterTopology",
		"pod/a":                                "error: want a DynamoGraphDeployment",
		"pod a":                                "error: want a DynamoGraphDeployment",
		"dgd/":                                 "error: the namespace is given with -n",
		"dgd a/b":                              "error: the namespace is given with -n",
		"a/b/c":                                "error: want a DynamoGraphDeployment",
		"":                                     "error: want dgd/NAME",
	} {
		words := strings.Fields(args)
		if args == "" {
			words = []string{""}
		}
		kind, name, err := Object(words, Graph, Topology)
		if text, wantErr := strings.CutPrefix(want, "error: "); wantErr {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%q: got %q, %v, want an error with %q", args, name, err, text)
			}
		} else if err != nil || kind.Name+" "+name != want {
			t.Errorf("%q: got %s %q, %v, want %q", args, kind.Name, name, err, want)
		}
	}
}

func TestGraphNames(t *testing.T) {
	for args, want := range map[string]string{
		"":            "",
		"a":           "a",
		"dgd a b":     "a b",
		"dgd/a dgd/b": "a b",
		"a dgd/b":     "a b",
		"dgd a dgd/b": "error",
		"pod/a":       "error",
	} {
		got, err := GraphNames(strings.Fields(args))
		if want == "error" != (err != nil) || err == nil && !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%q: got %v, %v, want %s", args, got, err, want)
		}
	}
}
