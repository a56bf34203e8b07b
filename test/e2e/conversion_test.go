// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/internal/webhook/convert"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// storedInEach is how many deployments, each with an adapter, are stored in each version.
const storedInEach = 5

var _ = Describe("Conversion", func() {
	// everything is stored as v1alpha1 or v1beta1, the Secret is empty, no one trusts a certificate, and two replicas
	// start at once behind a Service that leads to ready ones only. The caches of the operator can be filled only after /convert is served: an operator
	// whose readiness, certificate or conversion waited for its caches would never start. When one replica is killed the other one serves and takes over.
	It("is served before the caches are filled: two replicas start where there is no certificate", func(ctx SpecContext) {
		e := newEnvironment(of(ctx), "converted")
		w := e.newWorld(ctx, "converted", racks(1, 8, "a/r0")...)
		e.stopOperator(ctx)
		hooks := w.removeHooks()
		w.store("v1alpha1")
		w.fill("v1alpha1", "alpha", `spec: {services: {Worker: {componentType: worker, replicas: 0}}}`, `serviceName`)
		w.store("v1beta1")
		w.fill("v1beta1", "beta", `spec: {components: [{name: Worker, type: worker, replicas: 0}]}`, `componentName`)
		for _, resource := range []string{"dynamographdeployments", "dynamographdeploymentscalingadapters"} {
			w.stored(resource, map[string]int{"v1alpha1": storedInEach, "v1beta1": storedInEach})
		}

		By("two replicas start with an empty Secret, and become ready")
		proxy := newEndpoints()
		w.forgetCertificate(hooks, proxy.Port())
		const first, second = sandbox.DefaultManager, "second"
		for _, name := range []string{first, second} {
			_, err := e.cluster.LaunchManager(sandbox.ManagerOptions{Name: name, Args: []string{"--leader-elect"}})
			w.must(err)
		}
		for _, name := range []string{first, second} {
			w.must(e.cluster.WaitForManager(ctx, name))
			proxy.Add(e.cluster.ManagerWebhooks(name))
		}

		By("everything can be read and is rewritten, and what is created is placed")
		w.until("everything can be read", w.readsAll)
		for _, name := range convert.Definitions {
			w.until("all objects are migrated", func() error { return w.migrated(name) })
		}
		w.storedAs("v1beta1", 2*storedInEach, 2*storedInEach)
		w.until("a deployment is created", func() error {
			return w.c.Create(ctx, w.graphOf("g", "zone", services{"Worker": worker(1, 1, 8, "rack")}))
		})
		w.ready("g")

		By("one replica is killed: the other one serves, and takes over")
		w.must(e.cluster.KillManager(ctx, first))
		proxy.Remove(e.cluster.ManagerWebhooks(first))
		w.until("everything can be read", w.readsAll)
		w.until("a deployment is created", func() error {
			return w.c.Create(ctx, w.graphOf("h", "zone", services{"Worker": worker(1, 1, 0, "rack")}))
		})
		w.ready("h")
		w.must(e.cluster.StopManager(ctx, second))
	}, SpecTimeout(suite.Timeout()))
})

// convertedDefinitions changes both definitions that have two versions.
func (w *world) convertedDefinitions(change func(*apiextensionsv1.CustomResourceDefinition)) {
	w.t.Helper()
	for _, name := range slices.Sorted(maps.Values(convert.Definitions)) {
		crd := get(w, &apiextensionsv1.CustomResourceDefinition{}, "", name)
		before := crd.DeepCopy()
		change(crd)
		w.must(w.c.Patch(w.t.Context(), crd, client.MergeFrom(before)))
	}
}

// store has new objects stored in a version, and returns once they are: no operator is there, so a version that is not stored cannot be written.
func (w *world) store(version string) {
	w.t.Helper()
	w.convertedDefinitions(func(crd *apiextensionsv1.CustomResourceDefinition) {
		for i := range crd.Spec.Versions {
			crd.Spec.Versions[i].Storage = crd.Spec.Versions[i].Name == version
		}
	})
	for _, spec := range []string{
		`{apiVersion: nvidia.com/v1alpha1, kind: DynamoGraphDeployment, spec: {services: {Worker: {replicas: 0}}}}`,
		`{apiVersion: nvidia.com/v1alpha1, kind: DynamoGraphDeploymentScalingAdapter, spec: {replicas: 0, dgdRef: {name: g, serviceName: Worker}}}`,
	} {
		w.until("objects are stored as "+version, func() error {
			probe := w.objectsIn(spec)[0]
			probe.SetNamespace(w.name)
			probe.SetName("probe")
			if err := w.c.Create(w.t.Context(), probe, client.DryRunAll); (err == nil) != (version == "v1alpha1") {
				return fmt.Errorf("without a conversion a write of v1alpha1 ends with: %w", err)
			}
			return nil
		})
	}
}

// fill creates deployments of a version whose names begin with a word, each with an adapter.
func (w *world) fill(version, word, spec, component string) {
	w.t.Helper()
	for i := range storedInEach {
		w.applyText(fmt.Sprintf("apiVersion: nvidia.com/%[1]s\nkind: DynamoGraphDeployment\nmetadata: {namespace: %[2]s, name: %[3]s-%[4]d}\n%[5]s\n---\n"+
			"apiVersion: nvidia.com/%[1]s\nkind: DynamoGraphDeploymentScalingAdapter\nmetadata: {namespace: %[2]s, name: %[3]s-%[4]d-worker}\n"+
			"spec: {replicas: 0, dgdRef: {name: %[3]s-%[4]d, %[6]s: Worker}}\n", version, w.name, word, i, spec, component))
	}
}

// readsAll reads everything in both versions, one by one, which the API server does from storage, and as lists.
func (w *world) readsAll() error {
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		for _, kind := range slices.Sorted(maps.Keys(convert.Definitions)) {
			list := &unstructured.UnstructuredList{}
			list.SetAPIVersion("nvidia.com/" + version)
			list.SetKind(kind + "List")
			if err := w.c.List(w.t.Context(), list, client.InNamespace(w.name)); err != nil {
				return fmt.Errorf("listing %s %s: %w", version, kind, err)
			}
			if len(list.Items) < 2*storedInEach {
				return fmt.Errorf("%d of %s %s, want %d", len(list.Items), version, kind, 2*storedInEach)
			}
			for i := range list.Items {
				if err := w.c.Get(w.t.Context(), client.ObjectKeyFromObject(&list.Items[i]), list.Items[i].DeepCopy()); err != nil {
					return fmt.Errorf("getting %s %s %s: %w", version, kind, list.Items[i].GetName(), err)
				}
			}
		}
	}
	return nil
}

// forgetCertificate leaves the Secret as it is shipped, and has no one trust an authority. From now on webhooks and conversion are called at a port
// of this machine.
func (w *world) forgetCertificate(hooks []client.Object, port int32) {
	w.t.Helper()
	secret := get(w, &corev1.Secret{}, "trellis-system", "trellis-webhook-server-cert")
	if len(secret.Data) == 0 {
		w.t.Fatal("the Secret holds no certificate to forget")
	}
	secret.Data = nil
	w.must(w.c.Update(w.t.Context(), secret))
	w.convertedDefinitions(func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Spec.Conversion.Webhook.ClientConfig.CABundle, crd.Spec.Conversion.Webhook.ClientConfig.Service.Port = nil, ptr.To(port)
	})
	for _, object := range hooks {
		for _, config := range clientConfigsOf(object) {
			config.CABundle, config.Service.Port = nil, ptr.To(port)
		}
	}
	w.bring(installation{hooks: hooks})
}

func clientConfigsOf(hooks client.Object) (out []*admissionv1.WebhookClientConfig) {
	switch hooks := hooks.(type) {
	case *admissionv1.MutatingWebhookConfiguration:
		for i := range hooks.Webhooks {
			out = append(out, &hooks.Webhooks[i].ClientConfig)
		}
	case *admissionv1.ValidatingWebhookConfiguration:
		for i := range hooks.Webhooks {
			out = append(out, &hooks.Webhooks[i].ClientConfig)
		}
	}
	return out
}
