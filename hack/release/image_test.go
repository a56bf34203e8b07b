// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// small returns a release with two lines of text in place of each program.
func small(t *testing.T, version string) *release {
	t.Helper()
	dir, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	return &release{
		source:  source{dir: dir, commit: strings.Repeat("a", 40), time: time.Unix(1_800_000_000, 0).UTC()},
		options: options{version: version, out: t.TempDir()}, work: t.TempDir(), say: t.Logf,
	}
}

// programs writes placeholders for built programs.
func programs(t *testing.T, r *release, program string, platforms []platform) []binary {
	t.Helper()
	var built []binary
	for _, p := range platforms {
		b := binary{program, p, filepath.Join(r.work, p.os+"-"+p.arch, program)}
		if p.os == "windows" {
			b.path += ".exe"
		}
		if err := os.MkdirAll(filepath.Dir(b.path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(b.path, []byte("#!/bin/sh\necho "+p.String()+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		built = append(built, b)
	}
	return built
}

// startRegistry serves an empty registry and returns its address.
func startRegistry(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// pull fetches the images of a name with a digest, by platform.
func pull(t *testing.T, pushed string) map[string]v1.Image {
	t.Helper()
	ref, err := name.NewDigest(pushed)
	if err != nil {
		t.Fatal(err)
	}
	index, err := remote.Index(ref, remote.WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	images := map[string]v1.Image{}
	for _, m := range manifest.Manifests {
		if images[m.Platform.String()], err = index.Image(m.Digest); err != nil {
			t.Fatal(err)
		}
	}
	return images
}

// unpack reads the files of all layers of an image.
func unpack(t *testing.T, image v1.Image) map[string]file {
	t.Helper()
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]file{}
	for _, layer := range layers {
		content, err := layer.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		for archive := tar.NewReader(content); ; {
			header, err := archive.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if header.Uid != 0 || header.Gid != 0 {
				t.Errorf("%s belongs to %d:%d, want root", header.Name, header.Uid, header.Gid)
			}
			data, err := io.ReadAll(archive)
			if err != nil {
				t.Fatal(err)
			}
			files[header.Name] = file{header.Name, header.FileInfo().Mode(), data}
		}
		if err := content.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// checkImages checks everything in an image except the program's bytes.
func checkImages(t *testing.T, images map[string]v1.Image, version string, created time.Time) {
	t.Helper()
	for _, p := range imagePlatforms {
		image := images[p.String()]
		if image == nil || len(images) != len(imagePlatforms) {
			t.Fatalf("no image for %s, or others, in %v", p, images)
		}
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		want := v1.Config{User: "65532:65532", Entrypoint: []string{"/trellis-manager"}, Labels: config.Config.Labels}
		if diff := cmp.Diff(want, config.Config); diff != "" {
			t.Errorf("%s: -want +got:\n%s", p, diff)
		}
		if config.OS != p.os || config.Architecture != p.arch || !config.Created.Equal(created) {
			t.Errorf("image of %s is for %s/%s, created %s, want %s", p, config.OS, config.Architecture, config.Created, created)
		}
		if got := config.Config.Labels["org.opencontainers.image.version"]; got != version {
			t.Errorf("%s: label of the version %q, want %q", p, got, version)
		}
		modes := map[string]string{}
		for name, f := range unpack(t, image) {
			modes[name] = f.mode.String()
		}
		if diff := cmp.Diff(map[string]string{"LICENSE": "-rw-r--r--", "trellis-manager": "-rwxr-xr-x"}, modes); diff != "" {
			t.Errorf("%s: -want +got:\n%s", p, diff)
		}
	}
}

func TestImageIsPushedAndPulled(t *testing.T) {
	r := small(t, "v0.3.0")
	digest, err := r.writeImage(programs(t, r, manager, imagePlatforms))
	if err != nil {
		t.Fatal(err)
	}
	address := startRegistry(t)
	pushed, err := push(t.Context(), filepath.Join(r.out, manager), address+"/trellis-manager:v0.3.0")
	if want := address + "/trellis-manager@" + digest.String(); err != nil || pushed != want {
		t.Fatalf("pushed %q (%v), want %q", pushed, err, want)
	}
	checkImages(t, pull(t, pushed), "v0.3.0", r.time)
}

func TestPushWantsATag(t *testing.T) {
	r := small(t, "v0.3.0")
	if _, err := r.writeImage(programs(t, r, manager, imagePlatforms)); err != nil {
		t.Fatal(err)
	}
	if _, err := push(t.Context(), filepath.Join(r.out, manager), startRegistry(t)+"/trellis-manager"); err == nil {
		t.Error("pushed without a tag: it would become latest")
	}
}

// TestSameFilesSameBytes checks that the image and the archives do not depend on the time and place of the build.
func TestSameFilesSameBytes(t *testing.T) {
	var sums []string
	for range 2 {
		r := small(t, "v0.3.0")
		if _, err := r.writeImage(programs(t, r, manager, imagePlatforms)); err != nil {
			t.Fatal(err)
		}
		if _, err := r.writeArchives(programs(t, r, plugin, pluginPlatforms)); err != nil {
			t.Fatal(err)
		}
		if err := r.writeChecksums(); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(r.out, "checksums.txt"))
		if err != nil {
			t.Fatal(err)
		}
		sums = append(sums, string(data))
	}
	if diff := cmp.Diff(sums[0], sums[1]); diff != "" {
		t.Errorf("-first +second:\n%s", diff)
	}
	if lines := strings.Count(sums[0], "\n"); lines != 1+len(pluginPlatforms) {
		t.Errorf("%d checksums:\n%s", lines, sums[0])
	}
}
