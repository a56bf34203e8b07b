// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// read returns the files of an archive by name, and the targets of its links.
func read(t *testing.T, archive []byte) map[string]string {
	t.Helper()
	files, r := map[string]string{}, tar.NewReader(bytes.NewReader(archive))
	for {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(data) + header.Linkname
	}
}

func TestImage(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, []byte("code"), 0o700); err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(dir, "root")
	if err := os.MkdirAll(filepath.Join(root, "usr", "lib"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "usr", "lib", "a"), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("a", filepath.Join(root, "usr", "lib", "b")); err != nil {
		t.Fatal(err)
	}
	image := Image{
		Name: "localhost/x:1", Root: root, Path: "/usr/bin:/bin", Files: map[string]string{"/usr/bin/x": program}, Links: map[string]string{"/bin/y": "/usr/bin/x"},
		Entrypoint: []string{"/bin/y"},
	}
	if err := image.write(dir); err != nil {
		t.Fatal(err)
	}
	archive, err := os.ReadFile(filepath.Join(dir, "localhost_x_1.tar"))
	if err != nil {
		t.Fatal(err)
	}
	files := read(t, archive)
	var manifest []struct {
		Config           string
		RepoTags, Layers []string
	}
	if err := json.Unmarshal([]byte(files["manifest.json"]), &manifest); err != nil || len(manifest) != 1 || len(manifest[0].Layers) != 1 {
		t.Fatalf("manifest %s: %v", files["manifest.json"], err)
	}
	layer := files[manifest[0].Layers[0]]
	want := map[string]string{
		"bin/": "", "etc/": "", "tmp/": "", "usr/": "", "usr/bin/": "", "var/": "", "usr/bin/x": "code", "bin/y": "/usr/bin/x",
		"usr/lib/": "", "usr/lib/a": "text", "usr/lib/b": "a",
	}
	if diff := cmp.Diff(want, read(t, []byte(layer))); diff != "" {
		t.Errorf("layer (-want +got):\n%s", diff)
	}
	config := files[manifest[0].Config]
	if !slices.Equal(manifest[0].RepoTags, []string{"localhost/x:1"}) || !strings.Contains(config, digest([]byte(layer))) || !strings.Contains(config, `"Entrypoint":["/bin/y"]`) ||
		!strings.Contains(config, `"Env":["PATH=/usr/bin:/bin"]`) {
		t.Errorf("tags %v, configuration %s", manifest[0].RepoTags, config)
	}
}

// On a machine that cannot run real nodes, Up names the missing programs or rights, and starts nothing.
func TestRealNodesAreRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		count int
		path  string
		want  string
	}{
		"fewer than none": {-1, os.Getenv("PATH"), "-1 real nodes: want at most 100"},
		"too many":        {101, os.Getenv("PATH"), "101 real nodes: want at most 100"},
		"no packages":     {1, t.TempDir(), "util-linux busybox-static; install them with: apt-get install -y "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("PATH", tc.path)
			_, err := RealNodes{Count: tc.count}.complete()
			want := tc.want
			if tc.count == 1 && runtime.GOOS != "linux" {
				want = "need Linux"
			} else if tc.count == 1 && os.Geteuid() != 0 {
				want = "need root"
			}
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want %q", err, want)
			}
		})
	}
	if _, err := (RealNodes{}).complete(); err != nil {
		t.Errorf("without real nodes: %v", err)
	}
}

// Folders of a sandbox are not removed while something is mounted below.
func TestMountsKeepFolders(t *testing.T) {
	const mounts = "36 35 8:1 / / rw - ext4 /dev/vda rw\n40 36 0:5 / /s/nodes/real-0/root/proc rw - proc proc rw\n"
	if err := unmounted("/s/nodes", mounts); err == nil || !strings.Contains(err.Error(), "/s/nodes/real-0/root/proc is still mounted") {
		t.Errorf("error %v, want the mount", err)
	}
	if err := unmounted("/s/nodes/real", mounts); err != nil {
		t.Errorf("of another folder: %v", err)
	}
}
