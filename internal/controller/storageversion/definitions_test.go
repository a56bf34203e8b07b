// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package storageversion

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/trellis-k8s/trellis/test/testutil/apiserver"
	"github.com/trellis-k8s/trellis/test/testutil/stored"
)

// today is a world with today's definitions and no objects. They store v1alpha1 until store is called, and take any fields: the API server
// compiles schemas anew with each change of a definition, for seconds when they are long.
func today(ctx context.Context) *world {
	GinkgoHelper()
	w := newWorld(ctx)
	w.install(func(v *apiextensionsv1.CustomResourceDefinitionVersion) {
		anything := apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: ptr.To(true)}
		v.Schema.OpenAPIV3Schema = &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": anything, "status": anything}}
		v.AdditionalPrinterColumns, v.SelectableFields = nil, nil
		if v.Subresources != nil {
			v.Subresources.Scale = nil
		}
	})
	return w.emptied()
}

// whole is a world as today is, with the schemas that are shipped.
func whole(ctx context.Context) *world {
	GinkgoHelper()
	w := newWorld(ctx)
	w.upgrade()
	return w.emptied()
}

// emptied deletes what earlier specs have left: the objects, and what was reported.
func (w *world) emptied() *world {
	GinkgoHelper()
	for _, kind := range []string{"DynamoGraphDeployment", "DynamoGraphDeploymentScalingAdapter"} {
		for _, namespace := range []string{"team-a", "team-b"} {
			Expect(w.c.DeleteAllOf(w.ctx, alpha(kind, namespace, ""), client.InNamespace(namespace))).To(Succeed())
		}
	}
	for _, name := range []string{deployments, adapters} {
		crd := w.definition(name)
		before := crd.DeepCopy()
		apihelpers.RemoveCRDCondition(crd, ConditionStorageMigrated)
		Expect(w.c.Status().Patch(w.ctx, crd, client.MergeFrom(before))).To(Succeed())
	}
	w.store("v1alpha1")
	return w
}

// remove deletes the definitions of both kinds, which other tests may have left, with their objects.
func (w *world) remove() {
	GinkgoHelper()
	for _, name := range []string{deployments, adapters} {
		crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}}
		Expect(client.IgnoreNotFound(w.c.Delete(w.ctx, crd))).To(Succeed())
		w.until("the definition is gone", func() error {
			if err := w.c.Get(w.ctx, client.ObjectKeyFromObject(crd), crd); !apierrors.IsNotFound(err) {
				return fmt.Errorf("it is not: %w", err)
			}
			return nil
		})
	}
}

// release installs the definitions of commit 886ffe1, in place of what is there.
func (w *world) release() {
	GinkgoHelper()
	crds, err := stored.ReleasedDefinitions()
	Expect(err).NotTo(HaveOccurred())
	crds = slices.DeleteFunc(crds, func(crd *apiextensionsv1.CustomResourceDefinition) bool {
		return crd.Name != deployments && crd.Name != adapters
	})
	Expect(apiserver.Install(w.config, crds...)).To(Succeed())
}

// store makes a version the storage version of both definitions, and waits until the API server writes it.
func (w *world) store(version string) {
	GinkgoHelper()
	for _, name := range []string{deployments, adapters} {
		crd := w.definition(name)
		before := crd.DeepCopy()
		for i := range crd.Spec.Versions {
			crd.Spec.Versions[i].Storage = crd.Spec.Versions[i].Name == version
		}
		Expect(w.c.Patch(w.ctx, crd, client.MergeFrom(before))).To(Succeed()) // the API server writes its status meanwhile
	}
	for resource, kind := range map[string]string{
		"dynamographdeployments": "DynamoGraphDeployment", "dynamographdeploymentscalingadapters": "DynamoGraphDeploymentScalingAdapter",
	} {
		w.until(version+" is stored", func() error {
			before := strings.Count(w.storedAs(resource, version), "\n")
			if err := client.IgnoreAlreadyExists(w.c.Create(w.ctx, alpha(kind, "default", "probe"))); err != nil {
				return err
			}
			after := strings.Count(w.storedAs(resource, version), "\n")
			if err := w.c.Delete(w.ctx, alpha(kind, "default", "probe")); err != nil {
				return err
			}
			if after == before {
				return errors.New("another version is stored")
			}
			return nil
		})
	}
}

// upgrade installs today's definitions.
func (w *world) upgrade() {
	GinkgoHelper()
	w.install(func(*apiextensionsv1.CustomResourceDefinitionVersion) {})
}

// install installs today's definitions of what is converted, each version edited.
func (w *world) install(edit func(*apiextensionsv1.CustomResourceDefinitionVersion)) {
	GinkgoHelper()
	dir := GinkgoTB().TempDir()
	for _, name := range []string{deployments, adapters} {
		resource, group, _ := strings.Cut(name, ".")
		file := group + "_" + resource + ".yaml"
		raw, err := os.ReadFile(filepath.Join("..", "..", "..", "config", "crd", "bases", file))
		Expect(err).NotTo(HaveOccurred())
		crd := &apiextensionsv1.CustomResourceDefinition{}
		Expect(yaml.Unmarshal(raw, crd)).To(Succeed())
		for i := range crd.Spec.Versions {
			edit(&crd.Spec.Versions[i])
		}
		raw, err = yaml.Marshal(crd)
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(filepath.Join(dir, file), raw, 0o600)).To(Succeed())
	}
	Expect(server.Install(w.config, dir)).To(Succeed())
}
