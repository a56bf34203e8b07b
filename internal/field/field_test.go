// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package field

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPathsInBothVersions: each field of v1beta1 reads in v1alpha1 where that version has it.
func TestPathsInBothVersions(t *testing.T) {
	second := Component(1, "Decode")
	pod := second.Child("podTemplate", "spec")
	main := pod.Child("containers").Key("main")
	for name, tc := range map[string]struct {
		path        *Path
		beta, alpha string
	}{
		"constraint":         {second.Child("topologyConstraint", "packDomain"), "spec.components[1].topologyConstraint.packDomain", "spec.services[Decode].topologyConstraint.packDomain"},
		"an unknown place":   {Component(-1, "Decode").Child("replicas"), "spec.components[Decode].replicas", "spec.services[Decode].replicas"},
		"all components":     {Components, "spec.components", "spec.services"},
		"profile":            {NewPath("spec", "topologyConstraint", "clusterTopologyName"), "spec.topologyConstraint.clusterTopologyName", "spec.topologyConstraint.topologyProfile"},
		"environment":        {NewPath("spec", "env").Index(2).Child("name"), "spec.env[2].name", "spec.envs[2].name"},
		"GPUs":               {main.Child("resources", "limits").Key("nvidia.com/gpu"), "spec.components[1].podTemplate.spec.containers[main].resources.limits[nvidia.com/gpu]", "spec.services[Decode].resources.limits.gpu"},
		"claims":             {main.Child("resources", "claims"), "spec.components[1].podTemplate.spec.containers[main].resources.claims", "spec.services[Decode].resources.claims"},
		"main container":     {main.Child("image"), "spec.components[1].podTemplate.spec.containers[main].image", "spec.services[Decode].extraPodSpec.mainContainer.image"},
		"another container":  {pod.Child("containers").Key("log").Child("image"), "spec.components[1].podTemplate.spec.containers[log].image", "spec.services[Decode].extraPodSpec.containers[log].image"},
		"pod":                {pod.Child("nodeName"), "spec.components[1].podTemplate.spec.nodeName", "spec.services[Decode].extraPodSpec.nodeName"},
		"annotation":         {second.Child("podTemplate", "metadata", "annotations").Key("a/b"), "spec.components[1].podTemplate.metadata.annotations[a/b]", "spec.services[Decode].annotations[a/b]"},
		"devices":            {second.Child("experimental", "gpuMemoryService", "mode"), "spec.components[1].experimental.gpuMemoryService.mode", "spec.services[Decode].gpuMemoryService.mode"},
		"options of Grove":   {second.Child("experimental", "grove"), "spec.components[1].experimental.grove", "spec.services[Decode].experimental.grove"},
		"type":               {second.Child("type"), "spec.components[1].type", "spec.services[Decode].componentType"},
		"not quite a type":   {second.Child("typed"), "spec.components[1].typed", "spec.services[Decode].typed"},
		"shared memory":      {second.Child("sharedMemorySize"), "spec.components[1].sharedMemorySize", "spec.services[Decode].sharedMemory.size"},
		"scaling adapter":    {second.Child("scalingAdapter"), "spec.components[1].scalingAdapter", "spec.services[Decode].scalingAdapter.enabled"},
		"not of the spec":    {NewPath("metadata", "annotations").Key("type"), "metadata.annotations[type]", "metadata.annotations[type]"},
		"no path":            {nil, "", ""},
		"a form of its own":  {second.Child("frontendSidecar").InAlpha(second.Child("frontendSidecar", "image")), "spec.components[1].frontendSidecar", "spec.services[Decode].frontendSidecar.image"},
		"below such a form":  {main.InAlpha(second.Child("extraPodSpec", "mainContainer")).Child("resources"), "spec.components[1].podTemplate.spec.containers[main].resources", "spec.services[Decode].extraPodSpec.mainContainer.resources"},
		"a name in brackets": {Component(0, "a]b[").Child("type"), "spec.components[0].type", "spec.services[a]b[].componentType"},
	} {
		if got := [2]string{tc.path.In("v1beta1"), tc.path.In("v1alpha1")}; got != [2]string{tc.beta, tc.alpha} || tc.path.String() != tc.beta {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

// TestKind: fields of one kind differ in what is between the brackets, except for annotations of components.
func TestKind(t *testing.T) {
	a := Component(3, "A")
	for _, tc := range []struct {
		path        *Path
		kind, where string
	}{
		{a.Child("modelRef"), "spec.components[*].modelRef", "A"},
		{a.Child("roles").Key("leader").Child("x"), "spec.components[*].roles[*].x", "A"},
		{a.Child("podTemplate", "metadata", "annotations").Key("a.b/c"), "spec.components[*].podTemplate.metadata.annotations[a.b/c]", "A"},
		{NewPath("metadata", "annotations").Key("a.b/c"), "metadata.annotations[*]", "a.b/c"},
		{NewPath("spec", "env").Index(7), "spec.env[*]", "7"},
		{NewPath("spec", "experimental"), "spec.experimental", ""},
	} {
		if kind, where := tc.path.Kind(); kind.String() != tc.kind || where != tc.where {
			t.Errorf("%s: %s at %q", tc.path, kind, where)
		}
	}
}

// TestTextsInBothVersions: the words of a message follow its reader's version, those of a user stay.
func TestTextsInBothVersions(t *testing.T) {
	path := Component(0, "A").Child("type")
	text := Say("a %s has %d %s, %q (100 %%)", WordComponent, 2, path, "service")
	errs := ErrorList{
		Invalid(path, "x", "of the %s %q", WordComponent, "component"), Required(path, "100 % of it"), Forbidden(path, "in %s", WordIntraPod),
		NotSupported(path, "x", []string{"a", "b"}), TooMany(Components, 3, 2),
	}
	joined := errors.Join(errs[0], errors.Join(errs[1], errors.New("else")), Errorf("a %s", WordComponent))
	for version, want := range map[string][]string{
		"v1beta1": {
			`a component has 2 spec.components[0].type, "service" (100 %)`,
			`spec.components[0].type: Invalid value: "x": of the component "component"`,
			`spec.components[0].type: Required value: 100 % of it`,
			`spec.components[0].type: Forbidden: in IntraPod`,
			`spec.components[0].type: Unsupported value: "x": supported values: "a", "b"`,
			`spec.components: Too many: 3: must have at most 2 items`,
			"spec.components[0].type: Invalid value: \"x\": of the component \"component\"\nspec.components[0].type: Required value: 100 % of it\nelse\na component",
		},
		"v1alpha1": {
			`a service has 2 spec.services[A].componentType, "service" (100 %)`,
			`spec.services[A].componentType: Invalid value: "x": of the service "component"`,
			`spec.services[A].componentType: Required value: 100 % of it`,
			`spec.services[A].componentType: Forbidden: in intraPod`,
			`spec.services[A].componentType: Unsupported value: "x": supported values: "a", "b"`,
			`spec.services: Too many: 3: must have at most 2 items`,
			"spec.services[A].componentType: Invalid value: \"x\": of the service \"component\"\nspec.services[A].componentType: Required value: 100 % of it\nelse\na service",
		},
	} {
		got := append([]string{text.In(version)}, In(errs, version)...)
		got = append(got, ErrorIn(joined, version))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", version, diff)
		}
		for i, err := range errs.In(version) {
			if err.Error() != want[i+1] {
				t.Errorf("as Kubernetes has it: %s", err)
			}
		}
	}
	if got := Join([]Text{text, Say("b")}, ", ").String(); got != text.String()+", b" {
		t.Errorf("joined: %s", got)
	}
	if errs := ErrorList(nil); errs.In("") != nil || errs.ToAggregate() != nil {
		t.Error("nothing wrong is something")
	}
}
