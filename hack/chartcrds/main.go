// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Command chartcrds copies into charts/trellis what config has too: the custom resource definitions, the rights, the alerts and the
// dashboard, so that both ways of installing give the same. Run it from the repository's root, after everything else that generates:
//
//	go run ./hack/chartcrds
//
// A definition becomes a plain file of the chart, which templates/crds.yaml reads: Helm never interprets its text, so braces and
// backticks in it are safe. It gets the annotation that makes Helm keep it on uninstall, for with a definition go all objects of its kind.
// A role becomes a template, in which only the namespace is a variable; but the operator's own (role.yaml) is copied as it is, because
// templates/manager_role.yaml takes it apart when only some namespaces are managed. So are the alerts and the dashboard, whose braces are
// not Helm's.
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

// copied are files that the chart holds as they are, by their place in charts/trellis/files: templates read them, and Helm interprets
// nothing in them.
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

// run reads below one root and writes below another, which is the same but in tests.
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

// mirror makes target hold the changed files of source and nothing else.
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
