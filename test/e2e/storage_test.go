// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/internal/webhook/convert"
	"github.com/trellis-k8s/trellis/test/testutil/apiserver"
	"github.com/trellis-k8s/trellis/test/testutil/stored"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// installation is what the API server has of Trellis, for who takes it away and brings it back.
type installation struct {
	definitions []apiextensionsv1.CustomResourceDefinition
	hooks       []client.Object
}

var _ = Describe("An upgrade of objects that are stored as v1alpha1", func() {
	// the objects of commit 886ffe1 are in etcd as its definitions stored them. Then today's manifests are applied and
	// the operator starts, with the rights of its account. It rewrites all of them, and touches no pod.
	It("rewrites all of them, and touches no pod", func(ctx SpecContext) {
		e := newEnvironment(of(ctx), "moved")
		w := e.emptyWorld(ctx, earlier)
		e.stopOperator(ctx)
		today := w.removeTrellis()
		crds, err := stored.ReleasedDefinitions()
		w.must(err)
		restConfig, err := e.cluster.RESTConfig()
		w.must(err)
		w.must(apiserver.Install(restConfig, crds...))
		w.until("no webhook is asked any more", func() error {
			probe := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoGraphDeployment"}}
			probe.SetNamespace(metav1.NamespaceDefault)
			probe.SetName("probe")
			probe.Object["spec"] = map[string]any{"services": map[string]any{"Worker": map[string]any{"replicas": int64(1)}}}
			return w.c.Create(ctx, probe, client.DryRunAll)
		})
		w.restore(filepath.Join("testdata", "released.yaml"))
		before, revisions := w.uids(), w.revisions()
		w.storedAs("v1alpha1", 2, 1)

		By("today's manifests are applied, and the operator is started")
		w.bring(today)
		w.storedAs("v1alpha1", 2, 1)
		w.must(e.cluster.StartManager(ctx, sandbox.ManagerOptions{}))
		for _, name := range convert.Definitions {
			w.until("all objects are migrated", func() error { return w.migrated(name) })
		}
		w.storedAs("v1beta1", 2, 1)
		w.ready("packed")
		w.ready("plain")
		w.samePods(before, "")
		Expect(w.revisions()).To(Equal(revisions))
		e.logsNothingOf("forbidden")
	}, SpecTimeout(suite.Timeout()))
})

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// removeHooks deletes the webhook configurations, and returns them as they were.
func (w *world) removeHooks() (hooks []client.Object) {
	w.t.Helper()
	hooks = w.hooks()
	for _, object := range hooks {
		w.must(w.c.Delete(w.t.Context(), object))
	}
	return hooks
}

// removeTrellis deletes definitions and webhooks, and returns them as they are shipped.
func (w *world) removeTrellis() installation {
	w.t.Helper()
	was := installation{hooks: w.removeHooks()}
	crds := &apiextensionsv1.CustomResourceDefinitionList{}
	w.must(w.c.List(w.t.Context(), crds))
	for i := range crds.Items {
		crd := &crds.Items[i]
		if !slices.Contains([]string{"nvidia.com", "trellis.dev", "grove.io"}, crd.Spec.Group) {
			continue
		}
		if c := crd.Spec.Conversion; c != nil && c.Webhook != nil {
			c.Webhook.ClientConfig.CABundle = nil
		}
		was.definitions = append(was.definitions, *crd.DeepCopy())
		w.must(w.c.Delete(w.t.Context(), crd))
		w.until("the definition is gone", func() error {
			if err := w.c.Get(w.t.Context(), client.ObjectKeyFromObject(crd), crd); !apierrors.IsNotFound(err) {
				return fmt.Errorf("reading it: %w", err)
			}
			return nil
		})
	}
	return was
}

// hooks are the webhook configurations, as they are.
func (w *world) hooks() []client.Object {
	w.t.Helper()
	return []client.Object{
		get(w, &admissionv1.MutatingWebhookConfiguration{}, "", "trellis-mutating-webhook-configuration"),
		get(w, &admissionv1.ValidatingWebhookConfiguration{}, "", "trellis-validating-webhook-configuration"),
	}
}

// bring applies what was removed, over what is there.
func (w *world) bring(was installation) {
	w.t.Helper()
	for i := range was.definitions {
		w.define(&was.definitions[i])
	}
	for _, object := range was.hooks {
		object.SetResourceVersion("")
		object.SetUID("")
		w.create(object)
	}
}

// define installs a definition, over the one of its name if there is one, and returns when it is served.
func (w *world) define(crd *apiextensionsv1.CustomResourceDefinition) {
	w.t.Helper()
	now := &apiextensionsv1.CustomResourceDefinition{}
	err := w.c.Get(w.t.Context(), client.ObjectKeyFromObject(crd), now)
	if apierrors.IsNotFound(err) {
		crd = crd.DeepCopy()
		crd.ResourceVersion, crd.UID = "", ""
		w.must(apiserver.Install(w.config(), crd))
		return
	}
	w.must(err)
	before := now.DeepCopy()
	now.Spec = crd.Spec
	w.must(w.c.Patch(w.t.Context(), now, client.MergeFrom(before))) // the API server writes its status meanwhile
}

// migrated describes what is still stored in an older version.
func (w *world) migrated(definition string) error {
	crd := get(w, &apiextensionsv1.CustomResourceDefinition{}, "", definition)
	if !slices.Equal(crd.Status.StoredVersions, []string{"v1beta1"}) {
		return fmt.Errorf("%s: %v, %+v", definition, crd.Status.StoredVersions, crd.Status.Conditions)
	}
	return nil
}

// storedAs checks how many objects etcd holds, all of them in one version.
func (w *world) storedAs(version string, deployments, adapters int) {
	w.t.Helper()
	w.stored("dynamographdeployments", map[string]int{version: deployments})
	w.stored("dynamographdeploymentscalingadapters", map[string]int{version: adapters})
}

// stored checks how many objects of a resource etcd holds, by the version they are stored in.
func (w *world) stored(resource string, want map[string]int) {
	w.t.Helper()
	socket := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(w.cluster.Dir(), "etcd.sock"))
	}}}
	defer socket.CloseIdleConnections()
	objects, err := stored.InEtcd(w.t.Context(), socket, "http://etcd", "nvidia.com", resource)
	w.must(err)
	got := map[string]int{}
	for _, object := range objects {
		got[strings.TrimPrefix(object.APIVersion, "nvidia.com/")]++
	}
	if !maps.Equal(got, want) {
		w.t.Errorf("etcd holds of %s by version %v, want %v", resource, got, want)
	}
}
