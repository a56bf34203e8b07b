// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
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

var namedController = regexp.MustCompile(`Named\("(\w+)"\)`)

// The metrics of controller-runtime have the name of each controller.
func TestControllersAreListed(t *testing.T) {
	metrics := part(t, "events-and-metrics.md", "## Metrics")
	var found []string
	for path := range sources(t, filepath.Join("internal", "controller")) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range namedController.FindAllStringSubmatch(string(data), -1) {
			found = append(found, name[1])
			if !strings.Contains(metrics, "`"+name[1]+"`") {
				t.Errorf("the controller `%s` (%s) is not listed", name[1], path)
			}
		}
	}
	if !slices.Contains(found, "scalinggroup") {
		t.Errorf("this test finds no controllers any more: %q", found)
	}
}

// otherWords are what pages call resources that they do not list by their names.
var otherWords = map[string]string{
	"customresourcedefinitions": "definitions", "mutatingwebhookconfigurations": "webhookconfigurations",
	"validatingwebhookconfigurations": "webhookconfigurations", "inferencemodelrewrites": "inferenceextension'skinds",
	"inferenceobjectives": "inferenceextension'skinds", "deployments": "operator'sdeployment", "leases": "lease", "pods": "pods",
	"clustertopologies": "topologies", "persistentvolumes": "volumes", "persistentvolumeclaims": "claims", "resourceclaims": "claims",
	"resourceclaimtemplates": "templates", "csinodes": "csi", "csistoragecapacities": "capacities", "dynamographdeployments": "deployments",
}

// Pages list the resources that the operator, and users of the plugin, have rights to.
func TestRightsAreListed(t *testing.T) {
	for _, c := range []struct{ role, page, heading string }{
		{"role.yaml", "install.md", "## Rights"}, {"planner_role.yaml", "cli.md", "## Rights"},
	} {
		listed := strings.ToLower(strings.Join(strings.Fields(section(t, c.page, c.heading)), ""))
		file, err := os.Open(filepath.Join(root, "config", "rbac", c.role))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = file.Close() }()
		role := &rbacv1.ClusterRole{}
		if err := utilyaml.NewYAMLOrJSONDecoder(file, 4096).Decode(role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			for _, resource := range rule.Resources {
				name, _, _ := strings.Cut(resource, "/")
				if other := otherWords[name]; !strings.Contains(listed, name) && (other == "" || !strings.Contains(listed, other)) {
					t.Errorf("%s does not list %s of %s, a right of config/rbac/%s", c.page, name, rule.APIGroups[0], c.role)
				}
			}
		}
	}
}
