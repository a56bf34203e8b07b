// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"encoding/json"
	"net/http"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/trellis-k8s/trellis/internal/provider/grove"
	"github.com/trellis-k8s/trellis/internal/provider/kai"
	"github.com/trellis-k8s/trellis/internal/provider/lws"
	"github.com/trellis-k8s/trellis/test/testutil/providertest"
)

// webhooks are those of the peers: what one does to its kind, and why it refuses an object (before is nil when it is new).
var webhooks = map[string]struct {
	kind     schema.GroupVersionKind
	resource string
	defaults func(*unstructured.Unstructured) error
	refuses  func(now, before *unstructured.Unstructured) error
}{
	"grove": {grove.PodCliqueSetKind, "podcliquesets", providertest.GroveDefaults, func(now, before *unstructured.Unstructured) error {
		if before == nil {
			return nil
		}
		return providertest.GroveRefuses(now, before)
	}},
	"kai": {kai.PodGroupKind, "podgroups", nil, func(now, _ *unstructured.Unstructured) error { return providertest.KAIRefuses(now) }},
	"lws": {lws.Kind, "leaderworkersets", providertest.LWSDefaults, func(now, _ *unstructured.Unstructured) error { return providertest.LWSRefuses(now) }},
}

// registered are the webhooks as the peers register them with the API server.
func registered() envtest.WebhookInstallOptions {
	none, fail := admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.Fail
	var out envtest.WebhookInstallOptions
	for name, hook := range webhooks {
		rules := []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{hook.kind.Group}, APIVersions: []string{hook.kind.Version}, Resources: []string{hook.resource}},
		}}
		at := func(path string) admissionregistrationv1.WebhookClientConfig {
			return admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: namespace, Name: name, Path: &path}}
		}
		if hook.defaults != nil {
			out.MutatingWebhooks = append(out.MutatingWebhooks, &admissionregistrationv1.MutatingWebhookConfiguration{
				ObjectMeta: metav1.ObjectMeta{Name: name + "-defaulting"},
				Webhooks: []admissionregistrationv1.MutatingWebhook{{
					Name: name + ".defaulting.example.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: &none, FailurePolicy: &fail,
					ClientConfig: at("/default-" + name), Rules: rules,
				}},
			})
		}
		out.ValidatingWebhooks = append(out.ValidatingWebhooks, &admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: name + "-validating"},
			Webhooks: []admissionregistrationv1.ValidatingWebhook{{
				Name: name + ".validating.example.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: &none, FailurePolicy: &fail,
				ClientConfig: at("/validate-" + name), Rules: rules,
			}},
		})
	}
	return out
}

// serveWebhooks answers them until the context ends.
func serveWebhooks(ctx context.Context, at envtest.WebhookInstallOptions) {
	server := webhook.NewServer(webhook.Options{Host: at.LocalServingHost, Port: at.LocalServingPort, CertDir: at.LocalServingCertDir})
	for name, hook := range webhooks {
		server.Register("/default-"+name, &admission.Webhook{Handler: admission.HandlerFunc(func(_ context.Context, r admission.Request) admission.Response {
			object, err := objectIn(r.Object)
			if err == nil {
				err = hook.defaults(object)
			}
			if err != nil {
				return admission.Errored(http.StatusBadRequest, err)
			}
			raw, err := json.Marshal(object)
			if err != nil {
				return admission.Errored(http.StatusInternalServerError, err)
			}
			return admission.PatchResponseFromRaw(r.Object.Raw, raw)
		})})
		server.Register("/validate-"+name, &admission.Webhook{Handler: admission.HandlerFunc(func(_ context.Context, r admission.Request) admission.Response {
			now, err := objectIn(r.Object)
			if err != nil {
				return admission.Errored(http.StatusBadRequest, err)
			}
			before, err := objectIn(r.OldObject)
			if err != nil {
				return admission.Errored(http.StatusBadRequest, err)
			}
			if err := hook.refuses(now, before); err != nil {
				return admission.Denied(err.Error())
			}
			return admission.Allowed("")
		})})
	}
	go func() { _ = server.Start(ctx) }()
}

// objectIn a request, or nil.
func objectIn(raw runtime.RawExtension) (*unstructured.Unstructured, error) {
	if len(raw.Raw) == 0 {
		return nil, nil
	}
	object := &unstructured.Unstructured{}
	return object, object.UnmarshalJSON(raw.Raw)
}
