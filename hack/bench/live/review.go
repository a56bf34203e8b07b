// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/internal/webhook/convert"
)

const deploymentResource = "dynamographdeployments"

// Review is a sequence of calls to the operator's webhooks.
type Review []call

// call is a call to one webhook.
type call struct {
	address string
	body    []byte
	// answered checks the response.
	answered func(body []byte) error
	client   *http.Client
}

// ask implements Question.
func (r Review) ask(ctx context.Context) error {
	for _, one := range r {
		if err := one.send(ctx); err != nil {
			return fmt.Errorf("%s: %w", one.address, err)
		}
	}
	return nil
}

func (c call) send(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.address, bytes.NewReader(c.body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", response.Status, body)
	}
	return c.answered(body)
}

// Reviews returns direct calls to the operator's webhooks, with the CA certificate that the API server uses: the API server's calls for the
// admission of the deployment of r, in both versions, and for its conversion to the version that is not stored.
func (c *Cluster) Reviews(ctx context.Context, r *Requests) (admission []Question, conversion Question, err error) {
	hooks, err := c.webhooks(ctx)
	if err != nil {
		return nil, nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(hooks[0].CABundle) {
		return nil, nil, errors.New("the webhook has no authority")
	}
	caller := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: hooks[0].Service.Name + "." + hooks[0].Service.Namespace + ".svc",
			MinVersion: tls.VersionTLS13},
		MaxIdleConnsPerHost: 100, ForceAttemptHTTP2: true,
	}}
	to := func(path string, body []byte, answered func([]byte) error) call {
		return call{"https://" + c.box.ManagerWebhooks(sandbox.DefaultManager) + path, body, answered, caller}
	}
	for _, one := range []Request{r.CreateAlpha, r.CreateBeta} {
		body, err := admissionReview(one)
		if err != nil {
			return nil, nil, err
		}
		review := Review{}
		for _, hook := range hooks {
			review = append(review, to(*hook.Service.Path, body, allowed))
		}
		admission = append(admission, review)
	}
	body, err := conversionReview(r.CreateBeta)
	return admission, Review{to(convert.Path, body, converted)}, err
}

// webhooks returns the webhooks that the API server calls for the creates of [Requests]: the validating one. The mutating one has a match
// condition, which is false for creates that set all replicas, like these. Without a condition it would be called, too.
func (c *Cluster) webhooks(ctx context.Context) (hooks []admissionregistrationv1.WebhookClientConfig, err error) {
	mutating, validating := &admissionregistrationv1.MutatingWebhookConfigurationList{},
		&admissionregistrationv1.ValidatingWebhookConfigurationList{}
	if err := errors.Join(c.c.List(ctx, mutating), c.c.List(ctx, validating)); err != nil {
		return nil, err
	}
	for _, configuration := range mutating.Items {
		for _, hook := range configuration.Webhooks {
			if ofDeployments(hook.Rules) && len(hook.MatchConditions) == 0 {
				hooks = append(hooks, hook.ClientConfig)
			}
		}
	}
	for _, configuration := range validating.Items {
		for _, hook := range configuration.Webhooks {
			if ofDeployments(hook.Rules) {
				hooks = append(hooks, hook.ClientConfig)
			}
		}
	}
	if len(hooks) == 0 {
		return nil, errors.New("no webhook is asked about the creation of a deployment")
	}
	return hooks, nil
}

func ofDeployments(rules []admissionregistrationv1.RuleWithOperations) bool {
	return len(rules) == 1 && slices.Equal(rules[0].Resources, []string{deploymentResource})
}

// admissionReview returns the API server's review of a create.
func admissionReview(create Request) ([]byte, error) {
	version, err := schema.ParseGroupVersion(create.apiVersion)
	if err != nil {
		return nil, err
	}
	kind, resource := metav1.GroupVersionKind(version.WithKind("DynamoGraphDeployment")),
		metav1.GroupVersionResource(version.WithResource(deploymentResource))
	return json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "asked", Kind: kind, Resource: resource, RequestKind: &kind, RequestResource: &resource, Name: create.name, Namespace: namespace,
			Operation: admissionv1.Create, DryRun: ptr.To(true), Object: runtime.RawExtension{Raw: create.body},
		},
	})
}

// conversionReview requests the conversion of an object to v1alpha1.
func conversionReview(stored Request) ([]byte, error) {
	return json.Marshal(apiextensionsv1.ConversionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: apiextensionsv1.SchemeGroupVersion.String(), Kind: "ConversionReview"},
		Request:  &apiextensionsv1.ConversionRequest{UID: "asked", DesiredAPIVersion: alpha, Objects: []runtime.RawExtension{{Raw: stored.body}}},
	})
}

func allowed(body []byte) error {
	review := admissionv1.AdmissionReview{}
	if err := json.Unmarshal(body, &review); err != nil {
		return err
	}
	if review.Response == nil || !review.Response.Allowed {
		return fmt.Errorf("not allowed: %s", body)
	}
	return nil
}

func converted(body []byte) error {
	review := apiextensionsv1.ConversionReview{}
	if err := json.Unmarshal(body, &review); err != nil {
		return err
	}
	if review.Response == nil || len(review.Response.ConvertedObjects) != 1 {
		return fmt.Errorf("not converted: %s", body)
	}
	got := metav1.PartialObjectMetadata{}
	if err := json.Unmarshal(review.Response.ConvertedObjects[0].Raw, &got); err != nil || got.APIVersion != alpha {
		return fmt.Errorf("converted to %q: %w", got.APIVersion, err)
	}
	return nil
}
