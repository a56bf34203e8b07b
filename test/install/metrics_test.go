// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/trellis-k8s/trellis/test/testutil/tier"
)

// Metrics are served over HTTPS at the port that the Service names, and a role allows to read them and nothing else.
func TestMetricsAreServedSecurely(t *testing.T) {
	for name, install := range installs(t) {
		t.Run(name, func(t *testing.T) {
			container := one[appsv1.Deployment](t, install, "Deployment").Spec.Template.Spec.Containers[0]
			if o := parse(t, container.Args); !o.MetricsSecure || o.MetricsAddress != ":8443" || o.GraphMetrics != 0 {
				t.Errorf("metrics at %s, secure %t, of %d graphs", o.MetricsAddress, o.MetricsSecure, o.GraphMetrics)
			}
			if !slices.ContainsFunc(container.Ports, func(p corev1.ContainerPort) bool { return p.Name == "metrics" && p.ContainerPort == 8443 }) {
				t.Errorf("no port metrics: %v", container.Ports)
			}
			if port := all[corev1.Service](t, install, "Service")["trellis-controller-manager-metrics"].Spec.Ports[0]; port.Port != 8443 || port.TargetPort.StrVal != "metrics" {
				t.Errorf("the Service leads to %v", port)
			}
			reader := all[rbacv1.ClusterRole](t, install, "ClusterRole")["trellis-metrics-reader"]
			want := []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}}
			if reader == nil || !cmp.Equal(want, reader.Rules) {
				t.Errorf("the reader's role is %+v", reader)
			}
		})
	}
}

// kustomize and Helm ship the same ServiceMonitor, alerts and dashboard.
func TestMonitoringAgrees(t *testing.T) {
	tier.All(t)
	rendered, err := chart(namespace, `serviceMonitor.enabled=true`, `prometheusRule.enabled=true`, `dashboard.enabled=true`)
	if err != nil {
		t.Fatal(err)
	}
	have := byIdentity(rendered)
	for _, dir := range []string{"prometheus", "grafana"} {
		component, err := kustomize(root + "/config/" + dir)
		if err != nil || len(component) == 0 {
			t.Fatalf("config/%s: %d objects, %v", dir, len(component), err)
		}
		for id, o := range byIdentity(component) {
			if have[id] == nil {
				t.Errorf("the chart lacks %s", id)
			} else if diff := cmp.Diff(strip(o), strip(have[id])); diff != "" {
				t.Errorf("%s differs (-config/%s, +chart):\n%s", id, dir, diff)
			}
		}
	}
	board := all[corev1.ConfigMap](t, rendered, "ConfigMap")["trellis-dashboard"]
	if board.Labels["grafana_dashboard"] != "1" || !json.Valid([]byte(board.Data["trellis.json"])) || !strings.Contains(board.Data["trellis.json"], `"legendFormat": "{{controller}}"`) {
		t.Errorf("Grafana's sidecar cannot load %v", board)
	}
}

// The ServiceMonitor finds the Service, and trusts the certificate that is served: that of the webhooks' Service, by the authority in its Secret.
func TestServiceMonitorFits(t *testing.T) {
	tier.All(t)
	for _, ns := range []string{namespace, "elsewhere"} {
		rendered, err := chart(ns, `serviceMonitor.enabled=true`)
		if err != nil {
			t.Fatal(err)
		}
		monitor := byIdentity(rendered)["ServiceMonitor "+ns+"/trellis-controller-manager"]
		selected, _, _ := unstructured.NestedStringMap(monitor.Object, "spec", "selector", "matchLabels")
		service := all[corev1.Service](t, rendered, "Service")["trellis-controller-manager-metrics"]
		for key, value := range selected {
			if service.Labels[key] != value {
				t.Errorf("the Service is not selected by %s=%s", key, value)
			}
		}
		endpoints, _, _ := unstructured.NestedSlice(monitor.Object, "spec", "endpoints")
		want := map[string]any{
			"port": service.Spec.Ports[0].Name, "path": "/metrics", "scheme": "https",
			"bearerTokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token",
			"tlsConfig": map[string]any{
				"serverName": parse(t, nil).WebhookService + "." + ns + ".svc",
				"ca":         map[string]any{"secret": map[string]any{"name": certSecret, "key": "ca.crt"}},
			},
		}
		if diff := cmp.Diff([]any{want}, endpoints); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestChartMetricsValues(t *testing.T) {
	tier.All(t)
	rendered, err := chart(
		namespace, `metrics={"secure":false,"readers":[{"namespace":"monitoring","name":"prometheus"}],"resources":["amd.com/gpu","nvidia.com/gpu"],"graphs":50}`,
		`serviceMonitor.enabled=true`, `prometheusRule={"enabled":true,"labels":{"release":"p"}}`,
		`dashboard={"enabled":true,"namespace":"grafana","labels":{"board":"yes"},"annotations":{"grafana_folder":"Trellis"}}`,
	)
	if err != nil {
		t.Fatal(err)
	}
	o := parse(t, one[appsv1.Deployment](t, rendered, "Deployment").Spec.Template.Spec.Containers[0].Args)
	if o.MetricsSecure || o.GraphMetrics != 50 || !slices.Equal(o.MetricResources, []string{"amd.com/gpu", "nvidia.com/gpu"}) {
		t.Errorf("secure %t, %d graphs, resources %v", o.MetricsSecure, o.GraphMetrics, o.MetricResources)
	}
	found := byIdentity(rendered)
	endpoints, _, _ := unstructured.NestedSlice(found["ServiceMonitor "+namespace+"/trellis-controller-manager"].Object, "spec", "endpoints")
	if diff := cmp.Diff([]any{map[string]any{"port": "metrics", "path": "/metrics"}}, endpoints); diff != "" {
		t.Errorf("plain HTTP is scraped otherwise (-want +got):\n%s", diff)
	}
	binding := decode[rbacv1.ClusterRoleBinding](t, found["ClusterRoleBinding /trellis-metrics-reader"].Object)
	if s := binding.Subjects; binding.RoleRef.Name != "trellis-metrics-reader" || len(s) != 1 || s[0].Namespace != "monitoring" || s[0].Name != "prometheus" {
		t.Errorf("the readers are %+v", binding)
	}
	if labels := found["PrometheusRule "+namespace+"/trellis-controller-manager"].GetLabels(); labels["release"] != "p" {
		t.Errorf("the alerts have the labels %v", labels)
	}
	board := found["ConfigMap grafana/trellis-dashboard"]
	if board == nil || board.GetLabels()["board"] != "yes" || board.GetAnnotations()["grafana_folder"] != "Trellis" {
		t.Errorf("the dashboard is not where it should be: %v", slices.Sorted(maps.Keys(found)))
	}
	for _, bad := range []string{`metrics.graphs=-1`, `metrics.graphs=10001`, `metrics.readers=[{"name":"x"}]`, `metrics.secure="yes"`, `metrics.resources=["a b"]`} {
		if _, err := chart(namespace, bad); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}
