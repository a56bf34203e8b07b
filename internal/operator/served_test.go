// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/trellis-k8s/trellis/internal/validation"
	"github.com/trellis-k8s/trellis/test/testutil/apiserver"
)

const (
	ownNamespace   = "trellis-system"
	webhookService = "trellis-webhook-service"
	// webhookTimeout in seconds, shorter than in production.
	webhookTimeout = 3
	// stuckAfter is when the operator ends a connection on which nothing gets on.
	stuckAfter = time.Second
)

// served is bare with the webhooks and the conversion of config/, which the API server calls through a proxy each.
type served struct {
	*bare
	c                     client.WithWatch
	admission, conversion *proxy
	// direct is the operator's own address.
	direct string
}

func newServed(t *testing.T) *served {
	t.Helper()
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Fatal("KUBEBUILDER_ASSETS is not set: run make test, or set it to what bin/kubectl-trellis sandbox binaries prints")
	}
	log.SetLogger(logr.Discard())
	env := &envtest.Environment{}
	config, err := apiserver.Launch(env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = env.Stop() })
	config.QPS = -1
	c, err := client.NewWithWatch(config, client.Options{Scheme: NewScheme()})
	if err != nil {
		t.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := free.Addr().(*net.TCPAddr).Port
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	s := &served{bare: &bare{t: t, config: config, c: c, newClient: client.New}, c: c, direct: fmt.Sprintf("127.0.0.1:%d", port)}
	s.admission, s.conversion = newProxy(t, s.direct), newProxy(t, s.direct)
	s.install()
	s.change = func(o *Options) {
		o.Namespace, o.Webhooks, o.Conversion, o.WebhookService = ownNamespace, true, true, webhookService
		o.WebhookPort, o.WebhookCertDir, o.MaxPodsPerGraph, o.answerWithin = port, t.TempDir(), validation.DefaultMaxPods, stuckAfter
	}
	s.start()
	t.Cleanup(func() {
		s.admission.mend()
		s.conversion.mend()
		s.stop()
	})
	return s
}

// install applies the shipped manifests. Unlike on a cluster, calls lead over the lines, and admission may take less long.
func (s *served) install() {
	s.t.Helper()
	var definitions []*apiextensionsv1.CustomResourceDefinition
	for _, raw := range s.built("crd") {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		s.must(yaml.UnmarshalStrict(raw, crd))
		if crd.Spec.Conversion != nil {
			crd.Spec.Conversion.Webhook.ClientConfig.Service.Port = ptr.To(s.conversion.port())
		}
		definitions = append(definitions, crd)
	}
	s.must(apiserver.Install(s.config, definitions...))
	s.must(s.c.Create(s.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ownNamespace}}))
	for _, raw := range s.built("webhook") {
		s.must(s.c.Create(s.t.Context(), s.throughProxy(raw)))
	}
}

// built returns the manifests of a folder of config/.
func (s *served) built(folder string) [][]byte {
	s.t.Helper()
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), "../../config/"+folder)
	s.must(err)
	var all [][]byte
	for _, resource := range built.Resources() {
		raw, err := resource.MarshalJSON()
		s.must(err)
		all = append(all, raw)
	}
	return all
}

func (s *served) throughProxy(raw []byte) client.Object {
	s.t.Helper()
	toProxy := func(to *admissionregistrationv1.WebhookClientConfig, timeout **int32) {
		to.Service.Port, *timeout = ptr.To(s.admission.port()), ptr.To[int32](webhookTimeout)
	}
	kind := metav1.TypeMeta{}
	s.must(yaml.Unmarshal(raw, &kind))
	switch kind.Kind {
	case "MutatingWebhookConfiguration":
		hooks := &admissionregistrationv1.MutatingWebhookConfiguration{}
		s.must(yaml.Unmarshal(raw, hooks))
		for i := range hooks.Webhooks {
			toProxy(&hooks.Webhooks[i].ClientConfig, &hooks.Webhooks[i].TimeoutSeconds)
		}
		return hooks
	case "ValidatingWebhookConfiguration":
		hooks := &admissionregistrationv1.ValidatingWebhookConfiguration{}
		s.must(yaml.Unmarshal(raw, hooks))
		for i := range hooks.Webhooks {
			toProxy(&hooks.Webhooks[i].ClientConfig, &hooks.Webhooks[i].TimeoutSeconds)
		}
		return hooks
	case "Service":
		service := &corev1.Service{}
		s.must(yaml.Unmarshal(raw, service))
		service.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"}
		return service
	case "Secret":
		secret := &corev1.Secret{}
		s.must(yaml.Unmarshal(raw, secret))
		return secret
	}
	s.t.Fatalf("config/webhook has a %s", kind.Kind)
	return nil
}
