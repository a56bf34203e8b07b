// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ServiceAccounts of planners and of endpoint pickers. All graphs of a namespace share them.
const (
	plannerAccount        = "planner-serviceaccount"
	endpointPickerAccount = "epp-serviceaccount"
)

// Name suffixes of the ServiceAccount, Role and RoleBinding with which a graph's pods discover each other through the API server.
const (
	discoverySuffix        = "-k8s-service-discovery"
	discoveryRoleSuffix    = discoverySuffix + "-role"
	discoveryBindingSuffix = discoverySuffix + "-binding"
)

const maxObjectName = 253

var (
	reading = []string{"get", "list", "watch"}
	scaling = []string{"get", "patch", "update"}
)

// discoveryRules are the rights that pods need to discover each other: the rights to read the endpoints of Services, and to publish the
// pods as DynamoWorkerMetadatas.
//
// The API server lets a client grant only rights that the client itself has. The operator therefore needs the rules of all roles in this
// file; see the markers in internal/controller/dynamographdeployment.
func discoveryRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"endpoints", "pods"}, Verbs: reading},
		{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: reading},
		{APIGroups: []string{"nvidia.com"}, Resources: []string{"dynamoworkermetadatas"}, Verbs: []string{"create", "delete", "get", "list",
			"patch", "update", "watch"}},
	}
}

// plannerRules are the rights of a planner: to read graphs, and to scale their components through scaling adapters
// or, without adapters, in the graph itself.
func plannerRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{"nvidia.com"}, Resources: []string{"dynamographdeployments"}, Verbs: []string{"get", "list", "patch", "watch"}},
		{APIGroups: []string{"nvidia.com"}, Resources: []string{"dynamographdeploymentscalingadapters"}, Verbs: reading},
		{APIGroups: []string{"nvidia.com"}, Resources: []string{"dynamographdeploymentscalingadapters/scale"}, Verbs: scaling},
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: reading},
	}
}

// endpointPickerRules are the rights of an endpoint picker: to watch its InferencePool and the pods in the pool.
func endpointPickerRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{inferenceGroup}, Resources: []string{"inferencepools"}, Verbs: reading},
		{APIGroups: []string{"inference.networking.x-k8s.io"}, Resources: []string{"inferencemodelrewrites", "inferenceobjectives",
			"inferencepools"}, Verbs: reading},
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: reading},
	}
}

// AccountOf returns the ServiceAccount of a graph's pods: the user's account, or a default that depends on the template's labels; "" for
// none. The revision includes the labels, so it changes when the default changes.
func AccountOf(template *corev1.PodTemplateSpec, graph string) string {
	switch {
	case template.Spec.ServiceAccountName != "":
		return template.Spec.ServiceAccountName
	case template.Spec.DeprecatedServiceAccount != "":
		return template.Spec.DeprecatedServiceAccount
	case template.Labels[LabelComponentType] == typePlanner:
		return plannerAccount
	case template.Labels[LabelComponentType] == typeEPP:
		return endpointPickerAccount
	case template.Labels[LabelDiscoveryBackend] == discoveryKubernetes:
		return discoveryAccount(graph)
	}
	return ""
}

func discoveryAccount(graph string) string { return discoveryName(graph, discoverySuffix) }

func discoveryName(graph, suffix string) string {
	return fit(graph, graph, maxObjectName-len(suffix)) + suffix
}

// discoveryAccess returns the graph's own ServiceAccount, and the Role and RoleBinding that grant the discovery rights to this account and
// to the shared accounts that the graph's pods use.
func discoveryAccess(g *Graph) []Object {
	account, role := discoveryAccount(g.Name), discoveryName(g.Name, discoveryRoleSuffix)
	var subjects []rbacv1.Subject
	for _, name := range []string{account, plannerAccount, endpointPickerAccount} {
		if slices.ContainsFunc(g.Components, func(s Component) bool {
			return g.usesAccount(&s, name) && s.Labels[LabelDiscoveryBackend] == discoveryKubernetes
		}) {
			subjects = append(subjects, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: g.Namespace})
		}
	}
	if len(subjects) == 0 {
		return nil
	}
	return []Object{
		g.account(g.graphMeta(account)),
		g.role(g.graphMeta(role), discoveryRules()),
		g.binding(g.graphMeta(discoveryName(g.Name, discoveryBindingSuffix)), role, subjects...),
	}
}

// componentAccess returns the ServiceAccounts that the planners and the endpoint pickers of a namespace share, with their rights.
func componentAccess(g *Graph) []Object {
	var out []Object
	for _, shared := range []struct {
		account string
		rules   []rbacv1.PolicyRule
	}{{plannerAccount, plannerRules()}, {endpointPickerAccount, endpointPickerRules()}} {
		if !slices.ContainsFunc(g.Components, func(s Component) bool { return g.usesAccount(&s, shared.account) }) {
			continue
		}
		subject := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: shared.account, Namespace: g.Namespace}
		out = append(out,
			g.account(g.sharedMeta(shared.account, nil)),
			g.role(g.sharedMeta(shared.account, nil), shared.rules),
			g.binding(g.sharedMeta(shared.account, nil), shared.account, subject))
	}
	return out
}

func (g *Graph) usesAccount(s *Component, account string) bool {
	return len(s.Roles) > 0 && AccountOf(&s.Roles[0].Template, g.Name) == account
}

func (g *Graph) account(meta metav1.ObjectMeta) Object {
	return &corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: meta}
}

func (g *Graph) role(meta metav1.ObjectMeta, rules []rbacv1.PolicyRule) Object {
	return &rbacv1.Role{TypeMeta: metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "Role"}, ObjectMeta: meta,
		Rules: rules}
}

func (g *Graph) binding(meta metav1.ObjectMeta, role string, subjects ...rbacv1.Subject) Object {
	return &rbacv1.RoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "RoleBinding"},
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role},
		Subjects:   subjects,
	}
}
