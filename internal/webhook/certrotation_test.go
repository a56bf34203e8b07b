// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/webhook/convert"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// withoutComponents is a deployment that is refused.
const withoutComponents = `{"apiVersion":"nvidia.com/v1alpha1","kind":"DynamoGraphDeployment","metadata":{"name":"x"},"spec":{"services":{}}}`

var _ = Describe("The certificate of the webhooks", func() {
	It("fills the empty Secret", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		data := newServer(ctx).secret().Data
		want := []string{"ca.crt", "ca.key", "tls.crt", "tls.key"}
		Expect(cmp.Diff(want, slices.Sorted(maps.Keys(data)))).To(BeEmpty(), "keys (-want +got)")
	})

	It("has an authority that every webhook trusts", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		s := newServer(ctx)
		bundles := map[string][]byte{}
		mutating, validating := s.configurations()
		for _, w := range mutating.Webhooks {
			bundles[w.Name] = w.ClientConfig.CABundle
		}
		for _, w := range validating.Webhooks {
			bundles[w.Name] = w.ClientConfig.CABundle
		}
		for _, crd := range s.definitions() {
			bundles[crd.Name] = bundleOf(crd)
		}
		Expect(bundles).To(HaveLen(8))
		for name, bundle := range bundles {
			Expect(bundle).To(Equal(s.authority()), "what %s trusts", name)
		}
	})

	It("is served by a standby, too", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		s := newServer(ctx)
		Expect(s.standby.manager.Elected()).NotTo(BeClosed(), "the standby leads")
		answer := s.ask(s.standby, withoutComponents)
		Expect(answer.Allowed).To(BeFalse())
		Expect(answer.Result.Message).To(ContainSubstring("spec.services must have at least one service"))
	})

	It("is served until there is a new one, which both replicas serve at once", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		s := newServer(ctx)
		before := s.served(s.leader)
		secret := s.secret()
		secret.Data["tls.crt"] = []byte("no certificate")
		Expect(s.admin.Update(ctx, secret)).To(Succeed())
		for _, r := range []*replica{s.leader, s.standby} {
			s.eventually("another certificate is served", func() bool { return !s.served(r).Equal(before) })
			Expect(s.served(r).Raw).To(Equal(s.certificate()), "the certificate in the Secret is not served")
			Expect(s.ask(r, withoutComponents).Allowed).To(BeFalse(), "a deployment without services is allowed")
		}
	})

	It("is made again when the Secret is deleted", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		s := newServer(ctx)
		before := s.secret()
		Expect(s.admin.Delete(ctx, before)).To(Succeed())
		s.eventually("the Secret is made again and filled", func() bool {
			now := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: certSecret}}
			err := s.admin.Get(ctx, client.ObjectKeyFromObject(now), now)
			Expect(client.IgnoreNotFound(err)).To(Succeed())
			return err == nil && now.UID != before.UID && len(now.Data) == 4
		})
		now := s.secret()
		Expect(now.Labels).To(Equal(before.Labels))
		Expect(now.Type).To(Equal(before.Type))
		for _, r := range []*replica{s.leader, s.standby} {
			s.eventually("its certificate is served", func() bool { return bytes.Equal(s.served(r).Raw, s.certificate()) })
			Expect(s.ask(r, withoutComponents).Allowed).To(BeFalse(), "a deployment without services is allowed")
		}
		s.eventually("every webhook trusts it", func() bool {
			mutating, validating := s.configurations()
			bundles := [][]byte{mutating.Webhooks[0].ClientConfig.CABundle, validating.Webhooks[0].ClientConfig.CABundle}
			for _, crd := range s.definitions() {
				bundles = append(bundles, bundleOf(crd))
			}
			return !slices.ContainsFunc(bundles, func(b []byte) bool { return !bytes.Equal(b, s.authority()) })
		})
		s.eventually("the certificate is in sync", func() bool { return isInSync(GinkgoTB()) == 1 })
	})

	It("is made by a replica that starts without the Secret", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		s := newServer(ctx)
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: "another-cert"}}
		for _, name := range []string{"first", "second"} {
			Expect(s.admin.Get(ctx, client.ObjectKeyFromObject(secret), secret)).To(Satisfy(apierrors.IsNotFound), "the Secret is there")
			mgr, err := ctrl.NewManager(s.env.Config, ctrl.Options{Scheme: s.scheme, Metrics: metricsserver.Options{BindAddress: "0"}})
			Expect(err).NotTo(HaveOccurred())
			certificate := &Certificate{}
			ready, err := SetupCertRotation(mgr, CertOptions{
				Namespace: operatorNamespace, SecretName: secret.Name, ServiceName: "another", CertDir: s.dir, Certificate: certificate,
				MutatingWebhookConfig: "none", ValidatingWebhookConfig: "none", controllerName: "cert-rotator-" + name,
			})
			Expect(err).NotTo(HaveOccurred())
			running, stop := context.WithCancel(context.Background())
			DeferCleanup(stop)
			ended := make(chan error, 1)
			go func() { ended <- mgr.Start(running) }()
			Eventually(ctx, ready).Should(BeClosed(), "the %s start is ready", name)
			stop()
			Expect(<-ended).To(Succeed())
			Expect(certificate.current.Load()).NotTo(BeNil(), "the %s start serves nothing", name)
			Expect(client.IgnoreNotFound(s.admin.Delete(ctx, secret))).To(Succeed())
		}
	})

	It("is written nowhere while nothing changes", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		s := newServer(ctx)
		before := s.versions()
		By("a definition loses the authority: the operator looks at everything, and writes that one only")
		s.forget("DynamoGraphDeploymentScalingAdapter")
		after := s.versions()
		delete(before, "DynamoGraphDeploymentScalingAdapter")
		delete(after, "DynamoGraphDeploymentScalingAdapter")
		Expect(after).To(Equal(before), "resourceVersions of Secret, configurations and definitions")
	})
})

// secret is the certificate's Secret.
func (s *server) secret() *corev1.Secret {
	GinkgoHelper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: certSecret}}
	s.get(secret)
	return secret
}

// authority is the certificate authority in the Secret.
func (s *server) authority() []byte {
	GinkgoHelper()
	return s.secret().Data["ca.crt"]
}

// certificate is the certificate in the Secret.
func (s *server) certificate() []byte {
	GinkgoHelper()
	block, _ := pem.Decode(s.secret().Data["tls.crt"])
	Expect(block).NotTo(BeNil(), "the Secret has no certificate")
	return block.Bytes
}

// served is the certificate that a replica shows to its callers.
func (s *server) served(r *replica) *x509.Certificate {
	GinkgoHelper()
	connection, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", r.port), &tls.Config{InsecureSkipVerify: true})
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = connection.Close() }()
	return connection.ConnectionState().PeerCertificates[0]
}

// ask asks a replica whether a deployment is valid, as the API server does: over TLS, trusting the authority, by the Service's name.
func (s *server) ask(r *replica, object string) *admissionv1.AdmissionResponse {
	GinkgoHelper()
	trusted := x509.NewCertPool()
	Expect(trusted.AppendCertsFromPEM(s.authority())).To(BeTrue(), "the authority is no certificate")
	caller := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted, ServerName: webhookService + "." + operatorNamespace + ".svc"}}}
	kind := metav1.GroupVersionKind{Group: nvidiav1alpha1.GroupVersion.Group, Version: nvidiav1alpha1.GroupVersion.Version, Kind: "DynamoGraphDeployment"}
	review, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "1", Kind: kind, RequestKind: &kind, Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: []byte(object)},
		},
	})
	Expect(err).NotTo(HaveOccurred())
	response, err := caller.Post(fmt.Sprintf("https://127.0.0.1:%d%s", r.port, validateDeploymentPath), "application/json", bytes.NewReader(review))
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	var answer admissionv1.AdmissionReview
	Expect(json.NewDecoder(response.Body).Decode(&answer)).To(Succeed())
	return answer.Response
}

func (s *server) configurations() (*admissionregistrationv1.MutatingWebhookConfiguration, *admissionregistrationv1.ValidatingWebhookConfiguration) {
	GinkgoHelper()
	mutating := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: mutatingConfigName}}
	validating := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: validatingConfigName}}
	s.get(mutating)
	s.get(validating)
	return mutating, validating
}

// definitions are those that the operator converts for.
func (s *server) definitions() []*apiextensionsv1.CustomResourceDefinition {
	GinkgoHelper()
	var found []*apiextensionsv1.CustomResourceDefinition
	for _, kind := range slices.Sorted(maps.Keys(convert.Definitions)) {
		found = append(found, s.definition(kind))
	}
	return found
}

func (s *server) definition(kind string) *apiextensionsv1.CustomResourceDefinition {
	GinkgoHelper()
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: convert.Definitions[kind]}}
	s.get(crd)
	return crd
}

// versions are the resourceVersions of all that the certificate is written to, of definitions by kind.
func (s *server) versions() map[string]string {
	GinkgoHelper()
	mutating, validating := s.configurations()
	found := map[string]string{"Secret": s.secret().ResourceVersion, "mutating": mutating.ResourceVersion, "validating": validating.ResourceVersion}
	for kind := range convert.Definitions {
		found[kind] = s.definition(kind).ResourceVersion
	}
	return found
}

// forget takes the authority from a definition, and returns when the operator has brought it back.
func (s *server) forget(kind string) {
	GinkgoHelper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"conversion":{"webhook":{"clientConfig":{"caBundle":null}}}}}`))
	Expect(s.admin.Patch(s.ctx, s.definition(kind), patch)).To(Succeed())
	s.eventually("the authority is back", func() bool { return bytes.Equal(bundleOf(s.definition(kind)), s.authority()) })
}
