// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
)

// domainsOf are the components of a rendered graph with the claim templates of their ComputeDomains, and the ComputeDomains that are made.
func domainsOf(t *testing.T, dgd *nvidiav1beta1.DynamoGraphDeployment, provider string) (joined map[string]string, made []string) {
	t.Helper()
	g, err := Resolve(dgd, Inputs{Provider: provider})
	if err != nil {
		t.Fatal(err)
	}
	joined = map[string]string{}
	for i := range g.Components {
		for _, role := range g.Components[i].Roles {
			for _, claim := range role.Template.Spec.ResourceClaims {
				joined[fmt.Sprintf("%s/%s", g.Components[i].Name, role.Name)] = *claim.ResourceClaimTemplateName
				if main := role.Template.Spec.Containers[0]; len(main.Resources.Claims) != 1 || main.Resources.Claims[0].Name != claim.Name {
					t.Errorf("the main container of %s uses %v", g.Components[i].Name, main.Resources.Claims)
				}
			}
		}
	}
	for _, object := range g.Owned() {
		if u, is := object.(*unstructured.Unstructured); is && u.GetKind() == "ComputeDomain" {
			name, _, _ := unstructured.NestedString(u.Object, "spec", "channel", "resourceClaimTemplate", "name")
			made = append(made, u.GetName()+" "+name)
		}
	}
	return joined, made
}

// llmOn is a deployment with a frontend, and prefill and decode on two hosts each, with annotations of their own.
func llmOn(uid, annotation string, own map[string]map[string]string) *nvidiav1beta1.DynamoGraphDeployment {
	dgd := &nvidiav1beta1.DynamoGraphDeployment{}
	dgd.Name, dgd.Namespace, dgd.UID = "llm", "ns", types.UID(uid)
	if annotation != "" {
		dgd.Annotations = map[string]string{AnnotationComputeDomain: annotation}
	}
	for _, name := range []string{"frontend", "prefill", "decode"} {
		main := corev1.Container{Name: "main", Image: "x", Command: []string{"run"}}
		c := nvidiav1beta1.ComponentSpec{Name: name, Type: nvidiav1beta1.ComponentType(name)}
		if name != "frontend" {
			c.Multinode = &nvidiav1beta1.MultinodeSpec{NodeCount: 2}
			main.Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("4")}
		}
		c.PodTemplate = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{main}}}
		c.PodTemplate.Annotations = own[name]
		dgd.Spec.Components = append(dgd.Spec.Components, c)
	}
	return dgd
}

// A deployment names the domain of its components with GPUs, and a component its own. Each domain is made once, and its name is of the incarnation.
func TestComputeDomains(t *testing.T) {
	domain := func(name string) string {
		dgd := llmOn("1", "", nil)
		return domainName(dgd, name)
	}
	both := func(prefill, decode string) map[string]string {
		out := map[string]string{}
		for name, domain := range map[string]string{"prefill": prefill, "decode": decode} {
			if domain != "" {
				out[name+"/leader"], out[name+"/worker"] = domain+"-channel", domain+"-channel"
			}
		}
		return out
	}
	grove := func(name string) map[string]string { return map[string]string{AnnotationMNNVLGroup: name} }
	ours := func(name string) map[string]string { return map[string]string{AnnotationComputeDomain: name} }
	for name, tc := range map[string]struct {
		annotation string
		own        map[string]map[string]string
		provider   string
		joined     map[string]string
		made       []string
	}{
		"none":                         {"", nil, "", both("", ""), nil},
		"the deployment's":             {"all", nil, "", both(domain("all"), domain("all")), []string{domain("all")}},
		"a component has none":         {"all", map[string]map[string]string{"prefill": ours("none")}, "", both("", domain("all")), []string{domain("all")}},
		"a component has its own":      {"all", map[string]map[string]string{"decode": ours("d")}, "", both(domain("all"), domain("d")), []string{domain("d"), domain("all")}},
		"components name it":           {"", map[string]map[string]string{"decode": ours("x"), "prefill": ours("x")}, "", both(domain("x"), domain("x")), []string{domain("x")}},
		"Grove's annotation":           {"", map[string]map[string]string{"decode": grove("x")}, "", both("", domain("x")), []string{domain("x")}},
		"Grove's annotation for Grove": {"", map[string]map[string]string{"decode": grove("x")}, specs.Grove.Name, both("", ""), nil},
	} {
		t.Run(name, func(t *testing.T) {
			provider := tc.provider
			if provider == "" {
				provider = specs.Gates.Name
			}
			joined, made := domainsOf(t, llmOn("1", tc.annotation, tc.own), provider)
			if diff := cmp.Diff(tc.joined, joined); diff != "" {
				t.Errorf("claims (-want +got):\n%s", diff)
			}
			var want []string
			for _, name := range tc.made {
				want = append(want, name+" "+name+"-channel")
			}
			if diff := cmp.Diff(want, made); diff != "" {
				t.Errorf("ComputeDomains (-want +got):\n%s", diff)
			}
		})
	}
	if domain("all") == domainName(llmOn("2", "", nil), "all") {
		t.Error("two incarnations have one name: the spec of a ComputeDomain is immutable")
	}
}
