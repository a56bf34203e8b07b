// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/trellis-k8s/trellis/internal/podlimit"
	"github.com/trellis-k8s/trellis/test/testutil/apiserver"
	"github.com/trellis-k8s/trellis/test/testutil/ports"
)

const (
	ownNamespace   = "trellis-system"
	webhookService = "trellis-webhook-service"
	// webhookTimeout in seconds, for a busy machine longer than in production.
	webhookTimeout = 10
	// stuckAfter is when the operator ends a connection on which nothing gets on.
	stuckAfter = 5 * time.Second
)

// served is bare with the webhooks and the conversion of config/, which the API server calls through a proxy each.
type served struct {
	*bare
	c                     client.WithWatch
	admission, conversion *proxy
	// direct is the operator's own address.
	direct string
}

func newServed(ctx context.Context) *served {
	GinkgoHelper()
	env := &envtest.Environment{}
	config, err := apiserver.Launch(env)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(env.Stop)
	config.QPS = -1
	c, err := client.NewWithWatch(config, client.Options{Scheme: NewScheme()})
	Expect(err).NotTo(HaveOccurred())
	port, err := ports.Free(nil)
	Expect(err).NotTo(HaveOccurred())
	s := &served{bare: &bare{ctx: ctx, config: config, c: c, newClient: client.New}, c: c, direct: fmt.Sprintf("127.0.0.1:%d", port)}
	s.admission, s.conversion = newProxy(s.direct), newProxy(s.direct)
	s.install()
	s.change = func(o *Options) {
		o.Namespace, o.Webhooks, o.Conversion, o.WebhookService = ownNamespace, true, true, webhookService
		o.WebhookPort, o.WebhookCertDir, o.MaxPodsPerGraph, o.answerWithin = port, GinkgoTB().TempDir(), podlimit.Default, stuckAfter
	}
	s.start()
	DeferCleanup(func() {
		s.admission.mend()
		s.conversion.mend()
		s.stop()
	})
	return s
}

// install applies the shipped manifests. Unlike on a cluster, calls lead over the lines, and admission may take less long.
func (s *served) install() {
	GinkgoHelper()
	var definitions []*apiextensionsv1.CustomResourceDefinition
	for _, raw := range s.built("crd") {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		Expect(yaml.UnmarshalStrict(raw, crd)).To(Succeed())
		if crd.Spec.Conversion != nil {
			crd.Spec.Conversion.Webhook.ClientConfig.Service.Port = ptr.To(s.conversion.port())
		}
		definitions = append(definitions, crd)
	}
	Expect(apiserver.Install(s.config, definitions...)).To(Succeed())
	Expect(s.c.Create(s.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ownNamespace}})).To(Succeed())
	for _, raw := range s.built("webhook") {
		Expect(s.c.Create(s.ctx, s.throughProxy(raw))).To(Succeed())
	}
}

// built returns the manifests of a folder of config/.
func (s *served) built(folder string) [][]byte {
	GinkgoHelper()
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), "../../config/"+folder)
	Expect(err).NotTo(HaveOccurred())
	var all [][]byte
	for _, resource := range built.Resources() {
		raw, err := resource.MarshalJSON()
		Expect(err).NotTo(HaveOccurred())
		all = append(all, raw)
	}
	return all
}

func (s *served) throughProxy(raw []byte) client.Object {
	GinkgoHelper()
	toProxy := func(to *admissionregistrationv1.WebhookClientConfig, timeout **int32) {
		to.Service.Port, *timeout = ptr.To(s.admission.port()), ptr.To[int32](webhookTimeout)
	}
	kind := metav1.TypeMeta{}
	Expect(yaml.Unmarshal(raw, &kind)).To(Succeed())
	switch kind.Kind {
	case "MutatingWebhookConfiguration":
		hooks := &admissionregistrationv1.MutatingWebhookConfiguration{}
		Expect(yaml.Unmarshal(raw, hooks)).To(Succeed())
		for i := range hooks.Webhooks {
			toProxy(&hooks.Webhooks[i].ClientConfig, &hooks.Webhooks[i].TimeoutSeconds)
		}
		return hooks
	case "ValidatingWebhookConfiguration":
		hooks := &admissionregistrationv1.ValidatingWebhookConfiguration{}
		Expect(yaml.Unmarshal(raw, hooks)).To(Succeed())
		for i := range hooks.Webhooks {
			toProxy(&hooks.Webhooks[i].ClientConfig, &hooks.Webhooks[i].TimeoutSeconds)
		}
		return hooks
	case "Service":
		service := &corev1.Service{}
		Expect(yaml.Unmarshal(raw, service)).To(Succeed())
		service.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"}
		return service
	case "Secret":
		secret := &corev1.Secret{}
		Expect(yaml.Unmarshal(raw, secret)).To(Succeed())
		return secret
	case "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding":
		policy := &unstructured.Unstructured{}
		Expect(policy.UnmarshalJSON(raw)).To(Succeed())
		return policy
	}
	Fail("config/webhook has a " + kind.Kind)
	return nil
}
