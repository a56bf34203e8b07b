// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/trellis-k8s/trellis/internal/preflight"
	"github.com/trellis-k8s/trellis/internal/webhook/convert"
	"github.com/trellis-k8s/trellis/test/integration/peers/definitions"
	"github.com/trellis-k8s/trellis/test/testutil/apiserver"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// upstream are the definitions of the Dynamo operator: those derived from its own (see package definitions), or the full ones in the folder that
// TRELLIS_PEER_DEFINITIONS names. Who converts for them is not there any more.
func upstream(storage string) []*apiextensionsv1.CustomResourceDefinition {
	GinkgoHelper()
	var out []*apiextensionsv1.CustomResourceDefinition
	for _, file := range definitions.Upstream {
		crd, err := definitions.InstalledUpstream(os.Getenv("TRELLIS_PEER_DEFINITIONS"), file, storage)
		Expect(err).NotTo(HaveOccurred())
		out = append(out, crd)
	}
	return out
}

const (
	olderUpstream = `{apiVersion: nvidia.com/v1alpha1, kind: DynamoGraphDeployment, metadata: {namespace: default, name: older},
  spec: {pvcs: [{name: models, create: true, size: 1Gi, storageClass: fast, volumeAccessMode: ReadWriteMany}],
    services: {Frontend: {componentType: frontend, dynamoNamespace: ns, replicas: 1, ingress: {enabled: true, host: older, ingressControllerClassName: nginx},
      volumeMounts: [{name: models, mountPoint: /models, useAsCompilationCache: false}], extraPodSpec: {mainContainer: {image: example.com/a}}}}}}`
	newerUpstream = `{apiVersion: nvidia.com/v1beta1, kind: DynamoGraphDeployment, metadata: {namespace: default, name: newer, annotations: {nvidia.com/dgd-spec: '
    {"pvcs":[{"name":"cache","create":true,"size":"1Gi","storageClass":"fast","volumeAccessMode":"ReadWriteMany"}],
     "services":{"Frontend":{"ingress":{"enabled":true,"host":"newer","ingressControllerClassName":"nginx"}}}}'}},
  spec: {components: [{name: Frontend, type: frontend, replicas: 1, podTemplate: {spec: {containers: [{name: main, image: example.com/b}]}}}]}}`
	adapterUpstream = `{apiVersion: nvidia.com/v1beta1, kind: DynamoGraphDeploymentScalingAdapter, metadata: {namespace: default, name: newer-decode},
  spec: {replicas: 2, dgdRef: {name: newer, componentName: Decode}}}`
)

func object(text string) *unstructured.Unstructured {
	GinkgoHelper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	Expect(err).NotTo(HaveOccurred())
	u := &unstructured.Unstructured{}
	Expect(u.UnmarshalJSON(raw)).To(Succeed())
	return u
}

var _ = Describe("What the Dynamo operator stored, in either version", func() {
	It("is taken over whole: what only v1alpha1 can say is acted on, and reads back", suite.Slow, SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		env := &envtest.Environment{}
		config, err := apiserver.Launch(env)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(env.Stop)
		c, err := client.New(config, client.Options{Scheme: NewScheme()})
		Expect(err).NotTo(HaveOccurred())
		b := &bare{ctx: ctx, config: config, c: c, newClient: client.New}
		older, newer := object(olderUpstream), object(newerUpstream)
		for _, step := range []struct {
			storage string
			objects []*unstructured.Unstructured
		}{{"v1alpha1", []*unstructured.Unstructured{older.DeepCopy()}}, {"v1beta1", []*unstructured.Unstructured{newer.DeepCopy(), object(adapterUpstream)}}} {
			Expect(apiserver.Install(config, upstream(step.storage)...)).To(Succeed())
			for _, o := range step.objects {
				b.until("the object is created", func() error { return c.Create(ctx, o.DeepCopy()) }) // no conversion: the API server stores this version
			}
		}
		Expect(preflight.Check(ctx, c)).NotTo(Succeed(), "the definitions of the Dynamo operator pass the preflight")

		install(config, filepath.Join("..", "..", "config", "crd", "bases"))
		b.start()
		DeferCleanup(func() { b.stop() })
		for _, name := range convert.Definitions {
			b.until("objects are stored in one version", func() error {
				crd := &apiextensionsv1.CustomResourceDefinition{}
				if err := c.Get(ctx, client.ObjectKey{Name: name}, crd); err != nil || !slices.Equal(crd.Status.StoredVersions, []string{"v1beta1"}) {
					return fmt.Errorf("%s: %v, %+v: %w", name, crd.Status.StoredVersions, crd.Status.Conditions, err)
				}
				return nil
			})
		}
		b.until("claims and Ingresses are made", func() error {
			for _, claim := range []string{"models", "cache"} {
				if err := c.Get(ctx, client.ObjectKey{Namespace: "default", Name: claim}, &corev1.PersistentVolumeClaim{}); err != nil {
					return err
				}
			}
			ingresses := &networkingv1.IngressList{}
			if err := c.List(ctx, ingresses); err != nil || len(ingresses.Items) != 2 {
				return fmt.Errorf("%d Ingresses: %w", len(ingresses.Items), err)
			}
			return nil
		})

		By("both objects read back as they were written")
		read := older.DeepCopy()
		Expect(c.Get(ctx, client.ObjectKeyFromObject(older), read)).To(Succeed())
		Expect(cmp.Diff(older.Object["spec"], read.Object["spec"])).To(BeEmpty(), "stored as v1alpha1 (-written, +read)")
		read = newer.DeepCopy()
		Expect(c.Get(ctx, client.ObjectKeyFromObject(newer), read)).To(Succeed())
		Expect(cmp.Diff(newer.Object["spec"], read.Object["spec"])).To(BeEmpty(), "stored as v1beta1 (-written, +read)")
		read = object(`{apiVersion: nvidia.com/v1alpha1, kind: DynamoGraphDeployment}`)
		Expect(c.Get(ctx, client.ObjectKeyFromObject(newer), read)).To(Succeed())
		claims, _, _ := unstructured.NestedSlice(read.Object, "spec", "pvcs")
		Expect(claims).To(HaveLen(1), "claims as v1alpha1")
		host, _, _ := unstructured.NestedString(read.Object, "spec", "services", "Frontend", "ingress", "host")
		Expect(host).To(Equal("newer"), "the host as v1alpha1")
	})
})
