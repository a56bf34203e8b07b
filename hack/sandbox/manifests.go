// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// manifests are the operator's manifests, changed only as much as a manager outside the cluster requires.
type manifests struct {
	objects []*unstructured.Unstructured
	// manager is the Deployment of the manager. It is not applied; it provides the arguments, the ServiceAccount and the
	// Secret of the certificate.
	manager *appsv1.Deployment
	// deployment is the same Deployment as rendered.
	deployment *unstructured.Unstructured
}

// render builds the manifests as kubectl apply -k would.
func render(dir string) (*manifests, error) {
	options := krusty.MakeDefaultOptions()
	options.Reorder = krusty.ReorderOptionUnspecified // the order of the kustomization; installOrder sorts in any case
	built, err := krusty.MakeKustomizer(options).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return nil, fmt.Errorf("rendering %s: %w", dir, err)
	}
	m := &manifests{}
	for _, r := range built.Resources() {
		raw, err := r.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("rendering %s: %w", r.CurId(), err)
		}
		u := &unstructured.Unstructured{} // through JSON, so that numbers have the types of unstructured objects
		if err := u.UnmarshalJSON(raw); err != nil {
			return nil, fmt.Errorf("rendering %s: %w", r.CurId(), err)
		}
		if u.GetKind() != "Deployment" {
			m.objects = append(m.objects, u)
			continue
		}
		if m.manager != nil {
			return nil, fmt.Errorf("rendering %s: found Deployments %s and %s, want the manager's only", dir, m.manager.Name, u.GetName())
		}
		m.manager, m.deployment = &appsv1.Deployment{}, u
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, m.manager); err != nil {
			return nil, fmt.Errorf("reading Deployment %s: %w", u.GetName(), err)
		}
	}
	if m.manager == nil || len(m.manager.Spec.Template.Spec.Containers) == 0 {
		return nil, fmt.Errorf("rendering %s: it holds no Deployment of the manager", dir)
	}
	return m, nil
}

// redirect directs webhook calls to a port on this machine: it makes their Service an alias of localhost. The name that the certificate
// is valid for stays, so that the API server verifies TLS exactly as on a cluster.
func (m *manifests) redirect(port int) error {
	services := map[string]bool{}
	for _, o := range m.objects {
		for _, service := range servicesIn(o) {
			services[fmt.Sprintf("%v/%v", service["namespace"], service["name"])] = true
		}
		SetServicePort(o, port)
	}
	for _, o := range m.objects {
		if o.GetKind() == "Service" && services[o.GetNamespace()+"/"+o.GetName()] {
			spec := map[string]any{"type": "ExternalName", "externalName": "localhost"}
			if err := unstructured.SetNestedMap(o.Object, spec, "spec"); err != nil {
				return err
			}
		}
	}
	return nil
}

// SetServicePort sets the port at which the API server calls the Services of webhooks in a webhook configuration or in a custom resource
// definition with conversion. It reports whether the object has any.
func SetServicePort(o *unstructured.Unstructured, port int) bool {
	services := servicesIn(o)
	for _, service := range services {
		service["port"] = int64(port)
	}
	return len(services) > 0
}

// servicesIn are the references of an object to Services of webhooks; changes to them change the object.
func servicesIn(o *unstructured.Unstructured) (services []map[string]any) {
	for _, config := range clientConfigs(o) {
		if service, ok := config["service"].(map[string]any); ok {
			services = append(services, service)
		}
	}
	return services
}

// clientConfigs are the client configurations of webhooks in an object; changes to them change the object.
func clientConfigs(o *unstructured.Unstructured) []map[string]any {
	switch o.GetKind() {
	case "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration":
		var configs []map[string]any
		hooks, _ := o.Object["webhooks"].([]any)
		for _, h := range hooks {
			hook, _ := h.(map[string]any)
			if config, ok := hook["clientConfig"].(map[string]any); ok {
				configs = append(configs, config)
			}
		}
		return configs
	case "CustomResourceDefinition":
		conversion, _, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "conversion", "webhook", "clientConfig")
		if config, ok := conversion.(map[string]any); ok {
			return []map[string]any{config}
		}
	}
	return nil
}

// installOrder puts namespaces and custom resource definitions first, then ServiceAccounts and Secrets, and webhook configurations last.
// Otherwise it keeps the order of the manifests.
func (m *manifests) installOrder() []*unstructured.Unstructured {
	rank := func(o *unstructured.Unstructured) int {
		switch o.GetKind() {
		case "Namespace", "CustomResourceDefinition":
			return 0
		case "ServiceAccount", "Secret":
			return 1
		case "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration":
			return 3
		default:
			return 2
		}
	}
	ordered := slices.Clone(m.objects)
	slices.SortStableFunc(ordered, func(a, b *unstructured.Unstructured) int { return rank(a) - rank(b) })
	return ordered
}

// certSecret is the Secret of the webhook certificate, which the manager mounts.
func (m *manifests) certSecret() string {
	for _, v := range m.manager.Spec.Template.Spec.Volumes {
		if v.Secret != nil {
			return v.Secret.SecretName
		}
	}
	return ""
}
