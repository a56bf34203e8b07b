// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"encoding/json"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/trellis-k8s/trellis/internal/engine/grove"
	"github.com/trellis-k8s/trellis/internal/engine/peer/peertest"
)

const (
	defaultingPath = "/default-podcliqueset"
	validatingPath = "/validate-podcliqueset"
)

// groveWebhooks are registered with the API server as Grove registers its own.
func groveWebhooks() envtest.WebhookInstallOptions {
	none, fail := admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.Fail
	rules := []admissionregistrationv1.RuleWithOperations{{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
		Rule: admissionregistrationv1.Rule{
			APIGroups: []string{grove.PodCliqueSetKind.Group}, APIVersions: []string{grove.PodCliqueSetKind.Version}, Resources: []string{"podcliquesets"},
		},
	}}
	at := func(path string) admissionregistrationv1.WebhookClientConfig {
		return admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: namespace, Name: "grove", Path: &path}}
	}
	return envtest.WebhookInstallOptions{
		MutatingWebhooks: []*admissionregistrationv1.MutatingWebhookConfiguration{{
			ObjectMeta: metav1.ObjectMeta{Name: "podcliqueset-defaulting-webhook"},
			Webhooks: []admissionregistrationv1.MutatingWebhook{{
				Name: "pcs.defaulting.webhooks.grove.io", AdmissionReviewVersions: []string{"v1"}, SideEffects: &none, FailurePolicy: &fail,
				ClientConfig: at(defaultingPath), Rules: rules,
			}},
		}},
		ValidatingWebhooks: []*admissionregistrationv1.ValidatingWebhookConfiguration{{
			ObjectMeta: metav1.ObjectMeta{Name: "podcliqueset-validating-webhook"},
			Webhooks: []admissionregistrationv1.ValidatingWebhook{{
				Name: "pcs.validating.webhooks.grove.io", AdmissionReviewVersions: []string{"v1"}, SideEffects: &none, FailurePolicy: &fail,
				ClientConfig: at(validatingPath), Rules: rules,
			}},
		}},
	}
}

// serveGroveWebhooks answers them until the context ends.
func serveGroveWebhooks(ctx context.Context, at envtest.WebhookInstallOptions) {
	server := webhook.NewServer(webhook.Options{Host: at.LocalServingHost, Port: at.LocalServingPort, CertDir: at.LocalServingCertDir})
	server.Register(defaultingPath, &admission.Webhook{Handler: admission.HandlerFunc(func(_ context.Context, r admission.Request) admission.Response {
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(r.Object.Raw); err != nil {
			return admission.Errored(http.StatusBadRequest, err)
		}
		if err := peertest.GroveDefaults(object); err != nil {
			return admission.Errored(http.StatusBadRequest, err)
		}
		raw, err := json.Marshal(object)
		if err != nil {
			return admission.Errored(http.StatusInternalServerError, err)
		}
		return admission.PatchResponseFromRaw(r.Object.Raw, raw)
	})})
	server.Register(validatingPath, &admission.Webhook{Handler: admission.HandlerFunc(func(_ context.Context, r admission.Request) admission.Response {
		if r.Operation != admissionv1.Update {
			return admission.Allowed("")
		}
		now, before := &unstructured.Unstructured{}, &unstructured.Unstructured{}
		if err := now.UnmarshalJSON(r.Object.Raw); err != nil {
			return admission.Errored(http.StatusBadRequest, err)
		}
		if err := before.UnmarshalJSON(r.OldObject.Raw); err != nil {
			return admission.Errored(http.StatusBadRequest, err)
		}
		if err := peertest.GroveRefuses(now, before); err != nil {
			return admission.Denied(err.Error())
		}
		return admission.Allowed("")
	})})
	go func() { _ = server.Start(ctx) }()
}
