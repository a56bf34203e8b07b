// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/trellis-k8s/trellis/test/testutil/tier"
)

func TestChartKeepsDefinitions(t *testing.T) {
	tier.All(t)
	definitions, err := kustomize(root + "/config/crd")
	if err != nil || len(definitions) == 0 {
		t.Fatal(len(definitions), err)
	}
	want := map[string]any{}
	for _, o := range definitions {
		want[o.GetName()] = o.Object
	}
	have := map[string]any{}
	for _, o := range installs(t)["helm"] {
		if o.GetKind() != "CustomResourceDefinition" {
			continue
		}
		if o.GetAnnotations()["helm.sh/resource-policy"] != "keep" {
			t.Errorf("uninstalling the chart deletes %s and every object of its kind", o.GetName())
		}
		have[o.GetName()] = strip(o)
	}
	if w, h := slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(have)); !slices.Equal(w, h) {
		t.Errorf("the chart defines %v, want %v", h, w)
	}
	for name := range want {
		if !cmp.Equal(want[name], have[name]) { // no diff: it would fill the screen
			t.Errorf("%s is out of date; run: go run ./hack/chartcrds", name)
		}
	}
}

// Wherever the release lives, every reference leads there.
func TestChartInAnotherNamespace(t *testing.T) {
	tier.All(t)
	rendered, err := chart("elsewhere")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range rendered {
		raw, err := yaml.Marshal(o.Object)
		if err != nil {
			t.Fatal(err)
		}
		if o.GetKind() != "CustomResourceDefinition" && strings.Contains(string(raw), namespace) {
			t.Errorf("%s %s still speaks of %s", o.GetKind(), o.GetName(), namespace)
		}
	}
	want, have := byIdentity(installs(t)["helm"]), byIdentity(rendered)
	moved := map[string]bool{}
	for id := range want {
		moved[strings.Replace(id, namespace, "elsewhere", 1)] = true
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(moved)), slices.Sorted(maps.Keys(have))); diff != "" {
		t.Error(diff)
	}
	// The operator learns its namespace from its pod, and needs it for the certificate's DNS name and the lease.
	var from string
	for _, env := range one[appsv1.Deployment](t, rendered, "Deployment").Spec.Template.Spec.Containers[0].Env {
		if env.Name == "POD_NAMESPACE" {
			from = env.ValueFrom.FieldRef.FieldPath
		}
	}
	if from != "metadata.namespace" {
		t.Errorf("POD_NAMESPACE comes from %q", from)
	}
}

// Every value that changes anything, all at once.
func TestChartValues(t *testing.T) {
	tier.All(t)
	rendered, err := chart(
		namespace, `replicas=1`, `image={"repository":"registry.example/trellis","digest":"sha256:`+strings.Repeat("a", 64)+`"}`,
		`watchNamespaces=["team-a","team-b"]`, `requeueAfter="45s"`, `holdFor="1m30s"`, `moveTimeout="3m"`, `leavingTaints=["example.com/gone","gone"]`, `reserveDomainAfter="5m"`, `reserveDomainFor="10m"`, `reserveShare=0.25`, `repackAfter="5m"`, `repackMaxGPUs=64`, `logging={"level":2,"format":"console"}`,
		`provider="PodGroup"`, `extraArgs=["--shutdown-delay=10s","--zap-encoder=json"]`,
		`crds.install=false`, `serviceMonitor={"enabled":true,"interval":"15s","labels":{"release":"prometheus"}}`,
		`networkPolicy.enabled=false`, `webhook={"timeoutSeconds":3,"failurePolicy":"Ignore"}`, `priorityClassName=""`,
		`nodeSelector={"pool":"system"}`, `tolerations=[{"operator":"Exists"}]`, `affinity={"nodeAffinity":{}}`,
	)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, o := range rendered {
		kinds[o.GetKind()]++
	}
	// A budget would keep the only replica on its node for ever.
	for kind, want := range map[string]int{"CustomResourceDefinition": 0, "PodDisruptionBudget": 0, "NetworkPolicy": 0, "ResourceQuota": 0, "ServiceMonitor": 1} {
		if kinds[kind] != want {
			t.Errorf("%d objects of kind %s, want %d", kinds[kind], kind, want)
		}
	}
	for _, w := range one[admissionregistrationv1.MutatingWebhookConfiguration](t, rendered, "MutatingWebhookConfiguration").Webhooks {
		checkCall(t, w.Name, w.FailurePolicy, w.TimeoutSeconds)
	}
	for _, w := range one[admissionregistrationv1.ValidatingWebhookConfiguration](t, rendered, "ValidatingWebhookConfiguration").Webhooks {
		checkCall(t, w.Name, w.FailurePolicy, w.TimeoutSeconds)
	}
	pod := one[appsv1.Deployment](t, rendered, "Deployment").Spec.Template.Spec
	checkPod(t, pod)
	container := pod.Containers[0]
	for _, arg := range []string{"--watch-namespaces=team-a,team-b", "--requeue-after=45s", "--hold-for=1m30s", "--move-timeout=3m", "--leaving-taints=example.com/gone,gone", "--zap-log-level=2", "--zap-encoder=console", "--provider=PodGroup", "--shutdown-delay=10s"} {
		if !slices.Contains(container.Args, arg) {
			t.Errorf("%s is missing in %v", arg, container.Args)
		}
	}
	if o := parse(t, container.Args); o.Provider != "PodGroup" || o.ShutdownDelay != 10*time.Second || container.Args[len(container.Args)-1] != "--zap-encoder=json" {
		t.Errorf("provider %s, shutdown delay %s, last argument of %v", o.Provider, o.ShutdownDelay, container.Args)
	}
	if want := "registry.example/trellis@sha256:" + strings.Repeat("a", 64); container.Image != want {
		t.Errorf("image %s, want %s", container.Image, want)
	}
	want := corev1.PodSpec{
		NodeSelector: map[string]string{"pool": "system"}, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}},
	}
	have := corev1.PodSpec{NodeSelector: pod.NodeSelector, Tolerations: pod.Tolerations, Affinity: pod.Affinity, PriorityClassName: pod.PriorityClassName}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("pod (-want, +have):\n%s", diff)
	}
}

// checkCall: a webhook fails open and is given three seconds, as TestChartValues sets it.
func checkCall(t *testing.T, name string, policy *admissionregistrationv1.FailurePolicyType, timeout *int32) {
	t.Helper()
	if policy == nil || *policy != admissionregistrationv1.Ignore || timeout == nil || *timeout != 3 {
		t.Errorf("%s: failurePolicy %s, timeoutSeconds %d; want Ignore and 3", name, ptr.Deref(policy, ""), ptr.Deref(timeout, 0))
	}
}

// Some values have former names, which are read while the new ones say nothing else.
func TestChartReadsFormerNames(t *testing.T) {
	tier.All(t)
	for values, want := range map[string]string{
		`engine="KAI"`:                                 "--provider=KAI",
		`engine="KAI",provider="KAI"`:                  "--provider=KAI",
		`provider="Grove"`:                             "--provider=Grove",
		`takeBackAfter="45s"`:                          "--requeue-after=45s",
		`keepDomainAfter="5m"`:                         "--reserve-domain-after=5m",
		`keepDomainAfter="5m",reserveDomainAfter="5m"`: "--reserve-domain-after=5m",
		`keepDomainFor="10m",reserveDomainAfter="5m"`:  "--reserve-domain-for=10m",
		`keepShare=0.25`:                               "--reserve-share=0.25",
		`reserveShare=0.5`:                             "--reserve-share=0.5",
	} {
		rendered, err := chart(namespace, strings.Split(values, ",")...)
		if err != nil {
			t.Errorf("%s: %v", values, err)
			continue
		}
		args := one[appsv1.Deployment](t, rendered, "Deployment").Spec.Template.Spec.Containers[0].Args
		if parse(t, args); !slices.Contains(args, want) {
			t.Errorf("%s: %s is missing in %v", values, want, args)
		}
	}
	for values, refusal := range map[string]string{
		`engine="KAI",provider="Grove"`:                "engine: KAI: the former name of provider, which is set to Grove; remove engine",
		`takeBackAfter="45s",requeueAfter="30s"`:       "takeBackAfter: 45s: the former name of requeueAfter, which is set to 30s; remove takeBackAfter",
		`keepDomainAfter="5m",reserveDomainAfter="6m"`: "keepDomainAfter: 5m: the former name of reserveDomainAfter, which is set to 6m; remove keepDomainAfter",
		`keepDomainFor="5m",reserveDomainFor="6m"`:     "keepDomainFor: 5m: the former name of reserveDomainFor",
		`keepShare=0.25,reserveShare=0.5`:              "keepShare: 0.25: the former name of reserveShare, which is set to 0.5; remove keepShare",
	} {
		if _, err := chart(namespace, strings.Split(values, ",")...); err == nil || !strings.Contains(err.Error(), refusal) {
			t.Errorf("%s: %v, want %q", values, err, refusal)
		}
	}
}

func TestChartWithoutMetrics(t *testing.T) {
	tier.All(t)
	rendered, err := chart(namespace, `metrics.enabled=false`)
	if err != nil {
		t.Fatal(err)
	}
	if services := all[corev1.Service](t, rendered, "Service"); len(services) != 1 {
		t.Errorf("%d Services, want the webhooks' only", len(services))
	}
	if args := one[appsv1.Deployment](t, rendered, "Deployment").Spec.Template.Spec.Containers[0].Args; !slices.Contains(args, "--metrics-bind-address=0") {
		t.Errorf("metrics are still served: %v", args)
	}
}

func TestChartRefusesBadValues(t *testing.T) {
	tier.All(t)
	for _, bad := range []struct{ value, culprit string }{
		{`replicas=-1`, "replicas"},
		{`replicas="two"`, "replicas"},
		{`watchNamespaces="x"`, "watchNamespaces"},
		{`watchNamespaces=["Team A"]`, "watchNamespaces"},
		{`watchNamespaces=[""]`, "watchNamespaces"},
		{`requeueAfter="0s"`, "requeueAfter"},
		{`holdFor="soon"`, "holdFor"},
		{`moveTimeout="0s"`, "moveTimeout"},
		{`leavingTaints=["example.com/"]`, "leavingTaints"},
		{`reserveDomainAfter="-1s"`, "reserveDomainAfter"},
		{`reserveShare=1.5`, "reserveShare"},
		{`repackAfter="soon"`, "repackAfter"},
		{`repackMaxGPUs=-1`, "repackMaxGPUs"},
		{`provider="Magic"`, "provider"},
		{`extraArgs=["shutdown-delay"]`, "extraArgs"},
		{`image.tag="a tag"`, "tag"},
		{`resources.limits=null`, "limits"},
		{`webhook.timeoutSeconds=31`, "timeoutSeconds"},
		{`webhook.failurePolicy="Sometimes"`, "failurePolicy"},
		{`logging.level="loud"`, "level"},
		{`networkPolicy.apiServerPorts=[70000]`, "apiServerPorts"},
		{`replicaCount=2`, "replicaCount"},
	} {
		t.Run(bad.value, func(t *testing.T) {
			_, err := chart(namespace, bad.value)
			if err == nil {
				t.Fatal("accepted")
			}
			if !strings.Contains(err.Error(), bad.culprit) {
				t.Errorf("the refusal does not name %s: %v", bad.culprit, err)
			}
		})
	}
	if _, err := chart(namespace, `metrics.enabled=false`, `serviceMonitor.enabled=true`); err == nil {
		t.Error("a ServiceMonitor of metrics that nobody serves was accepted")
	}
}
