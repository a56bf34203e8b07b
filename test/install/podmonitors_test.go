// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/hub"
	"github.com/trellis-k8s/trellis/test/testutil/tier"
)

// TestPodMonitors: kustomize and Helm install the same PodMonitors, and each pod of a deployment is scraped by exactly one of them, at a port
// that it has. A deployment that switches metrics off is scraped by none.
func TestPodMonitors(t *testing.T) {
	tier.All(t)
	component, err := kustomize(root + "/config/podmonitors")
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := chart(namespace, `podMonitors.enabled=true`)
	if err != nil {
		t.Fatal(err)
	}
	of := map[string]objects{"kustomize": monitorsIn(component), "helm": monitorsIn(rendered)}
	for name, monitors := range of {
		if len(monitors) != 3 {
			t.Fatalf("%s: %d PodMonitors, want 3", name, len(monitors))
		}
		for _, kind := range []string{"frontend", "worker", "prefill", "decode", "planner"} {
			pod := podOf(t, kind, nil)
			if n := len(scrapers(t, monitors, pod)); n != 1 {
				t.Errorf("%s: a pod of type %s is scraped at %d of its ports, want 1", name, kind, n)
			}
			if silent := podOf(t, kind, map[string]string{"nvidia.com/enable-metrics": "false"}); len(scrapers(t, monitors, silent)) > 0 {
				t.Errorf("%s: a pod of type %s is scraped although its metrics are switched off", name, kind)
			}
		}
	}
	off, err := chart(namespace)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(monitorsIn(off)); n != 0 {
		t.Errorf("%d PodMonitors where their API is not served", n)
	}
	limited, err := chart(namespace, `podMonitors.enabled=true`, `watchNamespaces=["team-a"]`)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range monitorsIn(limited) {
		if names, _, _ := unstructured.NestedStringSlice(m.Object, "spec", "namespaceSelector", "matchNames"); !slices.Equal(names, []string{"team-a"}) {
			t.Errorf("%s selects the namespaces %v", m.GetName(), names)
		}
	}
}

func monitorsIn(all objects) objects {
	return slices.DeleteFunc(slices.Clone(all), func(o *unstructured.Unstructured) bool { return o.GetKind() != "PodMonitor" })
}

func podOf(t *testing.T, componentType string, annotations map[string]string) *corev1.Pod {
	t.Helper()
	dgd := &nvidiav1alpha1.DynamoGraphDeployment{}
	dgd.Name, dgd.Namespace, dgd.Annotations = "g", "ns", annotations
	dgd.Spec.Services = map[string]*nvidiav1alpha1.ServiceSpec{"S": {ComponentType: componentType}}
	g, err := render.Resolve(hub.Of(dgd), render.Inputs{Provider: specs.Gates.Name})
	if err != nil {
		t.Fatal(err)
	}
	return render.BuildPod(g.ScalingGroups()[0], 0, 0)
}

// scrapers are the ports of the pod that PodMonitors select.
func scrapers(t *testing.T, monitors objects, pod *corev1.Pod) []string {
	t.Helper()
	var out []string
	for _, m := range monitors {
		raw, _, _ := unstructured.NestedMap(m.Object, "spec", "selector")
		selector := &metav1.LabelSelector{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, selector); err != nil {
			t.Fatal(err)
		}
		matcher, err := metav1.LabelSelectorAsSelector(selector)
		if err != nil {
			t.Fatal(err)
		}
		if !matcher.Matches(labels.Set(pod.Labels)) {
			continue
		}
		endpoints, _, _ := unstructured.NestedSlice(m.Object, "spec", "podMetricsEndpoints")
		for _, e := range endpoints {
			port := e.(map[string]any)["port"].(string)
			if slices.ContainsFunc(pod.Spec.Containers[0].Ports, func(p corev1.ContainerPort) bool { return p.Name == port }) {
				out = append(out, port)
			}
		}
	}
	return out
}
