// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"github.com/trellis-k8s/trellis/internal/preflight"
	"github.com/trellis-k8s/trellis/internal/webhook/convert"
	"github.com/trellis-k8s/trellis/test/integration/peers/definitions"
	"github.com/trellis-k8s/trellis/test/testutil/apiserver"
)

// upstream are the definitions of the Dynamo operator: those derived from its own (see package definitions), or the full ones in the folder that
// TRELLIS_PEER_DEFINITIONS names. Who converts for them is not there any more.
func upstream(t *testing.T, storage string) []*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	var out []*apiextensionsv1.CustomResourceDefinition
	for _, file := range definitions.Upstream {
		crd, err := definitions.InstalledUpstream(os.Getenv("TRELLIS_PEER_DEFINITIONS"), file, storage)
		if err != nil {
			t.Fatal(err)
		}
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

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	return u
}

// What the Dynamo operator stored, in either version, is taken over whole: what only v1alpha1 can say is acted on, and reads back.
func TestMovesInFromUpstream(t *testing.T) {
	log.SetLogger(logr.Discard())
	env := &envtest.Environment{}
	config, err := apiserver.Launch(env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = env.Stop() })
	c, err := client.New(config, client.Options{Scheme: NewScheme()})
	if err != nil {
		t.Fatal(err)
	}
	b := &bare{t: t, config: config, c: c, newClient: client.New}
	older, newer := object(t, olderUpstream), object(t, newerUpstream)
	for _, step := range []struct {
		storage string
		objects []*unstructured.Unstructured
	}{{"v1alpha1", []*unstructured.Unstructured{older.DeepCopy()}}, {"v1beta1", []*unstructured.Unstructured{newer.DeepCopy(), object(t, adapterUpstream)}}} {
		b.must(apiserver.Install(config, upstream(t, step.storage)...))
		for _, o := range step.objects {
			b.until("the object is created", time.Minute, func() error { return c.Create(t.Context(), o.DeepCopy()) }) // no conversion: the API server stores this version
		}
	}
	if err := preflight.Check(t.Context(), c); err == nil {
		t.Error("the definitions of the Dynamo operator pass the preflight")
	}

	install(t, config, filepath.Join("..", "..", "config", "crd", "bases"))
	b.start()
	t.Cleanup(func() { b.stop() })
	for _, name := range convert.Definitions {
		b.until("objects are stored in one version", 2*time.Minute, func() error {
			crd := &apiextensionsv1.CustomResourceDefinition{}
			if err := c.Get(t.Context(), client.ObjectKey{Name: name}, crd); err != nil || !slices.Equal(crd.Status.StoredVersions, []string{"v1beta1"}) {
				return fmt.Errorf("%s: %v, %+v: %w", name, crd.Status.StoredVersions, crd.Status.Conditions, err)
			}
			return nil
		})
	}
	b.until("claims and Ingresses are made", time.Minute, func() error {
		for _, claim := range []string{"models", "cache"} {
			if err := c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: claim}, &corev1.PersistentVolumeClaim{}); err != nil {
				return err
			}
		}
		ingresses := &networkingv1.IngressList{}
		if err := c.List(t.Context(), ingresses); err != nil || len(ingresses.Items) != 2 {
			return fmt.Errorf("%d Ingresses: %w", len(ingresses.Items), err)
		}
		return nil
	})

	t.Log("both objects read back as they were written")
	read := older.DeepCopy()
	b.must(c.Get(t.Context(), client.ObjectKeyFromObject(older), read))
	if diff := cmp.Diff(older.Object["spec"], read.Object["spec"]); diff != "" {
		t.Errorf("stored as v1alpha1 (-written, +read):\n%s", diff)
	}
	read = newer.DeepCopy()
	b.must(c.Get(t.Context(), client.ObjectKeyFromObject(newer), read))
	if diff := cmp.Diff(newer.Object["spec"], read.Object["spec"]); diff != "" {
		t.Errorf("stored as v1beta1 (-written, +read):\n%s", diff)
	}
	read = object(t, `{apiVersion: nvidia.com/v1alpha1, kind: DynamoGraphDeployment}`)
	b.must(c.Get(t.Context(), client.ObjectKeyFromObject(newer), read))
	if claims, _, _ := unstructured.NestedSlice(read.Object, "spec", "pvcs"); len(claims) != 1 {
		t.Errorf("as v1alpha1 it has the claims %v", claims)
	}
	if host, _, _ := unstructured.NestedString(read.Object, "spec", "services", "Frontend", "ingress", "host"); host != "newer" {
		t.Errorf("as v1alpha1 it has the host %q", host)
	}
}
