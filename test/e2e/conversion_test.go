// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/sandbox"
	"github.com/trellis-k8s/trellis/internal/webhook/convert"
)

// stored is how many deployments, each with an adapter, are stored in each version.
const stored = 5

// converting is a world whose conversions go through a Service of the test.
type converting struct {
	*world
	service *service
}

// definitions changes both converted definitions.
func (w *converting) definitions(change func(*apiextensionsv1.CustomResourceDefinition)) {
	w.t.Helper()
	for _, name := range slices.Sorted(maps.Values(convert.Definitions)) {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := w.c.Get(w.t.Context(), client.ObjectKey{Name: name}, crd); err != nil {
			w.t.Fatal(err)
		}
		before := crd.DeepCopy()
		change(crd)
		if err := w.c.Patch(w.t.Context(), crd, client.MergeFrom(before)); err != nil {
			w.t.Fatal(err)
		}
	}
}

// store has new objects stored in a version, and returns once they are: only then a write of v1alpha1 does, or does not, need a conversion.
func (w *converting) store(version string, replicas ...string) {
	w.t.Helper()
	w.definitions(func(crd *apiextensionsv1.CustomResourceDefinition) {
		for i := range crd.Spec.Versions {
			crd.Spec.Versions[i].Storage = crd.Spec.Versions[i].Name == version
		}
	})
	for _, r := range replicas {
		w.service.cut(r)
		defer w.service.add(r)
	}
	w.until("objects are stored as "+version, func() error {
		probe := w.graphOf("probe", "zone", services{"Worker": worker(0, 1, 1, "")})
		if err := w.c.Create(w.t.Context(), probe, client.DryRunAll); (err == nil) != (version == "v1alpha1") {
			return fmt.Errorf("without a conversion a write of v1alpha1 ends with: %w", err)
		}
		return nil
	})
}

// create makes deployments whose names begin with a word, and waits until the operator has written what it has to.
func (w *converting) create(word string) {
	w.t.Helper()
	for i := range stored {
		g := w.graphOf(fmt.Sprintf("%s-%d", word, i), "zone", services{"Worker": worker(0, 1, 1, "")})
		g.Spec.Services["Worker"].ScalingAdapter = &nvidiav1alpha1.ScalingAdapter{Enabled: true}
		w.world.create(g)
	}
	for i := range stored {
		name := fmt.Sprintf("%s-%d", word, i)
		w.until(name+" and its adapter are looked after", func() error {
			if dgd := w.dgd(name); dgd.Status.ObservedGeneration != dgd.Generation {
				return errors.New("the deployment is not")
			}
			return w.get("v1alpha1", "DynamoGraphDeploymentScalingAdapter", name+"-worker")
		})
	}
}

// storedAs counts the objects of a kind that can be read in a version alone, which without an operator are those stored in it.
func (w *converting) storedAs(version, kind string) (count int) {
	w.t.Helper()
	for _, word := range []string{"alpha", "beta"} {
		for i := range stored {
			name := fmt.Sprintf("%s-%d", word, i)
			if kind == "DynamoGraphDeploymentScalingAdapter" {
				name += "-worker"
			}
			if w.get(version, kind, name) == nil {
				count++
			}
		}
	}
	return count
}

func (w *converting) get(version, kind, name string) error {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("nvidia.com/" + version)
	u.SetKind(kind)
	return w.c.Get(w.t.Context(), key(w.name, name), u)
}

// readsAll reads everything in both versions, one by one, which the API server does from storage, and as lists.
func (w *converting) readsAll() error {
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		for _, kind := range slices.Sorted(maps.Keys(convert.Definitions)) {
			list := &unstructured.UnstructuredList{}
			list.SetAPIVersion("nvidia.com/" + version)
			list.SetKind(kind + "List")
			if err := w.c.List(w.t.Context(), list, client.InNamespace(w.name)); err != nil {
				return fmt.Errorf("listing %s %s: %w", version, kind, err)
			}
			if len(list.Items) < 2*stored {
				return fmt.Errorf("%d of %s %s, want %d", len(list.Items), version, kind, 2*stored)
			}
			for i := range list.Items {
				if err := w.get(version, kind, list.Items[i].GetName()); err != nil {
					return fmt.Errorf("getting %s %s %s: %w", version, kind, list.Items[i].GetName(), err)
				}
			}
		}
	}
	return nil
}

// forgetCertificate leaves the Secret as it is shipped and has nobody trust an authority. Admission goes through the Service from now on too.
func (w *converting) forgetCertificate(namespace string) {
	w.t.Helper()
	secret := get(w.world, &corev1.Secret{}, namespace, "trellis-webhook-server-cert")
	secret.Data = nil
	mutating := get(w.world, &admissionv1.MutatingWebhookConfiguration{}, "", "trellis-mutating-webhook-configuration")
	for i := range mutating.Webhooks {
		mutating.Webhooks[i].ClientConfig.CABundle, mutating.Webhooks[i].ClientConfig.Service.Port = nil, ptr.To(w.service.port())
	}
	validating := get(w.world, &admissionv1.ValidatingWebhookConfiguration{}, "", "trellis-validating-webhook-configuration")
	for i := range validating.Webhooks {
		validating.Webhooks[i].ClientConfig.CABundle, validating.Webhooks[i].ClientConfig.Service.Port = nil, ptr.To(w.service.port())
	}
	for _, o := range []client.Object{secret, mutating, validating} {
		if err := w.c.Update(w.t.Context(), o); err != nil {
			w.t.Fatal(err)
		}
	}
	w.definitions(func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Spec.Conversion.Webhook.ClientConfig.CABundle = nil
	})
}

// launch starts replicas together and has the Service lead to each as soon as it is ready.
func (w *converting) launch(names ...string) {
	w.t.Helper()
	for _, name := range names {
		args := []string{"--leader-elect", "--shutdown-delay=4s"}
		if _, err := w.cluster.LaunchManager(sandbox.ManagerOptions{Name: name, Args: args}); err != nil {
			w.t.Fatal(err)
		}
	}
	for _, name := range names {
		if err := w.cluster.WaitForManager(w.t.Context(), name); err != nil {
			w.t.Fatal(err)
		}
		w.service.add(w.cluster.ManagerWebhooks(name))
	}
}

// reading reads all the time until the returned function is called, which returns how often and what failed.
func (w *converting) reading() (stop func() (int, error)) {
	ctx, cancel := context.WithCancel(w.t.Context())
	rounds, failed, done := 0, error(nil), make(chan struct{})
	go func() {
		defer close(done)
		for ; ctx.Err() == nil && failed == nil; rounds++ {
			failed = w.readsAll()
		}
	}()
	return func() (int, error) { cancel(); <-done; return rounds, failed }
}

// Conversion is served before anything of the operator has been read, and as long as one replica of it is there.
func TestConversionIsAlwaysServed(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t, "converted")
	const first, second, third = sandbox.DefaultManager, "second", "third"
	w := &converting{world: newWorldIn(t, e, "converted", racks(1, 8, "a/r0")...), service: newService(t)}
	w.service.add(e.cluster.ManagerWebhooks(first))
	w.definitions(func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Spec.Conversion.Webhook.ClientConfig.Service.Port = ptr.To(w.service.port())
	})
	w.store("v1alpha1", e.cluster.ManagerWebhooks(first))
	w.create("alpha")
	w.store("v1beta1", e.cluster.ManagerWebhooks(first))
	w.create("beta")

	t.Log("without an operator each object can be read in the version it is stored in, and in no other")
	e.stopOperator(t)
	w.service.remove(e.cluster.ManagerWebhooks(first))
	for kind := range convert.Definitions {
		alpha, beta := w.storedAs("v1alpha1", kind), w.storedAs("v1beta1", kind)
		if alpha == 0 || beta < stored || alpha+beta != 2*stored {
			t.Errorf("%s: %d can be read as v1alpha1 and %d as v1beta1, want some each and %d together", kind, alpha, beta, 2*stored)
		}
	}

	t.Log("two replicas that start with an empty Secret are ready, and place what is created")
	w.forgetCertificate("trellis-system")
	w.launch(first, second)
	w.until("everything can be read", w.readsAll)
	w.world.create(w.graphOf("g", "zone", services{"Worker": worker(1, 1, 8, "rack")}))
	w.ready("g")

	t.Log("one replica is down, the other is rolled: it goes on serving until the Service has noticed")
	w.service.remove(e.cluster.ManagerWebhooks(second))
	if err := e.cluster.KillManager(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	w.until("everything can be read", w.readsAll)
	stop := w.reading()
	w.launch(third)
	ended := make(chan error, 1)
	go func() { ended <- e.cluster.StopManager(t.Context(), first) }()
	time.AfterFunc(2*time.Second, func() { w.service.remove(e.cluster.ManagerWebhooks(first)) })
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	w.world.create(w.graphOf("h", "zone", services{"Worker": worker(0, 1, 1, "")}))
	rounds, err := stop()
	if err != nil {
		t.Errorf("after %d rounds: %v", rounds, err)
	}
	t.Logf("%d rounds of reads", rounds)
	if rounds < 3 {
		t.Errorf("only %d rounds of reads while a replica was exchanged", rounds)
	}
}
