// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/webhook/convert"
)

// probe asks a replica for its readiness, and returns the code and the text.
func probe(r *replica) (int, string) {
	response, err := http.Get(r.readiness + "?verbose")
	if err != nil {
		return 0, err.Error()
	}
	defer func() { Expect(response.Body.Close()).To(Succeed()) }()
	body, err := io.ReadAll(response.Body)
	Expect(err).NotTo(HaveOccurred())
	return response.StatusCode, string(body)
}

// authority is the certificate authority in the Secret.
func authority() []byte {
	return secretNow().Data["ca.crt"]
}

// secretNow is the certificate's Secret.
func secretNow() *corev1.Secret {
	var secret corev1.Secret
	Expect(admin.Get(ctx, client.ObjectKey{Namespace: operatorNamespace, Name: certSecret}, &secret)).To(Succeed())
	return &secret
}

func certificateIn(secret *corev1.Secret) []byte {
	block, _ := pem.Decode(secret.Data["tls.crt"])
	Expect(block).NotTo(BeNil())
	return block.Bytes
}

// served is the certificate that a replica shows to whoever calls it.
func served(r *replica) *x509.Certificate {
	connection, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", r.port), &tls.Config{InsecureSkipVerify: true})
	Expect(err).NotTo(HaveOccurred())
	defer func() { Expect(connection.Close()).To(Succeed()) }()
	return connection.ConnectionState().PeerCertificates[0]
}

// ask sends an AdmissionReview to a replica the way the API server does: over TLS, trusting the authority, by the Service's name.
func ask(r *replica, path string, object string) *admissionv1.AdmissionResponse {
	trusted := x509.NewCertPool()
	Expect(trusted.AppendCertsFromPEM(authority())).To(BeTrue())
	caller := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted, ServerName: webhookService + "." + operatorNamespace + ".svc"}}}
	review, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request:  &admissionv1.AdmissionRequest{UID: "1", Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: []byte(object)}},
	})
	Expect(err).NotTo(HaveOccurred())
	response, err := caller.Post(fmt.Sprintf("https://127.0.0.1:%d%s", r.port, path), "application/json", bytes.NewReader(review))
	Expect(err).NotTo(HaveOccurred())
	defer func() { Expect(response.Body.Close()).To(Succeed()) }()
	var answer admissionv1.AdmissionReview
	Expect(json.NewDecoder(response.Body).Decode(&answer)).To(Succeed())
	return answer.Response
}

var _ = Describe("the certificate", func() {
	It("fills the Secret that was shipped empty", func() {
		Expect(secretNow().Data).To(And(HaveKey("ca.crt"), HaveKey("ca.key"), HaveKey("tls.crt"), HaveKey("tls.key")))
	})

	It("tells every webhook whom to trust", func() {
		var mutating admissionregistrationv1.MutatingWebhookConfiguration
		var validating admissionregistrationv1.ValidatingWebhookConfiguration
		Expect(admin.Get(ctx, client.ObjectKey{Name: mutatingConfigName}, &mutating)).To(Succeed())
		Expect(admin.Get(ctx, client.ObjectKey{Name: validatingConfigName}, &validating)).To(Succeed())
		var bundles [][]byte
		for _, w := range mutating.Webhooks {
			bundles = append(bundles, w.ClientConfig.CABundle)
		}
		for _, w := range validating.Webhooks {
			bundles = append(bundles, w.ClientConfig.CABundle)
		}
		for _, crd := range convertedDefinitions() {
			bundles = append(bundles, crd.Spec.Conversion.Webhook.ClientConfig.CABundle)
		}
		Expect(bundles).To(HaveLen(6))
		Expect(bundles).To(HaveEach(Equal(authority())))
	})

	It("lets a standby serve although it does not lead", func() {
		Expect(standby.manager.Elected()).NotTo(BeClosed())
		answer := ask(standby, validateDeploymentPath, `{"apiVersion":"nvidia.com/v1alpha1","kind":"DynamoGraphDeployment","metadata":{"name":"x"},"spec":{"services":{}}}`)
		Expect(answer.Allowed).To(BeFalse())
		Expect(answer.Result.Message).To(ContainSubstring("spec.services must have at least one service"))
	})

	It("serves a new certificate as soon as there is one, and goes on with the old one until then", func() {
		before := served(leader)
		secret := secretNow()
		secret.Data["tls.crt"] = []byte("no certificate")
		Expect(admin.Update(ctx, secret)).To(Succeed())
		for _, r := range []*replica{leader, standby} {
			Eventually(func() *x509.Certificate { return served(r) }).ShouldNot(Equal(before))
			Expect(served(r).Raw).To(Equal(certificateIn(secretNow())))
			Expect(ask(r, validateDeploymentPath, `{"apiVersion":"nvidia.com/v1alpha1","kind":"DynamoGraphDeployment","metadata":{"name":"x"},"spec":{"services":{}}}`).Allowed).To(BeFalse())
		}
	})

	It("leaves the Secret and the configurations alone when nothing changes", func() {
		before := versions()
		Consistently(versions, "2s").Should(Equal(before))
	})
})

// convertedDefinitions are the definitions that the operator converts for.
func convertedDefinitions() []*apiextensionsv1.CustomResourceDefinition {
	var found []*apiextensionsv1.CustomResourceDefinition
	for _, name := range slices.Sorted(maps.Values(convert.Definitions)) {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		Expect(admin.Get(ctx, client.ObjectKey{Name: name}, crd)).To(Succeed())
		found = append(found, crd)
	}
	return found
}

func versions() []string {
	var found []string
	for _, crd := range convertedDefinitions() {
		found = append(found, crd.ResourceVersion)
	}
	for _, object := range []client.Object{&corev1.Secret{}, &admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{}} {
		key := client.ObjectKey{Name: mutatingConfigName}
		switch object.(type) {
		case *corev1.Secret:
			key = client.ObjectKey{Namespace: operatorNamespace, Name: certSecret}
		case *admissionregistrationv1.ValidatingWebhookConfiguration:
			key.Name = validatingConfigName
		}
		Expect(admin.Get(ctx, key, object)).To(Succeed())
		found = append(found, object.GetResourceVersion())
	}
	return found
}
