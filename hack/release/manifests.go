// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/krew/pkg/constants"
	krew "sigs.k8s.io/krew/pkg/index"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// writeInstall renders config/default with the image of this version.
func (r *release) writeInstall() error {
	overlay := filepath.Join(r.work, "overlay")
	if err := os.MkdirAll(overlay, 0o700); err != nil {
		return err
	}
	base, err := filepath.Rel(overlay, filepath.Join(r.dir, "config", "default"))
	if err != nil {
		return err
	}
	kustomization := fmt.Sprintf("resources: [%s]\nimages:\n- {name: %s, newTag: %s}\n", base, imageName, r.version)
	if err := os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), []byte(kustomization), 0o600); err != nil {
		return err
	}
	options := krusty.MakeDefaultOptions()
	options.Reorder = krusty.ReorderOptionLegacy // namespace and definitions first, like kubectl apply -k
	built, err := krusty.MakeKustomizer(options).Run(filesys.MakeFsOnDisk(), overlay)
	if err != nil {
		return fmt.Errorf("rendering config/default: %w", err)
	}
	text, err := built.AsYaml()
	if err != nil {
		return err
	}
	header := fmt.Sprintf("# Trellis %s: kubectl apply --server-side -f install.yaml\n", r.version)
	return r.writeFile("install.yaml", append([]byte(header), text...))
}

// writeChart packages the chart with Helm, and repacks it with the commit's time, because Helm writes the current time.
func (r *release) writeChart(ctx context.Context) error {
	version := strings.TrimPrefix(r.version, "v")
	_, err := run(ctx, r.dir, nil, "go", "tool", "-modfile=hack/tools/go.mod", "helm", "package", "charts/trellis",
		"--version", version, "--app-version", r.version, "--destination", r.work)
	if err != nil {
		return err
	}
	name := "trellis-" + version + ".tgz"
	packaged, err := os.Open(filepath.Join(r.work, name))
	if err != nil {
		return err
	}
	files, err := readTarGz(packaged)
	if err = errors.Join(err, packaged.Close()); err != nil {
		return fmt.Errorf("reading the chart's package: %w", err)
	}
	var packed bytes.Buffer
	if err := writeTarGz(&packed, files, r.time); err != nil {
		return err
	}
	return r.writeFile(name, packed.Bytes())
}

// writeKrew writes the manifest with which krew installs the plugin.
func (r *release) writeKrew(archives []archive) error {
	manifest := krew.Plugin{
		TypeMeta:   metav1.TypeMeta{APIVersion: constants.CurrentAPIVersion, Kind: constants.PluginKind},
		ObjectMeta: metav1.ObjectMeta{Name: "trellis"},
		Spec: krew.PluginSpec{
			Version:          r.version,
			Homepage:         homepage,
			ShortDescription: "Show and plan topology-aware placement of inference graphs",
			Description: "Shows where the pods of DynamoGraphDeployments sit in the network of a cluster,\n" +
				"explains why a replica waits, and plans a manifest without creating anything.\n",
		},
	}
	for _, a := range archives {
		manifest.Spec.Platforms = append(manifest.Spec.Platforms, krew.Platform{
			URI:      homepage + "/releases/download/" + r.version + "/" + a.name,
			Sha256:   a.sha256,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"os": a.os, "arch": a.arch}},
			Files:    []krew.FileOperation{{From: a.bin, To: "."}, {From: licence, To: "."}},
			Bin:      a.bin,
		})
	}
	text, err := yaml.Marshal(manifest)
	if err != nil {
		return err
	}
	return r.writeFile("trellis.yaml", text)
}
