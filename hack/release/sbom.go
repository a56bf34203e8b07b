// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/uuid"
	"github.com/package-url/packageurl-go"
)

// writeSBOM writes the bill of materials of a program as CycloneDX JSON: the modules that the Go toolchain recorded in its binaries, for
// all platforms together.
func (r *release) writeSBOM(binaries []binary) error {
	program := binaries[0].program
	modules, toolchain := map[string]*debug.Module{}, ""
	var files []cdx.Component
	for _, b := range binaries {
		info, err := buildinfo.ReadFile(b.path)
		if err != nil {
			return err
		}
		toolchain = info.GoVersion
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			modules[m.Path] = m
		}
		data, err := os.ReadFile(b.path)
		if err != nil {
			return err
		}
		files = append(files, cdx.Component{
			Type: cdx.ComponentTypeFile, Name: program + " for " + b.platform.String(),
			Hashes: &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: sum(data)}},
		})
	}
	bom, err := r.bom(program, files, modules, toolchain)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6); err != nil {
		return err
	}
	return r.writeFile(r.artefact(program, "sbom.cdx.json"), out.Bytes())
}

func (r *release) bom(program string, files []cdx.Component, modules map[string]*debug.Module, toolchain string) (*cdx.BOM, error) {
	std, err := library("std", strings.TrimPrefix(toolchain, "go"))
	if err != nil {
		return nil, err
	}
	components := []cdx.Component{std}
	for _, m := range modules {
		component, err := library(m.Path, m.Version)
		if err != nil {
			return nil, err
		}
		if m.Sum != "" {
			digest, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:"))
			if err != nil {
				return nil, fmt.Errorf("checksum of %s: %w", m.Path, err)
			}
			component.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(digest)}}
		}
		components = append(components, component)
	}
	slices.SortFunc(components, func(a, b cdx.Component) int { return cmp.Compare(a.PackageURL, b.PackageURL) })
	var refs []string
	for _, c := range components {
		refs = append(refs, c.BOMRef)
	}
	main, err := library("github.com/trellis-k8s/trellis", r.version)
	if err != nil {
		return nil, err
	}
	main.Type, main.Name, main.Components = cdx.ComponentTypeApplication, program, &files
	main.Licenses = &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}}
	bom := cdx.NewBOM()
	bom.SerialNumber = uuid.NewSHA1(uuid.NameSpaceURL, []byte(strings.Join([]string{homepage, program, r.version, r.commit}, " "))).URN()
	bom.Metadata = &cdx.Metadata{Timestamp: r.time.Format(time.RFC3339), Component: &main}
	bom.Components = &components
	bom.Dependencies = &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &refs}}
	return bom, nil
}

// library returns a Go module as a component.
func library(path, version string) (cdx.Component, error) {
	namespace, name := "", path
	if i := strings.LastIndex(path, "/"); i >= 0 {
		namespace, name = path[:i], path[i+1:]
	}
	purl := packageurl.NewPackageURL(packageurl.TypeGolang, namespace, name, version, nil, "")
	if err := purl.Normalize(); err != nil {
		return cdx.Component{}, fmt.Errorf("package URL of %s: %w", path, err)
	}
	url := purl.ToString()
	return cdx.Component{Type: cdx.ComponentTypeLibrary, BOMRef: url, Name: path, Version: version, PackageURL: url}, nil
}
