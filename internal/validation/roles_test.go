// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/trellis-k8s/trellis/internal/render"
)

// The list of roles is the same in both versions.
const (
	twoNodes    = ", multinode: {nodeCount: 2}"
	fourNodes   = ", multinode: {nodeCount: 4}"
	bothRoles   = ", roles: [{name: leader}, {name: worker}]"
	numbered    = ", roles: [{name: worker, replicas: 3}, {name: leader, replicas: 1}]"
	roleAtGrove = ", roles: [{name: leader, " + groveOverride + "}, {name: worker}]"
)

func sameInBoth(worker, path, text string) inBoth {
	if text == "" {
		return admitted(mainAlpha+worker, mainBeta+worker)
	}
	c := both(mainAlpha+worker, path, mainBeta+worker, path, text)
	c.saysBeta = strings.ReplaceAll(c.saysBeta, "service", "component")
	return c
}

var roleCases = map[string]inBoth{
	"both roles":             sameInBoth(twoNodes+bothRoles, "", ""),
	"with their numbers":     sameInBoth(fourNodes+numbered, "", ""),
	"an override of leaders": sameInBoth(twoNodes+roleAtGrove, "", ""),
	"an override of leaders of another version": sameInBoth(twoNodes+strings.Replace(roleAtGrove, "v1alpha1", "v2", 1), "roles[leader].providerOverride.apiVersion",
		`Invalid value: "grove.io/v2": must be grove.io/v1alpha1`),
	"of a service of one node":          sameInBoth(bothRoles, "roles", "Forbidden: only a multinode service has roles; remove the list"),
	"an empty list":                     sameInBoth(", roles: []", "roles", "Forbidden: only a multinode service has roles; remove the list"),
	"workers alone":                     sameInBoth(twoNodes+", roles: [{name: worker}]", "roles", `Required value: must contain the "leader" role`),
	"another role":                      sameInBoth(twoNodes+", roles: [{name: leader}, {name: worker}, {name: agent}]", "roles[agent].name", `Unsupported value: "agent": supported values: "leader", "worker"`),
	"a role twice":                      sameInBoth(twoNodes+", roles: [{name: leader}, {name: worker}, {name: worker}]", "roles[worker].name", `Duplicate value: "worker": name each role once`),
	"a number that nodeCount denies":    sameInBoth(twoNodes+numbered, "roles[worker].replicas", `Invalid value: 3: must equal 1 for multinode role "worker"; change nodeCount, or leave replicas out`),
	"a number of the default nodeCount": sameInBoth(", multinode: {}, roles: [{name: leader}, {name: worker, replicas: 1}]", "", ""),
	"a template of leaders":             sameInBoth(twoNodes+", roles: [{name: leader, podTemplate: {}}, {name: worker}]", "roles[leader].podTemplate", "Forbidden: is not supported for this component role"),
	"the former leader": sameInBoth(", multinode: {leader: {"+groveOverride+"}}", "multinode.leader",
		"Forbidden: was replaced by roles before Dynamo 1.5; write its providerOverride into roles[leader]"),
	"a former worker of no form": sameInBoth(", multinode: {worker: {a: b}}", "multinode.worker",
		"Forbidden: was replaced by roles before Dynamo 1.5; write its providerOverride into roles[worker]"),
	"several nodes of a type of v1alpha1": {
		alpha:     mainAlpha + ", componentType: router" + twoNodes,
		saysAlpha: workerOf + "multinode: Invalid value: 2: a replica of componentType router cannot span several nodes; remove multinode and raise replicas, or set componentType worker",
	},
	"several nodes of prefill in v1alpha1": admitted(mainAlpha+", componentType: worker, subComponentType: prefill"+twoNodes, mainBeta+", type: prefill"+twoNodes),
}

// TestRolesAndTypesAreKept: a list of roles is added and removed only if it changes nothing, and a type is set once.
func TestRolesAndTypesAreKept(t *testing.T) {
	const former = ", multinode: {nodeCount: 2, leader: {" + groveOverride + "}}"
	overridden := twoNodes + roleAtGrove
	for name, tc := range map[string]struct{ old, now, want string }{
		"a list that changes nothing":        {fourNodes, fourNodes + bothRoles, ""},
		"a list with the numbers there are":  {fourNodes, fourNodes + numbered, ""},
		"that list removed":                  {fourNodes + numbered, fourNodes, ""},
		"a list with an override":            {twoNodes, overridden, "roles: Forbidden: a new list must not contain a providerOverride"},
		"an override in the list":            {twoNodes + bothRoles, overridden, ""},
		"no override in the list any more":   {overridden, twoNodes + bothRoles, ""},
		"a list with an override removed":    {overridden, twoNodes, "roles: Forbidden: the list cannot be removed while a role has a providerOverride"},
		"another nodeCount and the list":     {twoNodes + bothRoles, fourNodes + bothRoles, ""},
		"the list and another nodeCount":     {twoNodes, fourNodes + bothRoles, ""},
		"the numbers of another nodeCount":   {fourNodes + numbered, twoNodes + numbered, "roles[worker].replicas: Invalid"},
		"a list with a template":             {twoNodes, twoNodes + ", roles: [{name: leader, podTemplate: {}}, {name: worker}]", "roles[leader].podTemplate: Forbidden"},
		"the former leader, as before":       {former, former + ", replicas: 2", ""},
		"the former leader changed":          {former, strings.Replace(former, "rack", "host", 1), ""},
		"the former leader moved into roles": {former + bothRoles, overridden, ""},
		"the former leader again":            {twoNodes, former, "multinode.leader: Forbidden"},
	} {
		for version, main := range map[string]string{"v1alpha1": mainAlpha, "v1beta1": mainBeta} {
			at := map[string]string{"v1alpha1": workerOf, "v1beta1": worker0}[version]
			checkUpdate(t, name, version, main+tc.old, main+tc.now, at, tc.want)
		}
	}
	for name, tc := range map[string]struct{ version, old, now, want string }{
		"a type":                      {"v1beta1", "", ", type: worker", ""},
		"a type of v1alpha1":          {"v1alpha1", "", ", componentType: worker", ""},
		"another type":                {"v1beta1", ", type: decode", ", type: prefill", "type: Forbidden: type is immutable after it is set; put decode back"},
		"another type of v1alpha1":    {"v1alpha1", ", componentType: frontend", ", componentType: worker", "componentType: Forbidden: componentType is immutable after it is set; put frontend back"},
		"no type any more":            {"v1beta1", ", type: decode", "", "type: Forbidden"},
		"a sub-type of a worker":      {"v1alpha1", ", componentType: worker", ", componentType: worker, subComponentType: decode", "componentType: Forbidden"},
		"a sub-type without a form":   {"v1alpha1", ", componentType: worker", ", componentType: worker, subComponentType: odd", ""},
		"a type that v1beta1 has not": {"v1alpha1", ", componentType: main", ", componentType: main, replicas: 2", ""},
	} {
		main, at := mainBeta, worker0
		if tc.version == "v1alpha1" {
			main, at = mainAlpha, workerOf
		}
		checkUpdate(t, name, tc.version, main+tc.old, main+tc.now, at, tc.want)
	}
}

// checkUpdate of one Worker: want begins the only error, after the path of the component; none if it is empty.
func checkUpdate(t *testing.T, name, version, old, now, at, want string) {
	t.Helper()
	before, after := manifest(t, version, "priorityClassName: p", old), manifest(t, version, "priorityClassName: p", now)
	got := strings.Join(textsIn(GraphUpdate(after, before), version), "\n")
	if want == "" && got != "" || want != "" && !strings.HasPrefix(got, at+want) || strings.Contains(got, "\n") {
		t.Errorf("%s in %s: got %q, want %q", name, version, got, want)
	}
}

// TestRoleWarnings: what is accepted and will not be, here or by the Dynamo operator.
func TestRoleWarnings(t *testing.T) {
	former := manifest(t, "v1beta1", "priorityClassName: p", mainBeta+", multinode: {nodeCount: 2, leader: {"+groveOverride+"}}")
	want := []string{
		"multinode without a componentType is refused by the Dynamo operator after 1.5; set componentType worker, prefill or decode (Worker)",
		"spec.services[Worker].multinode.leader is deprecated, and the next release ignores it: write its providerOverride into roles[leader], then remove it",
	}
	if diff := cmp.Diff(want, textsIn(GraphWarnings(former, nil, []render.Ignored{{Path: at("Worker", "multinode", "leader")}}), "v1alpha1")); diff != "" {
		t.Errorf("the former leader, and no type (-want +got):\n%s", diff)
	}
	two, four := manifest(t, "v1beta1", "priorityClassName: p", mainBeta+twoNodes), manifest(t, "v1beta1", "priorityClassName: p", mainBeta+fourNodes)
	want = []string{"spec.services[Worker].multinode.nodeCount changes, so every replica is replaced; the Dynamo operator after 1.5 refuses such a change"}
	if diff := cmp.Diff(want, textsIn(NodeCountWarnings(four.DynamoGraphDeployment, two.DynamoGraphDeployment), "v1alpha1")); diff != "" {
		t.Errorf("another nodeCount (-want +got):\n%s", diff)
	}
	if lines := NodeCountWarnings(two.DynamoGraphDeployment, two.DynamoGraphDeployment); len(lines) > 0 {
		t.Errorf("the same nodeCount: %q", lines)
	}
}
