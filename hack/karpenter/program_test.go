// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package karpenter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/hack/sandbox/peers"
)

// version of Karpenter that docs/autoscaling.md speaks of.
const version = "v1.14.1"

// Ports that Karpenter listens on.
const (
	probesPort  = 38081
	metricsPort = 38080
)

// program is Karpenter with its KWOK provider, and its sources.
type program struct{ file, sources string }

// build returns the program, which is in the user's cache, and its sources, which are in Go's.
func build(ctx context.Context) (program, error) {
	p := program{}
	cache, err := os.UserCacheDir()
	if err != nil {
		return p, err
	}
	if p.sources, err = peers.ModuleDir(ctx, "sigs.k8s.io/karpenter@"+version); err != nil {
		return p, err
	}
	folder := filepath.Join(cache, "trellis", "karpenter", version)
	p.file = filepath.Join(folder, "karpenter")
	if _, err := os.Stat(p.file); err == nil {
		return p, nil
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return p, err
	}
	unfinished := p.file + ".new"
	cmd := exec.CommandContext(ctx, "go", "build", "-o", unfinished, "./kwok")
	cmd.Dir, cmd.Env = p.sources, append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-mod=mod -modcacherw=false")
	if out, err := cmd.CombinedOutput(); err != nil {
		return p, fmt.Errorf("building Karpenter %s: %w: %s", version, err, out)
	}
	return p, os.Rename(unfinished, p.file)
}

// peers starts Karpenter alongside a sandbox, with all rights.
func (p program) peers() *sandbox.Peers {
	return &sandbox.Peers{
		Ports: map[string][]int{"karpenter": {probesPort, metricsPort}},
		Start: func(ctx context.Context, s *sandbox.Sandbox) error {
			for _, pattern := range []string{"pkg/apis/crds/karpenter.sh_*.yaml", "kwok/apis/crds/*.yaml"} {
				if err := apply(ctx, s, filepath.Join(p.sources, pattern)); err != nil {
					return err
				}
			}
			if err := apply(ctx, s, filepath.Join("testdata", "account.yaml")); err != nil {
				return err
			}
			return p.start(ctx, s)
		},
	}
}

func (p program) start(ctx context.Context, s *sandbox.Sandbox) error {
	kubeconfig, err := s.AccountKubeconfig(ctx, "karpenter", "karpenter")
	if err != nil {
		return err
	}
	types, err := filepath.Abs(filepath.Join("testdata", "instance_types.json"))
	if err != nil {
		return err
	}
	err = s.StartProgram(sandbox.Program{
		Name: "karpenter", Path: p.file, Env: []string{
			"KUBECONFIG=" + kubeconfig, "INSTANCE_TYPES_FILE_PATH=" + types, "DISABLE_LEADER_ELECTION=true", "BATCH_MAX_DURATION=5s", "SYSTEM_NAMESPACE=karpenter",
			fmt.Sprintf("HEALTH_PROBE_PORT=%d", probesPort), fmt.Sprintf("METRICS_PORT=%d", metricsPort),
		},
	})
	return errors.Join(err, s.WaitForProgram(ctx, "karpenter"))
}

// apply applies the objects in files.
func apply(ctx context.Context, s *sandbox.Sandbox, pattern string) error {
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no file %s: %w", pattern, err)
	}
	var objects []*unstructured.Unstructured
	for _, file := range files {
		some, err := read(file)
		if err != nil {
			return err
		}
		objects = append(objects, some...)
	}
	return s.Apply(ctx, objects)
}

func read(file string) (objects []*unstructured.Unstructured, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	decoder := yaml.NewYAMLOrJSONDecoder(f, 4096)
	for {
		o := &unstructured.Unstructured{}
		switch err := decoder.Decode(o); {
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil:
			return nil, fmt.Errorf("reading %s: %w", file, err)
		case len(o.Object) > 0:
			objects = append(objects, o)
		}
	}
}
