// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/field"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/test/testutil/hub"
)

func TestNames(t *testing.T) {
	long := strings.Repeat("long-", 12) + "end" // 63
	tests := map[string]struct {
		dgd, component string
		nodes          int32
		want           serviceNames
	}{
		"lower-cased":          {"llm", "VllmWorker", 1, serviceNames{group: "llm-vllmworker", component: "llm-vllmworker"}},
		"multinode":            {"llm", "Decode", 2, serviceNames{group: "llm-decode", component: "llm-decode", headless: "llm-decode-pods"}},
		"dots":                 {"llm.v2", "my_worker", 1, serviceNames{group: "llm-v2-my-worker", component: "llm-v2-my-worker"}},
		"a digit first":        {"7b", "w", 2, serviceNames{group: "7b-w", component: "svc-7b-w", headless: "svc-7b-w-pods"}},
		"as long as it may be": {long, "Frontend", 1, serviceNames{group: "long-long-long-long-long-long-long-long-long-lon-" + shortHash(long+"/Frontend"), component: "long-long-long-long-long-long-long-long-long-long-long-" + shortHash(long+"/Frontend")}},
		"the Service's name is kept where only pods' names are too long": {
			strings.Repeat("x", 50), "frontend", 1,
			serviceNames{group: strings.Repeat("x", 48) + "-" + shortHash(strings.Repeat("x", 50)+"/frontend"), component: strings.Repeat("x", 50) + "-frontend"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, errs := nameComponents(hub.Of(graphOf(tc.dgd, map[string]int32{tc.component: tc.nodes})))
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			if diff := cmp.Diff(tc.want, got[tc.component], cmp.AllowUnexported(serviceNames{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNamesThatClash(t *testing.T) {
	tests := map[string]struct {
		components map[string]int32
		wantErr    string
	}{
		"case":               {map[string]int32{"Worker": 1, "worker": 1}, `spec.services[worker]: its objects would have the same name "g-worker" as those of service "Worker"; names are lower-cased, so rename one of them`},
		"other characters":   {map[string]int32{"a.b": 1, "a-b": 1}, `the same name "g-a-b"`},
		"a headless Service": {map[string]int32{"w": 2, "w-pods": 1}, `the same name "g-w-pods"`},
		"nothing left":       {map[string]int32{"___": 1}, `has no letter or digit`},
		"none":               {map[string]int32{"w": 2, "w-1": 1, "w-2": 2}, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Resolve(hub.Of(graphOf("g", tc.components)), Inputs{})
			if tc.wantErr == "" && err != nil || tc.wantErr != "" && (err == nil || !strings.Contains(field.ErrorIn(err, "v1alpha1"), tc.wantErr)) {
				t.Errorf("error %v, want %q", err, tc.wantErr)
			}
		})
	}
}

// TestPodNamesAreUnique covers the trap that replica 0 of "w-1" and pod 0 of replica 1 of a multinode "w" are both called g-w-1-0.
func TestPodNamesAreUnique(t *testing.T) {
	g, err := Resolve(hub.Of(graphOf("g", map[string]int32{"w": 2, "w-1": 1, "w-1-0": 1, "w-2": 2})), Inputs{})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for _, sg := range g.ScalingGroups() {
		for ordinal := range int32(12) {
			for index := range PodsPerReplica(sg) {
				pod := BuildPod(sg, ordinal, index)
				if other, twice := seen[pod.Name]; twice {
					t.Errorf("pod %s belongs to %s and %s", pod.Name, other, sg.Spec.Component)
				}
				seen[pod.Name] = sg.Spec.Component
			}
		}
	}
}

// TestHostNames: a host name differs for each attempt, is a DNS label, and its attempt can be read back.
func TestHostNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		group := rapid.StringMatching(`[a-z]([-a-z0-9]{0,50}[a-z0-9])?`).Draw(t, "group")
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: podName(group, true, rapid.Int32Range(0, 99999).Draw(t, "ordinal"), 9999)}}
		attempt := rapid.Int32Range(1, math.MaxInt32).Draw(t, "attempt")
		pod.Spec.Hostname = hostName(pod.Name, attempt)
		if errs := validation.IsDNS1123Label(pod.Spec.Hostname); len(errs) > 0 {
			t.Errorf("host name %q: %v", pod.Spec.Hostname, errs)
		}
		if got := HostAttempt(pod); got != attempt {
			t.Errorf("host name %q of pod %s: attempt %d, want %d", pod.Spec.Hostname, pod.Name, got, attempt)
		}
		if first := hostName(pod.Name, 1); first != pod.Name || HostAttempt(pod) > 1 == (pod.Spec.Hostname == first) {
			t.Errorf("host names %q and %q", first, pod.Spec.Hostname)
		}
	})
	for _, host := range []string{"", "x-a2", "llm-w-0-0-a1", "llm-w-0-0-a02", "llm-w-0-0-a-2", "llm-w-0-0-b2"} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "llm-w-0-0"}, Spec: corev1.PodSpec{Hostname: host}}
		if got := HostAttempt(pod); got != 1 {
			t.Errorf("host name %q: attempt %d", host, got)
		}
	}
}

// TestNamesAreValid: whatever the names, objects' names are valid, and different graphs have different labels.
func TestNamesAreValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dgd := rapid.StringMatching(`[a-z0-9]([-a-z0-9.]{0,250}[a-z0-9])?`).Draw(t, "dgd")
		other := rapid.StringMatching(`[a-z0-9]([-a-z0-9.]{0,250}[a-z0-9])?`).Draw(t, "other")
		component := rapid.StringMatching(`[A-Za-z0-9][-A-Za-z0-9_.]{0,80}`).Draw(t, "service")
		nodes := rapid.Int32Range(1, 64).Draw(t, "nodes")
		ordinal := rapid.SampledFrom([]int32{0, 9, 99999, math.MaxInt32}).Draw(t, "ordinal")

		g, err := Resolve(hub.Of(graphOf(dgd, map[string]int32{component: nodes})), Inputs{Provider: specs.Gates.Name})
		if err != nil {
			t.Fatal(err)
		}
		checkObjects(t, g, ordinal)
		if dgd != other && LabelValue(dgd) == LabelValue(other) {
			t.Errorf("graphs %q and %q have one label %q", dgd, other, LabelValue(dgd))
		}
	})
}

func TestLabelValue(t *testing.T) {
	long := strings.Repeat("n", 64)
	for in, want := range map[string]string{
		"":                      "",
		"Frontend":              "Frontend",
		"a.b_c-d":               "a.b_c-d",
		strings.Repeat("n", 63): strings.Repeat("n", 63),
		long:                    strings.Repeat("n", 54) + "_" + shortHash(long),
		"has space":             "has-space_" + shortHash("has space"),
		"-":                     shortHash("-"),
		"ünï":                   "n_" + shortHash("ünï"),
	} {
		got := LabelValue(in)
		if got != want {
			t.Errorf("LabelValue(%q) = %q, want %q", in, got, want)
		}
		if errs := validation.IsValidLabelValue(got); len(errs) > 0 {
			t.Errorf("LabelValue(%q) = %q: %v", in, got, errs)
		}
	}
}

// graphOf makes a deployment whose components have that many nodes each.
func graphOf(name string, components map[string]int32) *nvidiav1alpha1.DynamoGraphDeployment {
	dgd := &nvidiav1alpha1.DynamoGraphDeployment{}
	dgd.Name, dgd.Namespace = name, "team"
	dgd.Spec.Services = map[string]*nvidiav1alpha1.ServiceSpec{}
	for component, nodes := range components {
		spec := &nvidiav1alpha1.ServiceSpec{ComponentType: "worker"}
		if nodes > 1 {
			spec.Multinode = &nvidiav1alpha1.MultinodeSpec{NodeCount: nodes}
		}
		dgd.Spec.Services[component] = spec
	}
	return dgd
}

func ExampleLabelValue() {
	fmt.Println(LabelValue("Qwen/Qwen3-0.6B"))
	// Output: Qwen-Qwen3-0.6B_fb68f5a6
}
