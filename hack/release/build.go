// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
)

// The programs, the image and their addresses.
const (
	manager    = "trellis-manager"
	plugin     = "kubectl-trellis"
	imageName  = "ghcr.io/trellis-k8s/trellis-manager"
	homepage   = "https://github.com/trellis-k8s/trellis"
	licence    = "LICENSE"
	changeNote = "CHANGES.md"
)

// platform is the target of a binary.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "/" + p.arch }

// Platforms of the programs. The manager runs in containers only.
var (
	imagePlatforms  = []platform{{"linux", "amd64"}, {"linux", "arm64"}}
	pluginPlatforms = []platform{
		{"darwin", "amd64"}, {"darwin", "arm64"}, {"linux", "amd64"}, {"linux", "arm64"}, {"windows", "amd64"}, {"windows", "arm64"},
	}
)

// binary is a built program.
type binary struct {
	program string
	platform
	path string
}

// options are the options of a build.
type options struct {
	// repository is the clone, ref the released commit, version its version, out an empty folder for the results.
	repository, ref, version, out string
	// platforms limits the build to these platforms, such as linux/amd64; none: all.
	platforms []string
	// withoutEvidence permits a full release although long runs are missing or older than the code, for tests.
	withoutEvidence bool
}

// of returns the selected platforms of a program.
func (o options) of(all []platform) []platform {
	return slices.DeleteFunc(slices.Clone(all), func(p platform) bool {
		return len(o.platforms) > 0 && !slices.Contains(o.platforms, p.String())
	})
}

// release is one build of all artefacts.
type release struct {
	source
	options
	work string // scratch folder
	say  func(format string, args ...any)
}

// build writes all artefacts of a commit of the repository.
func build(ctx context.Context, o options, say func(string, ...any)) error {
	if semver.Canonical(o.version) != o.version || o.version == "" {
		return fmt.Errorf("version %q: want a semantic version with a leading v, such as v0.1.0 or v0.2.0-rc.1", o.version)
	}
	if err := wantEmpty(o.out); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "trellis-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	src, err := checkout(ctx, o, filepath.Join(work, "source"), say)
	if err != nil {
		return err
	}
	r := &release{source: src, options: o, work: work, say: say}
	notes, err := r.notes()
	if err != nil {
		return err
	}
	if err := r.checkNamed(); err != nil {
		return err
	}
	if err := r.checkEvidence(ctx); err != nil {
		return err
	}
	return r.write(ctx, notes)
}

// write writes the artefacts in the order of their dependencies.
func (r *release) write(ctx context.Context, notes string) error {
	managers, err := r.compile(ctx, manager, r.of(imagePlatforms))
	if err != nil {
		return err
	}
	plugins, err := r.compile(ctx, plugin, r.of(pluginPlatforms))
	if err != nil {
		return err
	}
	digest, err := r.writeImage(managers)
	if err != nil {
		return fmt.Errorf("making the image: %w", err)
	}
	r.say("image %s:%s@%s", imageName, r.version, digest)
	archives, err := r.writeArchives(plugins)
	if err != nil {
		return fmt.Errorf("packing the plugin: %w", err)
	}
	notes += fmt.Sprintf("\nImage: `%s:%s@%s`\n", imageName, r.version, digest)
	for _, step := range []func() error{
		func() error { return r.writeInstall() },
		func() error { return r.writeChart(ctx) },
		func() error { return r.writeSBOM(managers) },
		func() error { return r.writeSBOM(plugins) },
		func() error { return r.writeKrew(archives) },
		func() error { return r.writeFile(changeNote, []byte(notes)) },
		func() error { return r.writeChecksums() },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	r.say("wrote %s", r.out)
	return nil
}

func (r *release) writeFile(name string, data []byte) error {
	return os.WriteFile(filepath.Join(r.out, name), data, 0o644) //nolint:gosec // the artefacts of a release are public
}

// artefact returns the name of a file of the release: PROGRAM_VERSION_SUFFIX.
func (r *release) artefact(program, suffix string) string {
	return strings.Join([]string{program, r.version, suffix}, "_")
}

// wantEmpty creates a folder, or returns an error if it has content: leftovers would be shipped, with a checksum.
func wantEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return os.MkdirAll(dir, 0o755) //nolint:gosec // the artefacts of a release are public
	}
	if err != nil {
		return err
	}
	if len(entries) > 0 {
		return fmt.Errorf("%s is not empty", dir)
	}
	return nil
}
