// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/test/testutil/hub"
)

// graphFrom resolves a deployment whose components, annotations and claims are written as YAML.
func graphFrom(t *testing.T, text string) *Graph {
	t.Helper()
	dgd := graphOf("llm", nil)
	if err := yaml.UnmarshalStrict([]byte(text), dgd); err != nil {
		t.Fatal(err)
	}
	g, err := Resolve(hub.Of(dgd), Inputs{Provider: specs.Gates.Name})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// names lists objects as "Kind name".
func names(objects []Object) []string {
	var out []string
	for _, o := range objects {
		out = append(out, o.GetObjectKind().GroupVersionKind().Kind+" "+o.GetName())
	}
	return out
}

func TestAccounts(t *testing.T) {
	const own = "llm-k8s-service-discovery"
	tests := map[string]struct {
		text    string
		account string
		objects []string
	}{
		"as it comes":        {`spec: {services: {w: {componentType: worker}}}`, own, []string{"ServiceAccount " + own, "Role " + own + "-role", "RoleBinding " + own + "-binding"}},
		"through etcd":       {`{metadata: {annotations: {nvidia.com/dynamo-discovery-backend: etcd}}, spec: {services: {w: {}}}}`, "", nil},
		"the user's account": {`spec: {services: {w: {extraPodSpec: {serviceAccountName: mine}}}}`, "mine", nil},
		"by its old name":    {`spec: {services: {w: {extraPodSpec: {serviceAccount: mine}}}}`, "mine", nil},
		"a planner": {`spec: {services: {w: {componentType: planner}}}`, "planner-serviceaccount", []string{
			"ServiceAccount " + own, "Role " + own + "-role", "RoleBinding " + own + "-binding",
			"ServiceAccount planner-serviceaccount", "Role planner-serviceaccount", "RoleBinding planner-serviceaccount",
		}},
		"a planner with the user's account": {`spec: {services: {w: {componentType: planner, extraPodSpec: {serviceAccountName: mine}}}}`, "mine", nil},
		"a planner through etcd": {`{metadata: {annotations: {nvidia.com/dynamo-discovery-backend: etcd}}, spec: {services: {w: {componentType: planner}}}}`,
			"planner-serviceaccount", []string{"ServiceAccount planner-serviceaccount", "Role planner-serviceaccount", "RoleBinding planner-serviceaccount"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			g := graphFrom(t, tc.text)
			if got := BuildPod(g.ScalingGroups()[0], 0, 0).Spec.ServiceAccountName; got != tc.account {
				t.Errorf("account %q, want %q", got, tc.account)
			}
			if diff := cmp.Diff(tc.objects, names(append(g.Owned(), g.Shared()...))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestSharedAccountsDiscover: a planner is a Dynamo component too, so its account is among those that the graph's binding names.
func TestSharedAccountsDiscover(t *testing.T) {
	g := graphFrom(t, `spec: {services: {p: {componentType: planner}, w: {componentType: worker}}}`)
	var got []string
	for _, object := range g.Owned() {
		if binding, ok := object.(*rbacv1.RoleBinding); ok {
			for _, subject := range binding.Subjects {
				got = append(got, subject.Name)
			}
		}
	}
	if diff := cmp.Diff([]string{"llm-k8s-service-discovery", "planner-serviceaccount"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestNamesOfALongGraph(t *testing.T) {
	long := strings.Repeat("g", 253)
	for _, name := range []string{discoveryAccount(long), discoveryName(long, discoveryBindingSuffix), poolName(long), pickerConfigName(long)} {
		if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
			t.Errorf("%s: %v", name, problems)
		}
	}
}

func TestIngress(t *testing.T) {
	tests := map[string]struct{ ingress, want string }{
		"as it comes":       {`{enabled: true, host: chat}`, "chat.local to llm-f:8000"},
		"prefix and suffix": {`{enabled: true, host: chat, hostPrefix: eu-, hostSuffix: example.com}`, "eu-chat.example.com to llm-f:8000"},
		"Istio alone":       {`{enabled: true, host: chat, useVirtualService: true}`, ""},
		"Istio as well":     {`{enabled: true, host: chat, useVirtualService: true, ingressControllerClassName: nginx}`, "chat.local to llm-f:8000"},
		"disabled":          {`{enabled: false, host: chat}`, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := ""
			for _, object := range graphFrom(t, `spec: {services: {f: {componentType: frontend, ingress: `+tc.ingress+`}}}`).Owned() {
				if in, ok := object.(*networkingv1.Ingress); ok {
					backend := in.Spec.Rules[0].HTTP.Paths[0].Backend.Service
					got = in.Spec.Rules[0].Host + " to " + backend.Name + ":8000"
				}
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestClaims(t *testing.T) {
	g := graphFrom(t, `
spec:
  pvcs:
  - {name: made, create: true, storageClass: fast, size: 1Gi, volumeAccessMode: ReadWriteOnce}
  - {name: there, create: false}
  services:
    a: {volumeMounts: [{name: made, mountPoint: /m}, {name: there, mountPoint: /t}]}
    b: {extraPodSpec: {volumes: [{name: x, persistentVolumeClaim: {claimName: there}}, {name: z, persistentVolumeClaim: {claimName: other}}]}}
`)
	claims := g.Claims()
	if len(claims.Created) != 1 || claims.Created[0].Name != "made" || *claims.Created[0].Spec.StorageClassName != "fast" {
		t.Errorf("created %v", claims.Created)
	}
	if diff := cmp.Diff(map[string][]string{"there": {"a", "b"}, "other": {"b"}}, claims.Needed); diff != "" {
		t.Error(diff)
	}
}

func TestModelsOfSeveralServices(t *testing.T) {
	g := graphFrom(t, `spec: {services: {a: {modelRef: {name: m}}, b: {modelRef: {name: m}}, c: {modelRef: {name: o}}}}`)
	if diff := cmp.Diff([]string{"Service dynamo-model-" + shortHash("m"), "Service dynamo-model-" + shortHash("o")}, names(g.Shared())); diff != "" {
		t.Error(diff)
	}
}

// TestPickerConfigReplacesThePod: the program reads its configuration once.
func TestPickerConfigReplacesThePod(t *testing.T) {
	revision := func(config string) string {
		return graphFrom(t, `spec: {services: {e: {componentType: epp, eppConfig: {config: `+config+`}}}}`).Components[0].Revision
	}
	if revision(`{plugins: []}`) == revision(`{plugins: [{type: picker}]}`) {
		t.Error("the revision is the same")
	}
	g := graphFrom(t, `spec: {services: {e: {componentType: epp, eppConfig: {configMapRef: {name: mine, key: k}}}}}`)
	source := g.Components[0].Roles[0].Template.Spec.Volumes[1].ConfigMap
	if source.Name != "mine" || source.Items[0].Key != "k" || source.Items[0].Path != "epp-config-dynamo.yaml" {
		t.Errorf("mounts %+v", source)
	}
	if got := names(g.Owned()); got[len(got)-1] != "InferencePool llm-pool" || strings.Contains(strings.Join(got, " "), "ConfigMap") {
		t.Errorf("brings %v", got)
	}
}

// TestNativePicker: that of runtime 1.5.0 takes no arguments, and has no configuration.
func TestNativePicker(t *testing.T) {
	main := func(image, more string) corev1.PodSpec {
		return graphFrom(t, `spec: {services: {e: {componentType: epp, extraPodSpec: {mainContainer: {image: "`+image+`"}}`+more+`}}}`).Components[0].Roles[0].Template.Spec
	}
	for name, tc := range map[string]struct {
		pod    corev1.PodSpec
		native bool
	}{
		"by its tag":                   {main("r:5000/dynamo:1.5.0", ""), true},
		"a candidate":                  {main("dynamo:1.6.0-rc.1", ""), true},
		"by the override":              {main("dynamo:mine", ", runtimeVersionOverride: 1.5.0"), true},
		"an early one":                 {main("dynamo:1.4.1", ""), false},
		"an early one by the override": {main("dynamo:1.5.0", ", runtimeVersionOverride: 1.4.0"), false},
		"of no known version":          {main("dynamo@sha256:aa", ""), false},
		"with a configuration":         {main("dynamo:1.5.0", ", eppConfig: {configMapRef: {name: c, key: k}}"), false},
	} {
		c := tc.pod.Containers[0]
		configured := slices.ContainsFunc(tc.pod.Volumes, func(v corev1.Volume) bool { return v.Name == "epp-config" })
		home := slices.Contains(c.Env, corev1.EnvVar{Name: "HOME", Value: "/home/dynamo"})
		cache := slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == "/home/dynamo/.cache" })
		if (len(c.Args) == 0) != tc.native || configured == tc.native || home != tc.native || cache != tc.native {
			t.Errorf("%s: args %v, configured %v, home %v, cache %v", name, c.Args, configured, home, cache)
		}
	}
}

func TestPlatform(t *testing.T) {
	dgd := graphOf("llm", map[string]int32{"w": 1})
	dgd.Spec.Envs = append(dgd.Spec.Envs, envs("ETCD_ENDPOINTS=mine")...)
	g, err := Resolve(hub.Of(dgd), Inputs{Platform: Platform{NATS: "nats://n:4222", ETCD: "e:2379"}})
	if err != nil {
		t.Fatal(err)
	}
	pod := BuildPod(g.ScalingGroups()[0], 0, 0)
	got := []string{valueOf(pod, "NATS_SERVER"), valueOf(pod, "ETCD_ENDPOINTS"), valueOf(pod, "PROMETHEUS_ENDPOINT")}
	if diff := cmp.Diff([]string{"nats://n:4222", "mine", ""}, got); diff != "" {
		t.Error(diff)
	}
}

// TestExecutorOfOldDeployments: what a deployment from before 1.0.0 was written for stays its default.
func TestExecutorOfOldDeployments(t *testing.T) {
	for annotations, want := range map[string]string{
		`{}`: "", `{nvidia.com/dynamo-operator-origin-version: 0.9.1}`: "ray", `{nvidia.com/dynamo-operator-origin-version: 1.0.0}`: "",
		`{nvidia.com/dynamo-operator-origin-version: 0.9.1, nvidia.com/vllm-distributed-executor-backend: mp}`: "mp",
	} {
		dgd := &nvidiav1alpha1.DynamoGraphDeployment{}
		if err := yaml.UnmarshalStrict([]byte(`{metadata: {annotations: `+annotations+`}, spec: {services: {w: {}}}}`), dgd); err != nil {
			t.Fatal(err)
		}
		if got := newTemplater(hub.Of(dgd), &nvidiav1beta1.ComponentSpec{Name: "w"}, nvidiav1alpha1.AlphaOnlyService{}).executor(); got != want {
			t.Errorf("%s: %q, want %q", annotations, got, want)
		}
	}
}
