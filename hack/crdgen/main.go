// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Command crdgen writes everything that is generated from the API types: their deepcopy functions and config/crd/bases. Run it from the
// repository's root:
//
//	go run ./hack/crdgen
//
// controller-gen generates the files. crdgen adds the source's version to the definitions, so that an older operator recognizes newer
// definitions. It then changes the schemas of pod specs inside a DynamoGraphDeployment in four ways, in embedded.go: no texts and formats,
// fewer required fields, no list keys with values that a valid pod may repeat, and no numbers outside the range of Go's types. The last
// change matters most: a single object that the operator's informer cannot decode stops the informer for all objects.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/trellis-k8s/trellis/internal/version"
)

const (
	toolsModule = "hack/tools/go.mod"
	basesDir    = "config/crd/bases"

	// sizeLimit in bytes keeps a definition below the 262,144 bytes that the API server accepts in annotations, because client-side `kubectl
	// apply` stores the definition in one. It leaves space for the other annotations and for a field or two.
	sizeLimit = 258_000
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "crdgen:", err)
		os.Exit(1)
	}
}

func run() error {
	raw, err := controllerGen()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(basesDir, 0o755); err != nil {
		return err
	}
	for _, doc := range bytes.Split(raw, []byte("\n---\n")) {
		if len(bytes.TrimSpace(doc)) == 0 {
			continue
		}
		if err := writeBase(doc); err != nil {
			return err
		}
	}
	return nil
}

// controllerGen writes the deepcopy files and returns the definitions, one YAML document each.
func controllerGen() ([]byte, error) {
	cmd := exec.Command("go", "tool", "-modfile="+toolsModule, "controller-gen",
		"object:headerFile=hack/boilerplate.go.txt",
		"crd:allowDangerousTypes=true,generateEmbeddedObjectMeta=true",
		"paths=./api/...",
		"output:crd:stdout")
	cmd.Stderr = os.Stderr
	raw, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
	}
	return raw, nil
}

// writeBase finishes one definition and writes it under the file name that controller-gen would use.
func writeBase(doc []byte) error {
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(doc, &crd); err != nil {
		return fmt.Errorf("reading controller-gen's output: %w", err)
	}
	for i := range crd.Spec.Versions {
		finish(crd.Spec.Versions[i].Schema.OpenAPIV3Schema)
		if err := checkListKeys(crd.Spec.Names.Plural, crd.Spec.Versions[i].Schema.OpenAPIV3Schema); err != nil {
			return err
		}
	}
	crd.Annotations[version.Annotation] = version.Source
	compact, err := compactJSON(&crd)
	if err != nil {
		return err
	}
	if len(compact) >= sizeLimit {
		return fmt.Errorf("%s has %d bytes: want fewer than %d", crd.Name, len(compact), sizeLimit)
	}
	text, err := yaml.JSONToYAML(compact)
	if err != nil {
		return err
	}
	path := filepath.Join(basesDir, crd.Spec.Group+"_"+crd.Spec.Names.Plural+".yaml")
	fmt.Printf("%s: %d bytes, %d as compact JSON\n", path, len(text), len(compact))
	return os.WriteFile(path, append([]byte("---\n"), text...), 0o644)
}

// compactJSON returns the definition without the status that every definition marshaled by Go contains and that belongs to the API server.
func compactJSON(crd *apiextensionsv1.CustomResourceDefinition) ([]byte, error) {
	raw, err := json.Marshal(crd)
	if err != nil {
		return nil, err
	}
	var object map[string]any
	if err := json.Unmarshal(raw, &object); err != nil {
		return nil, err
	}
	delete(object, "status")
	return json.Marshal(object)
}
