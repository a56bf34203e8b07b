// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Command chartcrds copies files of config into charts/trellis: the custom resource definitions, the RBAC roles, the alerts and the
// dashboard, so that both ways of installing give the same result. Run it from the repository's root, after all other generators:
//
//	go run ./hack/chartcrds
//
// A definition becomes a plain file of the chart, which templates/crds.yaml reads: Helm does not interpret its text, so braces and
// backticks are safe. It gets the annotation that makes Helm keep it on uninstall, because deleting a definition deletes all objects of its
// kind. A role becomes a template, in which only the namespace is a variable. The operator's own role (role.yaml) is copied unchanged,
// because templates/manager_role.yaml splits it when only some namespaces are managed. The alerts and the dashboard are copied unchanged,
// too, because Helm would interpret their braces.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	crdSource, crdTarget   = "config/crd/bases", "charts/trellis/files/crds"
	rbacSource, rbacTarget = "config/rbac", "charts/trellis/templates/rbac"
	roleName               = "role.yaml"
	filesTarget            = "charts/trellis/files"
)

// copied maps files in charts/trellis/files to their sources. Templates read these files, and Helm does not interpret them.
var copied = map[string]string{
	"rbac/role.yaml":          "config/rbac/role.yaml",
	"prometheus/rules.yaml":   "config/prometheus/rules.yaml",
	"dashboards/trellis.json": "config/grafana/trellis.json",
}

func main() {
	if err := run(".", "."); err != nil {
		fmt.Fprintln(os.Stderr, "chartcrds:", err)
		os.Exit(1)
	}
}

// run reads below one root and writes below another. Only tests use two different roots.
func run(from, to string) error {
	if err := mirror(filepath.Join(from, crdSource), filepath.Join(to, crdTarget), keep); err != nil {
		return err
	}
	if err := mirror(filepath.Join(from, rbacSource), filepath.Join(to, rbacTarget), namespaced); err != nil {
		return err
	}
	for target, source := range copied {
		raw, err := os.ReadFile(filepath.Join(from, source))
		if err != nil {
			return err
		}
		target = filepath.Join(to, filesTarget, target)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(target, raw, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// mirror replaces target by the changed files of source.
func mirror(source, target string, change func([]byte) ([]byte, error)) error {
	if err := os.RemoveAll(target); err != nil {
		return err
	}
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	return filepath.WalkDir(source, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml" || entry.Name() == "kustomization.yaml" || entry.Name() == roleName {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		changed, err := change(raw)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		return os.WriteFile(filepath.Join(target, entry.Name()), changed, 0o644)
	})
}

// keep adds the annotation where controller-gen's own annotation is.
func keep(crd []byte) ([]byte, error) {
	const before, after = "\nmetadata:\n  annotations:\n", "    helm.sh/resource-policy: keep\n"
	if bytes.Count(crd, []byte(before)) != 1 {
		return nil, errors.New("want one place for metadata.annotations")
	}
	return bytes.Replace(crd, []byte(before), []byte(before+after), 1), nil
}

func namespaced(role []byte) ([]byte, error) {
	if bytes.Contains(role, []byte("{{")) {
		return nil, errors.New("its braces would be interpreted by Helm")
	}
	return bytes.ReplaceAll(role, []byte("namespace: trellis-system"), []byte("namespace: {{ .Release.Namespace }}")), nil
}
