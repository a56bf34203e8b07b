// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package install checks what users install: config/default as kustomize renders it and charts/trellis as Helm does. Both must be safe in
// the same way and must agree, because the sandbox and so all end-to-end tests run from config/default only.
package install

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/trellis-k8s/trellis/test/testutil/tier"
)

const (
	root      = "../.."
	namespace = "trellis-system"
)

// objects are rendered manifests, in their order.
type objects []*unstructured.Unstructured

var kustomized = sync.OnceValues(func() (objects, error) { return kustomize(root + "/config/default") })

var charted = sync.OnceValues(func() (objects, error) { return chart(namespace) })

// installs are the ways to install, each as a user gets it without any setting. Helm takes minutes to build: the core tier has kustomize only.
func installs(t *testing.T) map[string]objects {
	t.Helper()
	ways := map[string]func() (objects, error){"kustomize": kustomized}
	if !tier.Core() {
		ways["helm"] = charted
	}
	found := map[string]objects{}
	for name, rendering := range ways {
		rendered, err := rendering()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		found[name] = rendered
	}
	return found
}

// kustomize renders as kubectl apply -k does.
func kustomize(dir string) (objects, error) {
	options := krusty.MakeDefaultOptions()
	options.Reorder = krusty.ReorderOptionLegacy
	built, err := krusty.MakeKustomizer(options).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return nil, err
	}
	raw, err := built.AsYaml()
	if err != nil {
		return nil, err
	}
	return split(raw)
}

// chart renders for the oldest Kubernetes that the chart allows, so that it may use nothing newer.
func chart(releaseNamespace string, set ...string) (objects, error) {
	if err := readChart(); err != nil {
		return nil, err
	}
	args := []string{"tool", "-modfile=hack/tools/go.mod", "helm", "template", "trellis", "charts/trellis", "--namespace", releaseNamespace, "--kube-version", "1.30.0"}
	for _, value := range set {
		args = append(args, "--set-json", value)
	}
	helm := exec.Command("go", args...)
	helm.Dir = root
	var stdout, stderr bytes.Buffer
	helm.Stdout, helm.Stderr = &stdout, &stderr
	if err := helm.Run(); err != nil {
		return nil, fmt.Errorf("helm template: %w: %s", err, strings.TrimSpace(stderr.String()))
	}
	return split(stdout.Bytes())
}

// readChart opens every file of the chart. go test keeps a result for as long as the files that the test itself opened are unchanged, and
// what Helm opens it does not see.
func readChart() error {
	return filepath.WalkDir(root+"/charts/trellis", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		_, err = os.ReadFile(path)
		return err
	})
}

func split(raw []byte) (objects, error) {
	var found objects
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(raw)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, err
		}
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &object.Object); err != nil {
			return nil, err
		}
		if len(object.Object) > 0 {
			found = append(found, object)
		}
	}
}

// all returns the objects of a kind as their Go type, by name. Unknown fields are errors.
func all[T any](t *testing.T, in objects, kind string) map[string]*T {
	t.Helper()
	found := map[string]*T{}
	for _, object := range in {
		if object.GetKind() != kind {
			continue
		}
		raw, err := object.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		typed := new(T)
		if err := yaml.UnmarshalStrict(raw, typed); err != nil {
			t.Fatalf("%s %s: %v", kind, object.GetName(), err)
		}
		found[object.GetName()] = typed
	}
	return found
}

// one returns the only object of a kind.
func one[T any](t *testing.T, in objects, kind string) *T {
	t.Helper()
	found := all[T](t, in, kind)
	if len(found) != 1 {
		t.Fatalf("found %d objects of kind %s, want 1", len(found), kind)
	}
	for _, object := range found {
		return object
	}
	return nil
}
