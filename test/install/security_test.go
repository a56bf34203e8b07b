// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

func TestRightsAreLeast(t *testing.T) {
	for name, install := range installs(t) {
		t.Run(name, func(t *testing.T) {
			for role, r := range all[rbacv1.ClusterRole](t, install, "ClusterRole") {
				checkRules(t, "ClusterRole "+role, r.Rules)
				for _, rule := range r.Rules {
					if slices.Contains(rule.Resources, "secrets") && !slices.Equal(rule.Verbs, []string{"create"}) {
						t.Errorf("ClusterRole %s does more to the Secrets of every namespace than to create some: %v", role, rule)
					}
				}
			}
			for role, r := range all[rbacv1.Role](t, install, "Role") {
				if r.Namespace != namespace {
					t.Errorf("Role %s is in namespace %q", role, r.Namespace)
				}
				checkRules(t, "Role "+role, r.Rules)
				checkSecretRules(t, r.Rules)
			}
		})
	}
}

func checkRules(t *testing.T, role string, rules []rbacv1.PolicyRule) {
	t.Helper()
	writes := []string{"create", "delete", "deletecollection", "patch", "update"}
	for _, rule := range rules {
		for _, word := range slices.Concat(rule.APIGroups, rule.Resources, rule.ResourceNames, rule.Verbs, rule.NonResourceURLs) {
			if strings.Contains(word, "*") {
				t.Errorf("%s has a wildcard: %v", role, rule)
			}
		}
		for _, verb := range []string{"bind", "escalate", "impersonate"} {
			if slices.Contains(rule.Verbs, verb) {
				t.Errorf("%s may %s: %v", role, verb, rule)
			}
		}
		for _, resource := range rule.Resources {
			base, sub, _ := strings.Cut(resource, "/")
			if base == "pods" && slices.Contains([]string{"exec", "attach", "portforward", "proxy", "ephemeralcontainers"}, sub) {
				t.Errorf("%s reaches into pods: %v", role, rule)
			}
			if base == "nodes" && (sub != "" || slices.ContainsFunc(rule.Verbs, func(v string) bool { return slices.Contains(writes, v) })) {
				t.Errorf("%s does more to nodes than read them: %v", role, rule)
			}
			if base == "scalinggroups" && sub == "scale" && slices.ContainsFunc(rule.Verbs, func(v string) bool { return slices.Contains(writes, v) }) {
				t.Errorf("%s scales past the DynamoGraphDeployment: %v", role, rule)
			}
		}
	}
}

// checkSecretRules: the certificate's Secret and no other, but for its create, which Kubernetes cannot restrict to a name.
func checkSecretRules(t *testing.T, rules []rbacv1.PolicyRule) {
	t.Helper()
	for _, rule := range rules {
		if slices.Contains(rule.Resources, "secrets") && !slices.Equal(rule.ResourceNames, []string{certSecret}) && !slices.Equal(rule.Verbs, []string{"create"}) {
			t.Errorf("any Secret of the namespace: %v", rule.Verbs)
		}
	}
}

// What the restricted level of PodSecurity asks for, and what it forgets: limits and a root file system that no one writes to.
func TestPodIsRestricted(t *testing.T) {
	for name, install := range installs(t) {
		t.Run(name, func(t *testing.T) {
			checkPod(t, one[appsv1.Deployment](t, install, "Deployment").Spec.Template.Spec)
		})
	}
}

func checkPod(t *testing.T, pod corev1.PodSpec) {
	t.Helper()
	if pod.HostNetwork || pod.HostPID || pod.HostIPC {
		t.Error("the pod shares a namespace of its node")
	}
	for _, volume := range pod.Volumes {
		if volume.Secret == nil {
			t.Errorf("volume %s is no Secret", volume.Name)
		}
	}
	security := pod.SecurityContext
	if security == nil || !is(security.RunAsNonRoot, true) || security.RunAsUser == nil || *security.RunAsUser == 0 {
		t.Error("the pod may run as root")
	}
	if security == nil || security.SeccompProfile == nil || security.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Error("the pod has no seccomp profile")
	}
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		s := c.SecurityContext
		if s == nil || !is(s.AllowPrivilegeEscalation, false) || !is(s.ReadOnlyRootFilesystem, true) || s.Capabilities == nil ||
			!slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) || len(s.Capabilities.Add) > 0 || is(s.Privileged, true) {
			t.Errorf("container %s is not restricted: %v", c.Name, s)
		}
		for _, resource := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			limit, request := c.Resources.Limits[resource], c.Resources.Requests[resource]
			if limit.IsZero() || request.IsZero() {
				t.Errorf("container %s has no request or limit of %s", c.Name, resource)
			}
		}
		if c.LivenessProbe == nil || c.ReadinessProbe == nil {
			t.Errorf("container %s lacks a probe", c.Name)
		}
		for _, port := range c.Ports {
			if port.HostPort != 0 {
				t.Errorf("container %s takes port %d of its node", c.Name, port.HostPort)
			}
		}
	}
}

func is(value *bool, want bool) bool { return value != nil && *value == want }

func TestNamespaceIsRestricted(t *testing.T) {
	for name, ns := range all[corev1.Namespace](t, installs(t)["kustomize"], "Namespace") {
		for _, mode := range []string{"audit", "enforce", "warn"} {
			if level := ns.Labels["pod-security.kubernetes.io/"+mode]; level != "restricted" {
				t.Errorf("namespace %s: %s is %q", name, mode, level)
			}
		}
	}
}

// The two replicas are worth something only if a budget, a policy and every Service find their pods.
func TestManagerStaysReachable(t *testing.T) {
	for name, install := range installs(t) {
		t.Run(name, func(t *testing.T) {
			deployment := one[appsv1.Deployment](t, install, "Deployment")
			if deployment.Spec.Replicas == nil || *deployment.Spec.Replicas != 2 {
				t.Error("want two replicas")
			}
			if args := deployment.Spec.Template.Spec.Containers[0].Args; !slices.Contains(args, "--leader-elect") {
				t.Errorf("several replicas without leader election: %v", args)
			}
			pods := labels.Set(deployment.Spec.Template.Labels)
			selects := func(what string, selector *metav1.LabelSelector) {
				t.Helper()
				s, err := metav1.LabelSelectorAsSelector(selector)
				if err != nil || s.Empty() || !s.Matches(pods) {
					t.Errorf("%s does not select the pods of the manager: %v, %v", what, selector, err)
				}
			}
			selects("Deployment", deployment.Spec.Selector)
			selects("PodDisruptionBudget", one[policyv1.PodDisruptionBudget](t, install, "PodDisruptionBudget").Spec.Selector)
			policy := one[networkingv1.NetworkPolicy](t, install, "NetworkPolicy")
			selects("NetworkPolicy", &policy.Spec.PodSelector)
			if len(policy.Spec.PolicyTypes) != 2 {
				t.Errorf("NetworkPolicy is for %v, want both ways", policy.Spec.PolicyTypes)
			}
			for _, rule := range policy.Spec.Egress { // the API server and DNS
				if len(rule.To) > 0 {
					t.Errorf("NetworkPolicy lets the manager connect to pods: %v", rule.To)
				}
			}
			ports := map[string]bool{}
			for _, port := range deployment.Spec.Template.Spec.Containers[0].Ports {
				ports[port.Name] = true
			}
			for component, s := range all[corev1.Service](t, install, "Service") {
				selects("Service "+component, &metav1.LabelSelector{MatchLabels: s.Spec.Selector})
				for _, port := range s.Spec.Ports {
					if !ports[port.TargetPort.StrVal] {
						t.Errorf("Service %s leads to port %s, which the manager has not", component, port.TargetPort.String())
					}
				}
			}
		})
	}
}

func TestAdmissionFailsAsDesigned(t *testing.T) {
	for name, install := range installs(t) {
		t.Run(name, func(t *testing.T) {
			failing := map[string]admissionregistrationv1.FailurePolicyType{}
			note := func(rules []admissionregistrationv1.RuleWithOperations, policy *admissionregistrationv1.FailurePolicyType) {
				for _, rule := range rules {
					for _, resource := range rule.Resources {
						if strings.Contains(resource+strings.Join(rule.APIGroups, ""), "*") {
							t.Errorf("a rule with a wildcard: %v", rule)
						}
						failing[resource] = *policy
					}
				}
			}
			for _, w := range one[admissionregistrationv1.MutatingWebhookConfiguration](t, install, "MutatingWebhookConfiguration").Webhooks {
				note(w.Rules, w.FailurePolicy)
				checkWebhook(t, w.Name, w.TimeoutSeconds, w.SideEffects, w.MatchPolicy)
			}
			if failing["dynamographdeployments"] != admissionregistrationv1.Fail {
				t.Errorf("defaulting: %v", failing)
			}
			for _, w := range one[admissionregistrationv1.ValidatingWebhookConfiguration](t, install, "ValidatingWebhookConfiguration").Webhooks {
				note(w.Rules, w.FailurePolicy)
				checkWebhook(t, w.Name, w.TimeoutSeconds, w.SideEffects, w.MatchPolicy)
			}
			want := map[string]admissionregistrationv1.FailurePolicyType{
				"dynamographdeployments": admissionregistrationv1.Fail, "clustertopologies": admissionregistrationv1.Ignore,
				"clustertopologybindings":              admissionregistrationv1.Ignore,
				"pods/eviction":                        admissionregistrationv1.Ignore,
				"dynamographdeploymentscalingadapters": admissionregistrationv1.Ignore, "dynamographdeploymentscalingadapters/scale": admissionregistrationv1.Ignore,
			}
			if diff := cmp.Diff(want, failing); diff != "" {
				t.Errorf("validation (-want +got):\n%s", diff)
			}
		})
	}
}

func checkWebhook(t *testing.T, name string, timeout *int32, effects *admissionregistrationv1.SideEffectClass, match *admissionregistrationv1.MatchPolicyType) {
	t.Helper()
	if timeout == nil || *timeout > 5 {
		t.Errorf("%s may hold up a request for more than 5 seconds", name)
	}
	if effects == nil || *effects != admissionregistrationv1.SideEffectClassNone && *effects != admissionregistrationv1.SideEffectClassNoneOnDryRun {
		t.Errorf("%s has side effects, so dry runs fail", name)
	}
	if match == nil || *match != admissionregistrationv1.Equivalent {
		t.Errorf("%s can be gone round by another version", name)
	}
}
