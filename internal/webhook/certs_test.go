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
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/trellis-k8s/trellis/internal/webhook/convert"
)

// withoutServices is a deployment that is refused.
const withoutServices = `{"apiVersion":"nvidia.com/v1alpha1","kind":"DynamoGraphDeployment","metadata":{"name":"x"},"spec":{"services":{}}}`

func TestTheEmptySecretIsFilled(t *testing.T) {
	data := newServer(t).secret().Data
	want := []string{"ca.crt", "ca.key", "tls.crt", "tls.key"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(data))); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
}

func TestEveryWebhookTrustsTheAuthority(t *testing.T) {
	s := newServer(t)
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
	if len(bundles) != 6 {
		t.Errorf("%d webhooks, want 6: %q", len(bundles), slices.Sorted(maps.Keys(bundles)))
	}
	for name, bundle := range bundles {
		if !bytes.Equal(bundle, s.authority()) {
			t.Errorf("%s does not trust the authority", name)
		}
	}
}

func TestAStandbyServes(t *testing.T) {
	s := newServer(t)
	select {
	case <-s.standby.manager.Elected():
		t.Error("the standby leads")
	default:
	}
	answer := s.ask(s.standby, withoutServices)
	if answer.Allowed || !strings.Contains(answer.Result.Message, "spec.services must have at least one service") {
		t.Errorf("allowed = %v: %v", answer.Allowed, answer.Result)
	}
}

// The old certificate is served until there is a new one.
func TestANewCertificateIsServedAtOnce(t *testing.T) {
	s := newServer(t)
	before := s.served(s.leader)
	secret := s.secret()
	secret.Data["tls.crt"] = []byte("no certificate")
	s.must(s.admin.Update(t.Context(), secret))
	for _, r := range []*replica{s.leader, s.standby} {
		s.eventually("another certificate is served", func() bool { return !s.served(r).Equal(before) })
		if !bytes.Equal(s.served(r).Raw, s.certificate()) {
			t.Error("the certificate in the Secret is not served")
		}
		if s.ask(r, withoutServices).Allowed {
			t.Error("a deployment without services is allowed")
		}
	}
}

// The Secret is deleted while two replicas run: it is made again with another certificate, which both serve and every webhook trusts.
func TestADeletedSecretIsMadeAgain(t *testing.T) {
	s := newServer(t)
	before := s.secret()
	s.must(s.admin.Delete(t.Context(), before))
	s.eventually("the Secret is made again and filled", func() bool {
		now := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: certSecret}}
		err := s.admin.Get(t.Context(), client.ObjectKeyFromObject(now), now)
		s.must(client.IgnoreNotFound(err))
		return err == nil && now.UID != before.UID && len(now.Data) == 4
	})
	now := s.secret()
	if diff := cmp.Diff(before.Labels, now.Labels); diff != "" || now.Type != before.Type {
		t.Errorf("type %s, labels (-want +got):\n%s", now.Type, diff)
	}
	for _, r := range []*replica{s.leader, s.standby} {
		s.eventually("its certificate is served", func() bool { return bytes.Equal(s.served(r).Raw, s.certificate()) })
		if s.ask(r, withoutServices).Allowed {
			t.Error("a deployment without services is allowed")
		}
	}
	s.eventually("every webhook trusts it", func() bool {
		mutating, validating := s.configurations()
		bundles := [][]byte{mutating.Webhooks[0].ClientConfig.CABundle, validating.Webhooks[0].ClientConfig.CABundle}
		for _, crd := range s.definitions() {
			bundles = append(bundles, bundleOf(crd))
		}
		return !slices.ContainsFunc(bundles, func(b []byte) bool { return !bytes.Equal(b, s.authority()) })
	})
	s.eventually("the certificate is in sync", func() bool { return isInSync(t) == 1 })
}

// A replica starts without the Secret, at first and after it was deleted while none ran.
func TestStartsWithoutTheSecret(t *testing.T) {
	s := newServer(t)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: "another-cert"}}
	for _, name := range []string{"first", "second"} {
		if err := s.admin.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); !apierrors.IsNotFound(err) {
			t.Fatalf("the Secret is there: %v", err)
		}
		mgr, err := ctrl.NewManager(s.env.Config, ctrl.Options{Scheme: s.scheme, Metrics: metricsserver.Options{BindAddress: "0"}})
		s.must(err)
		certificate := &Certificate{}
		ready, err := SetupCertRotation(mgr, CertOptions{
			Namespace: operatorNamespace, SecretName: secret.Name, ServiceName: "another", CertDir: s.dir, Certificate: certificate,
			MutatingWebhookConfig: "none", ValidatingWebhookConfig: "none", controllerName: "cert-rotator-" + name,
		})
		s.must(err)
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- mgr.Start(ctx) }()
		select {
		case <-ready:
		case err := <-ended:
			t.Errorf("the %s start ended: %v", name, err)
			ended <- nil
		case <-time.After(patience):
			t.Errorf("the %s start is never ready", name)
		}
		stop()
		s.must(<-ended)
		if certificate.current.Load() == nil {
			t.Errorf("the %s start serves nothing", name)
		}
		s.must(client.IgnoreNotFound(s.admin.Delete(t.Context(), secret)))
	}
}

// isInSync reads the metric.
func isInSync(t *testing.T) float64 {
	t.Helper()
	var out dto.Metric
	if err := inSync.WithLabelValues().Write(&out); err != nil {
		t.Fatal(err)
	}
	return out.GetGauge().GetValue()
}

// plain reads without options.
type plain struct{ client.Client }

func (p plain) Get(ctx context.Context, key client.ObjectKey, object client.Object) error {
	return p.Client.Get(ctx, key, object)
}

// What refuses the Secret is an error that comes again, and shows in the metric.
func TestRefusedSecretIsNotInSync(t *testing.T) {
	c := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			return errors.New("exceeded quota: secrets")
		},
	})
	f := &follower{opts: CertOptions{Namespace: operatorNamespace, SecretName: certSecret, Certificate: &Certificate{}}, reader: plain{c}, writer: c}
	inSync.WithLabelValues().Set(1)
	if err := f.look(t.Context()); err == nil || !strings.Contains(err.Error(), "creating Secret trellis-system/trellis-webhook-server-cert: exceeded quota") {
		t.Errorf("got %v", err)
	}
	if got := isInSync(t); got != 0 {
		t.Errorf("in sync: %v", got)
	}
}

func TestSecretAndConfigurationsStayWhileNothingChanges(t *testing.T) {
	s := newServer(t)
	before := s.versions()
	s.stays("resourceVersions of Secret, configurations and definitions", 2*time.Second, func() bool { return slices.Equal(before, s.versions()) })
}

// secret is the certificate's Secret.
func (s *server) secret() *corev1.Secret {
	s.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: certSecret}}
	s.get(secret)
	return secret
}

// authority is the certificate authority in the Secret.
func (s *server) authority() []byte {
	s.t.Helper()
	return s.secret().Data["ca.crt"]
}

// certificate is the certificate in the Secret.
func (s *server) certificate() []byte {
	s.t.Helper()
	block, _ := pem.Decode(s.secret().Data["tls.crt"])
	if block == nil {
		s.t.Fatal("the Secret has no certificate")
	}
	return block.Bytes
}

// served is the certificate that a replica shows to its callers.
func (s *server) served(r *replica) *x509.Certificate {
	s.t.Helper()
	connection, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", r.port), &tls.Config{InsecureSkipVerify: true})
	s.must(err)
	defer func() { s.must(connection.Close()) }()
	return connection.ConnectionState().PeerCertificates[0]
}

// ask asks a replica whether a deployment is valid, as the API server does: over TLS, trusting the authority, by the Service's name.
func (s *server) ask(r *replica, object string) *admissionv1.AdmissionResponse {
	s.t.Helper()
	trusted := x509.NewCertPool()
	if !trusted.AppendCertsFromPEM(s.authority()) {
		s.t.Fatal("the authority is no certificate")
	}
	caller := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted, ServerName: webhookService + "." + operatorNamespace + ".svc"}}}
	review, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request:  &admissionv1.AdmissionRequest{UID: "1", Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: []byte(object)}},
	})
	s.must(err)
	response, err := caller.Post(fmt.Sprintf("https://127.0.0.1:%d%s", r.port, validateDeploymentPath), "application/json", bytes.NewReader(review))
	s.must(err)
	defer func() { s.must(response.Body.Close()) }()
	var answer admissionv1.AdmissionReview
	s.must(json.NewDecoder(response.Body).Decode(&answer))
	return answer.Response
}

func (s *server) configurations() (*admissionregistrationv1.MutatingWebhookConfiguration, *admissionregistrationv1.ValidatingWebhookConfiguration) {
	s.t.Helper()
	mutating := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: mutatingConfigName}}
	validating := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: validatingConfigName}}
	s.get(mutating)
	s.get(validating)
	return mutating, validating
}

// definitions are those that the operator converts for.
func (s *server) definitions() []*apiextensionsv1.CustomResourceDefinition {
	s.t.Helper()
	var found []*apiextensionsv1.CustomResourceDefinition
	for _, kind := range slices.Sorted(maps.Keys(convert.Definitions)) {
		found = append(found, s.definition(kind))
	}
	return found
}

func (s *server) definition(kind string) *apiextensionsv1.CustomResourceDefinition {
	s.t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: convert.Definitions[kind]}}
	s.get(crd)
	return crd
}

// versions are the resourceVersions of all that the certificate is written to.
func (s *server) versions() []string {
	s.t.Helper()
	mutating, validating := s.configurations()
	objects := []client.Object{s.secret(), mutating, validating}
	for _, crd := range s.definitions() {
		objects = append(objects, crd)
	}
	var found []string
	for _, object := range objects {
		found = append(found, object.GetResourceVersion())
	}
	return found
}
