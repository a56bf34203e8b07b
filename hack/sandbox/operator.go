// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/trellis-k8s/trellis/hack/sandbox/proc"
)

const (
	fieldManager = "trellis-sandbox"
	// secretMount is the program that keeps the Secret of the certificate in a directory for the manager, as a kubelet would.
	secretMount = "secret-mount"
	certMount   = managerDir + "/certs"

	managerKubeconfig = managerDir + "/kubeconfig"
	// tokenLife is the lifetime of a ServiceAccount token, which nobody renews.
	tokenLife = 365 * 24 * time.Hour
)

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// installOperator applies the operator's manifests without the Deployment, and starts the manager instead.
func (s *Sandbox) installOperator(ctx context.Context, opts Options) error {
	opts.Progress.Say("installing the operator from %s", opts.Manifests)
	m, err := render(opts.Manifests)
	if err != nil {
		return err
	}
	s.state.Manager = newManagerSpec(ctx, opts, m.manager)
	if err := s.takePort(webhookPort(DefaultManager)); err != nil {
		return err
	}
	if err := m.redirect(s.port(webhookPort(DefaultManager))); err != nil {
		return err
	}
	config, err := s.RESTConfig()
	if err != nil {
		return err
	}
	if err := apply(ctx, config, m.installOrder()); err != nil {
		return err
	}
	if err := s.writeManagerKubeconfig(ctx, m); err != nil {
		return err
	}
	if err := s.save(); err != nil {
		return err
	}
	if secret := m.certSecret(); secret != "" {
		if err := s.startSecretMount(m.manager.Namespace, secret); err != nil {
			return err
		}
	}
	opts.Progress.Say("starting the operator")
	if err := s.StartManager(ctx, ManagerOptions{}); err != nil {
		return err
	}
	return waitForWebhooks(ctx, config, m)
}

// writeManagerKubeconfig writes a kubeconfig with only the rights of the manager's ServiceAccount.
func (s *Sandbox) writeManagerKubeconfig(ctx context.Context, m *manifests) error {
	return s.writeAccountKubeconfig(ctx, managerKubeconfig, m.manager.Namespace, m.manager.Spec.Template.Spec.ServiceAccountName)
}

// writeAccountKubeconfig writes a kubeconfig for a ServiceAccount. file is relative to the directory of the sandbox.
func (s *Sandbox) writeAccountKubeconfig(ctx context.Context, file, namespace, account string) error {
	client, err := s.client()
	if err != nil {
		return err
	}
	life := int64(tokenLife / time.Second)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &life}}
	token, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account, request, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("getting a token for ServiceAccount %s/%s: %w", namespace, account, err)
	}
	return s.writeKubeconfig(file, &clientcmdapi.AuthInfo{Token: token.Status.Token})
}

func (s *Sandbox) startSecretMount(namespace, secret string) error {
	_, err := proc.Start(proc.Spec{
		Name: secretMount, Path: s.state.Assets + "/" + secretMount,
		Args: []string{"--kubeconfig=" + kubeconfigFile, "--namespace=" + namespace, "--name=" + secret, "--dir=" + certMount},
		Env:  s.environment(), Dir: s.dir, LogFile: s.LogFile(secretMount), PIDFile: s.pidFile(secretMount),
	})
	return err
}

// apply applies objects in order with force, and then waits until their custom resource definitions are Established.
func apply(ctx context.Context, config *rest.Config, objects []*unstructured.Unstructured) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	disco, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(disco))
	for _, o := range objects {
		mapping, err := mapper.RESTMapping(o.GroupVersionKind().GroupKind(), o.GroupVersionKind().Version)
		if err != nil {
			return fmt.Errorf("finding the API of %s %s: %w", o.GetKind(), o.GetName(), err)
		}
		resource := dynamic.ResourceInterface(client.Resource(mapping.Resource))
		if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
			resource = client.Resource(mapping.Resource).Namespace(o.GetNamespace())
		}
		if _, err := resource.Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: fieldManager, Force: true}); err != nil {
			return fmt.Errorf("applying %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return waitForCRDs(ctx, client, objects)
}

func waitForCRDs(ctx context.Context, client dynamic.Interface, objects []*unstructured.Unstructured) error {
	crds := client.Resource(definitions)
	for _, o := range objects {
		if o.GetKind() != "CustomResourceDefinition" {
			continue
		}
		err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, startTimeout, true, func(ctx context.Context) (bool, error) {
			crd, err := crds.Get(ctx, o.GetName(), metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			return hasCondition(crd, "Established"), nil
		})
		if err != nil {
			return fmt.Errorf("waiting for CustomResourceDefinition %s: %w", o.GetName(), err)
		}
	}
	return nil
}

func hasCondition(o *unstructured.Unstructured, conditionType string) bool {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range conditions {
		if condition, ok := c.(map[string]any); ok && condition["type"] == conditionType && condition["status"] == "True" {
			return true
		}
	}
	return false
}

// waitForWebhooks waits until the manager has written its certificate authority into every webhook that the API server calls through a
// Service, since the API server cannot trust the webhook before.
func waitForWebhooks(ctx context.Context, config *rest.Config, m *manifests) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	admission := schema.GroupVersion{Group: "admissionregistration.k8s.io", Version: "v1"}
	resources := map[string]schema.GroupVersionResource{
		"ValidatingWebhookConfiguration": admission.WithResource("validatingwebhookconfigurations"),
		"MutatingWebhookConfiguration":   admission.WithResource("mutatingwebhookconfigurations"),
		"CustomResourceDefinition":       definitions,
	}
	for _, o := range m.objects {
		resource, ok := resources[o.GetKind()]
		if !ok {
			continue
		}
		hooks := client.Resource(resource)
		err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, startTimeout, true, func(ctx context.Context) (bool, error) {
			live, err := hooks.Get(ctx, o.GetName(), metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			return trusted(live) == nil, nil
		})
		if err != nil {
			return fmt.Errorf("waiting for the certificate authority in %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return waitForConversion(ctx, client, m)
}

// leastSpec is the smallest spec by kind with which a dry run passes the schema and reaches the webhooks.
var leastSpec = map[string]map[string]any{
	"DynamoGraphDeployment":               {"services": map[string]any{"Probe": map[string]any{}}},
	"DynamoGraphDeploymentScalingAdapter": {"replicas": int64(0), "dgdRef": map[string]any{"name": "probe", "serviceName": "Probe"}},
}

// waitForConversion waits until the API server calls admission and conversion webhooks successfully. The API server notices a new
// certificate authority with a delay, on a busy machine of seconds.
func waitForConversion(ctx context.Context, client dynamic.Interface, m *manifests) error {
	for _, o := range m.objects {
		kind, _, _ := unstructured.NestedString(o.Object, "spec", "names", "kind")
		spec, known := leastSpec[kind]
		if o.GetKind() != "CustomResourceDefinition" || !known || len(clientConfigs(o)) == 0 {
			continue
		}
		group, _, _ := unstructured.NestedString(o.Object, "spec", "group")
		plural, _, _ := unstructured.NestedString(o.Object, "spec", "names", "plural")
		resource := schema.GroupVersionResource{Group: group, Version: "v1alpha1", Resource: plural}
		probe := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": resource.GroupVersion().String(), "kind": kind, "metadata": map[string]any{"name": "probe"}, "spec": spec,
		}}
		var last error
		err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, startTimeout, true, func(ctx context.Context) (bool, error) {
			options := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
			_, last = client.Resource(resource).Namespace(metav1.NamespaceDefault).Create(ctx, probe, options)
			return answered(last), nil
		})
		if err != nil {
			return fmt.Errorf("waiting for the conversion of %s: %w", o.GetName(), cmp.Or(last, err))
		}
	}
	return nil
}

// answered reports whether a request was accepted or rejected for its content, and did not fail because a webhook could not be called.
func answered(err error) bool {
	status := apierrors.APIStatus(nil)
	return err == nil || errors.As(err, &status) && status.Status().Code < http.StatusInternalServerError
}

func trusted(o *unstructured.Unstructured) error {
	for _, c := range clientConfigs(o) {
		if bundle, _ := c["caBundle"].(string); bundle == "" {
			return errors.New("no caBundle yet")
		}
	}
	return nil
}
