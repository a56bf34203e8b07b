// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Command peercrds derives test/integration/peers/definitions/data from the real custom resource definitions of KAI Scheduler, Grove,
// LeaderWorkerSet and the Dynamo operator. They are to be in one folder as definitions.Types and definitions.Upstream name them. Run it
// from the repository's root:
//
//	go run ./hack/peercrds DIR
package main

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/trellis-k8s/trellis/test/integration/peers/definitions"
)

const target = "test/integration/peers/definitions/data"

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run ./hack/peercrds DIR")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "peercrds:", err)
		os.Exit(1)
	}
}

func run(from string) error {
	files, err := texts(from)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(target); err != nil {
		return err
	}
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(target, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// texts are the files of the target by name.
func texts(from string) (map[string]string, error) {
	names := slices.Sorted(maps.Keys(definitions.Types))
	digests := map[string]string{}
	var crds []*apiextensionsv1.CustomResourceDefinition
	for _, name := range names {
		full, digest, err := read(from, name)
		if err != nil {
			return nil, err
		}
		digests[name] = digest
		crds = append(crds, definitions.Derive(full, definitions.Types[name]))
	}
	pods, err := definitions.Collect(crds)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for i, name := range names {
		if out[definitions.Name(name)], err = definitions.Text(crds[i], path.Base(name), digests[name], pods); err != nil {
			return nil, err
		}
	}
	if out["podspec.txt"], err = pods.Text(); err != nil {
		return nil, err
	}
	return out, addUpstream(from, out)
}

// addUpstream adds the files of the Dynamo operator's definitions.
func addUpstream(from string, out map[string]string) error {
	for _, name := range definitions.Upstream {
		full, digest, err := read(from, name)
		if err != nil {
			return err
		}
		for _, crd := range definitions.DeriveUpstream(full) {
			file := definitions.UpstreamFile(name, crd.Spec.Versions[0].Name)
			if out[file], err = definitions.Text(crd, path.Base(name), digest, definitions.PodSpecs{}); err != nil {
				return err
			}
		}
	}
	return nil
}

// read returns a definition and the digest of its file.
func read(from, name string) (*apiextensionsv1.CustomResourceDefinition, string, error) {
	raw, err := os.ReadFile(filepath.Join(from, filepath.FromSlash(name)))
	if err != nil {
		return nil, "", err
	}
	full := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(raw, full); err != nil {
		return nil, "", fmt.Errorf("%s: %w", name, err)
	}
	return full, fmt.Sprintf("%x", sha256.Sum256(raw)), nil
}
