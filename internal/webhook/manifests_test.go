// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bufio"
	"bytes"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

// Where the manifests are, and the names in them that the operator is started with.
const (
	manifestsDir         = "../../config/webhook/"
	operatorNamespace    = "trellis-system"
	webhookService       = "trellis-webhook-service"
	certSecret           = "trellis-webhook-server-cert"
	mutatingConfigName   = "trellis-mutating-webhook-configuration"
	validatingConfigName = "trellis-validating-webhook-configuration"
)

// shipped reads config/webhook.
func shipped() (mutating admissionregistrationv1.MutatingWebhookConfiguration, validating admissionregistrationv1.ValidatingWebhookConfiguration, service corev1.Service, secret corev1.Secret, err error) {
	into := map[string]any{
		"MutatingWebhookConfiguration": &mutating, "ValidatingWebhookConfiguration": &validating, "Service": &service, "Secret": &secret,
	}
	for _, file := range []string{"manifests.yaml", "service.yaml", "secret.yaml"} {
		raw, err := os.ReadFile(manifestsDir + file)
		if err != nil {
			return mutating, validating, service, secret, err
		}
		reader := yamlutil.NewYAMLReader(bufio.NewReader(bytes.NewReader(raw)))
		for doc, err := reader.Read(); err == nil; doc, err = reader.Read() {
			var kind struct{ Kind string }
			if err := yaml.Unmarshal(doc, &kind); err != nil {
				return mutating, validating, service, secret, err
			}
			if object := into[kind.Kind]; object != nil {
				if err := yaml.UnmarshalStrict(doc, object); err != nil {
					return mutating, validating, service, secret, err
				}
			}
		}
	}
	return mutating, validating, service, secret, nil
}

// entry is what matters of a webhook, in either kind of configuration.
type entry struct {
	Service    *admissionregistrationv1.ServiceReference
	Rules      []admissionregistrationv1.RuleWithOperations
	Policy     *admissionregistrationv1.FailurePolicyType
	Match      *admissionregistrationv1.MatchPolicyType
	Effects    *admissionregistrationv1.SideEffectClass
	Timeout    *int32
	Selectors  bool
	Conditions []string
}

func namesOfConditions(conditions []admissionregistrationv1.MatchCondition) []string {
	var names []string
	for _, condition := range conditions {
		names = append(names, condition.Name)
	}
	return names
}

// The manifests send to the operator exactly what it serves, and nothing that would bar a deletion or a status. One condition leaves out updates of
// objects that are being deleted, and another one what has nothing to default, and no validation.
func TestManifests(t *testing.T) {
	mutating, validating, service, secret, err := shipped()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]entry{}
	for _, w := range mutating.Webhooks {
		got[*w.ClientConfig.Service.Path] = entry{w.ClientConfig.Service, w.Rules, w.FailurePolicy, w.MatchPolicy, w.SideEffects, w.TimeoutSeconds,
			w.ObjectSelector != nil || w.NamespaceSelector != nil, namesOfConditions(w.MatchConditions)}
	}
	for _, w := range validating.Webhooks {
		got[*w.ClientConfig.Service.Path] = entry{w.ClientConfig.Service, w.Rules, w.FailurePolicy, w.MatchPolicy, w.SideEffects, w.TimeoutSeconds,
			w.ObjectSelector != nil || w.NamespaceSelector != nil, namesOfConditions(w.MatchConditions)}
	}
	want := func(path, group string, resources []string, scope admissionregistrationv1.ScopeType, policy admissionregistrationv1.FailurePolicyType, operations ...admissionregistrationv1.OperationType) entry {
		versions := []string{"v1alpha1"}
		if group == "nvidia.com" {
			versions = append(versions, "v1beta1")
		}
		return entry{
			Service: &admissionregistrationv1.ServiceReference{Namespace: operatorNamespace, Name: webhookService, Path: &path, Port: ptr.To[int32](443)},
			Rules: []admissionregistrationv1.RuleWithOperations{{Operations: operations, Rule: admissionregistrationv1.Rule{
				APIGroups: []string{group}, APIVersions: versions, Resources: resources, Scope: &scope,
			}}},
			Policy: &policy, Match: ptr.To(admissionregistrationv1.Equivalent), Effects: ptr.To(admissionregistrationv1.SideEffectClassNone), Timeout: ptr.To[int32](5),
			Conditions: []string{"not-being-deleted"},
		}
	}
	const create, update, remove = admissionregistrationv1.Create, admissionregistrationv1.Update, admissionregistrationv1.Delete
	wanted := map[string]entry{
		mutateDeploymentPath:   want(mutateDeploymentPath, "nvidia.com", []string{"dynamographdeployments"}, admissionregistrationv1.NamespacedScope, admissionregistrationv1.Fail, create, update),
		validateDeploymentPath: want(validateDeploymentPath, "nvidia.com", []string{"dynamographdeployments"}, admissionregistrationv1.NamespacedScope, admissionregistrationv1.Fail, create, update),
		validateAdapterPath: want(validateAdapterPath, "nvidia.com", []string{"dynamographdeploymentscalingadapters", "dynamographdeploymentscalingadapters/scale"},
			admissionregistrationv1.NamespacedScope, admissionregistrationv1.Ignore, create, update),
		validateTopologyPath: want(validateTopologyPath, "grove.io", []string{"clustertopologies"}, admissionregistrationv1.ClusterScope, admissionregistrationv1.Ignore, create, update, remove),
		validateBindingPath:  want(validateBindingPath, "grove.io", []string{"clustertopologybindings"}, admissionregistrationv1.ClusterScope, admissionregistrationv1.Ignore, create, update, remove),
	}
	eviction := want(validateEvictionPath, "", []string{"pods/eviction"}, admissionregistrationv1.NamespacedScope, admissionregistrationv1.Ignore, create)
	eviction.Rules[0].APIVersions, eviction.Conditions = []string{"v1"}, nil
	eviction.Effects, eviction.Timeout = ptr.To(admissionregistrationv1.SideEffectClassNoneOnDryRun), ptr.To[int32](3)
	wanted[validateEvictionPath] = eviction
	defaulting := wanted[mutateDeploymentPath]
	defaulting.Conditions = append(defaulting.Conditions, "something-to-default")
	wanted[mutateDeploymentPath] = defaulting
	if diff := cmp.Diff(wanted, got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	if served := sets.KeySet(handlers(testScheme(), Options{})); !served.Equal(sets.KeySet(got)) {
		t.Errorf("the code serves %v, the manifests send to %v", sets.List(served), sets.List(sets.KeySet(got)))
	}
	names := []string{mutating.Name, validating.Name, service.Namespace + "/" + service.Name, secret.Namespace + "/" + secret.Name}
	wantNames := []string{mutatingConfigName, validatingConfigName, operatorNamespace + "/" + webhookService, operatorNamespace + "/" + certSecret}
	if diff := cmp.Diff(wantNames, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	if port := service.Spec.Ports[0]; port.Port != 443 || port.TargetPort.String() != "webhook-server" {
		t.Errorf("Service port %v", port)
	}
	if len(secret.Data)+len(secret.StringData) > 0 {
		t.Error("a certificate is shipped")
	}
}
