// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"strings"
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

// With a domain for each replica, the pods of a replica name its own, and the graph makes none. Grove makes the pods of all replicas alike.
func TestComputeDomainsPerReplica(t *testing.T) {
	dgd := llmOn("1", "all", map[string]map[string]string{"prefill": {AnnotationComputeDomainPer: PerName}})
	dgd.Annotations[AnnotationComputeDomainPer] = PerReplica
	dgd.Name = strings.Repeat("long", 15)
	g, err := Resolve(dgd, Inputs{Provider: specs.Gates.Name})
	if err != nil {
		t.Fatal(err)
	}
	_, made := domainsOf(t, dgd, specs.Gates.Name)
	if shared := domainName(dgd, "all"); len(made) != 1 || !strings.HasPrefix(made[0], shared+" ") {
		t.Errorf("the graph makes %v, want that of prefill, %s", made, shared)
	}
	if _, made := domainsOf(t, dgd, specs.Grove.Name); len(made) != 1 {
		t.Errorf("under Grove the graph makes %v, want one for all", made)
	}
	if presupposed := g.ReplicaDomains(); len(presupposed) != 1 || presupposed[0].GetName() != replicaDomainName(dgd, "all", "decode")+"-0" {
		t.Errorf("presupposed is %v", presupposed)
	}
	names := map[string]bool{}
	for _, sg := range g.ScalingGroups() {
		switch {
		case sg.Spec.Component == "prefill" && ReplicaDomain(sg, 0) != nil, sg.Spec.Component == "frontend" && ReplicaDomain(sg, 0) != nil:
			t.Errorf("%s has domains of replicas", sg.Spec.Component)
		case sg.Spec.Component != "decode":
			continue
		}
		for _, ordinal := range []int32{0, 1, 99_999} {
			domain := ReplicaDomain(sg, ordinal)
			channel, _, _ := unstructured.NestedString(domain.Object, "spec", "channel", "resourceClaimTemplate", "name")
			for index := range int32(2) {
				if pod := BuildPod(sg, ordinal, index); *pod.Spec.ResourceClaims[0].ResourceClaimTemplateName != channel {
					t.Errorf("pod %d of replica %d claims by %s, want %s", index, ordinal, *pod.Spec.ResourceClaims[0].ResourceClaimTemplateName, channel)
				}
			}
			if names[domain.GetName()] = true; len(channel) > maxName {
				t.Errorf("%s is too long", channel)
			}
		}
		counted := WithoutChannels(&sg.Spec.Roles[0].Template.Spec)
		if len(counted.ResourceClaims)+len(counted.Containers[0].Resources.Claims) > 0 || len(sg.Spec.Roles[0].Template.Spec.ResourceClaims) != 1 {
			t.Errorf("without channels: %v, of %v", counted.ResourceClaims, sg.Spec.Roles[0].Template.Spec.ResourceClaims)
		}
		if template := sg.Spec.Roles[0].Template.Spec.ResourceClaims[0]; strings.HasSuffix(*template.ResourceClaimTemplateName, "-99999-channel") {
			t.Error("the pod changed its template")
		}
	}
	if len(names) != 3 {
		t.Errorf("domains of three replicas: %v", names)
	}
	shared := ComputeDomainsOf(dgd)
	if len(shared) != 2 || shared[0].PerReplica == shared[1].PerReplica {
		t.Errorf("%+v, want one for all and one for each replica", shared)
	}
}
