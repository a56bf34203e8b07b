// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"go/ast"
	"path/filepath"
	"strings"
	"testing"
)

// part is what stands between a heading of a page and the next one of its rank.
func part(t *testing.T, page, heading string) string {
	t.Helper()
	rank := strings.Repeat("#", len(heading)-len(strings.TrimLeft(heading, "#"))) + " "
	_, text, found := strings.Cut(pages(t)[page], "\n"+heading+"\n")
	if !found {
		t.Fatalf("%s has no heading %q", page, heading)
	}
	text, _, _ = strings.Cut(text, "\n"+rank)
	return text
}

// noEvent are the reasons of conditions of a deployment without an event, and why.
var noEvent = map[string]string{
	"OwnsReplicas": "of a scaling adapter", "ReplicasRefused": "of a scaling adapter", "NotInUse": "of a scaling adapter",
}

// Each reason of a condition of a deployment is among its events.
func TestReasonsHaveEvents(t *testing.T) {
	events := part(t, "events-and-metrics.md", "### On a DynamoGraphDeployment")
	for path, file := range sources(t, filepath.Join("api", "nvidia", "v1beta1")) {
		ast.Inspect(file, func(n ast.Node) bool {
			spec, is := n.(*ast.ValueSpec)
			if !is {
				return true
			}
			for i, name := range spec.Names {
				if i >= len(spec.Values) || !strings.HasPrefix(name.Name, "Reason") {
					continue
				}
				value, _ := text(spec.Values[i])
				if listed := strings.Contains(events, "`"+value+"`"); listed == (noEvent[value] != "") {
					t.Errorf("`%s` (%s) is among the events: %t", value, path, listed)
				}
			}
			return true
		})
	}
}
