// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"archive/tar"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Image is a container image that the sandbox makes from files of this machine.
type Image struct {
	// Name is the name with a tag, such as localhost/peer:1.
	Name string
	// Root is a folder of this machine with the file system of the image, to which Files and Links are added. If it is empty the image
	// has only Files and Links.
	Root string
	// Files are files of this machine by their paths in the image. Without Root they must be statically linked programs.
	Files map[string]string
	// Links are the targets of symbolic links by their paths in the image.
	Links map[string]string
	// Path is the search path for programs; default /bin.
	Path string
	// Entrypoint is the command of containers that specify none.
	Entrypoint []string
}

const (
	busyboxPath = "/bin/busybox"
	// longest is an argument of sleep, in seconds, that outlasts any sandbox.
	longest = "2147483647"
)

// BusyboxImage is an image with the shell and the tools of busybox.
func BusyboxImage(name string) (Image, error) {
	program, err := staticBusybox()
	if err != nil {
		return Image{}, err
	}
	out, err := exec.Command(program, "--list").Output()
	if err != nil {
		return Image{}, fmt.Errorf("listing the tools of %s: %w", program, err)
	}
	image := Image{Name: name, Files: map[string]string{busyboxPath: program}, Links: map[string]string{}, Entrypoint: []string{"/bin/sh"}}
	for _, tool := range strings.Fields(string(out)) {
		if tool != "busybox" {
			image.Links["/bin/"+tool] = busyboxPath
		}
	}
	return image, nil
}

// writeImages writes the image archives that nodes import.
func (s *Sandbox) writeImages(real RealNodes) error {
	busybox, err := BusyboxImage("localhost/busybox:1")
	if err != nil {
		return err
	}
	pause := busybox
	pause.Name, pause.Entrypoint = "localhost/pause:1", []string{"/bin/sleep", longest}
	if err := mkdir(s.path(imagesDir)); err != nil {
		return err
	}
	for _, image := range append([]Image{pause, busybox}, real.Images...) {
		if err := image.write(s.path(imagesDir)); err != nil {
			return fmt.Errorf("%s: %w", image.Name, err)
		}
	}
	for i, file := range real.Archives {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := writeFile(s.path(imagesDir, fmt.Sprintf("archive-%d.tar", i)), data); err != nil {
			return err
		}
	}
	return nil
}

// write writes the image as an archive in the format of docker save: one layer, a configuration and a manifest.
func (i Image) write(dir string) error {
	layer, err := i.layer()
	if err != nil {
		return err
	}
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"Entrypoint": i.Entrypoint, "Env": []string{"PATH=" + cmp.Or(i.Path, "/bin")}, "WorkingDir": "/"},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + digest(layer)}},
	})
	if err != nil {
		return err
	}
	configName, layerName := digest(config)+".json", digest(layer)+"/layer.tar"
	manifest, err := json.Marshal([]map[string]any{{"Config": configName, "RepoTags": []string{i.Name}, "Layers": []string{layerName}}})
	if err != nil {
		return err
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, f := range []struct {
		name string
		data []byte
	}{{configName, config}, {layerName, layer}, {"manifest.json", manifest}} {
		if err := addFile(w, f.name, f.data, 0o644); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, strings.NewReplacer("/", "_", ":", "_").Replace(i.Name)+".tar"), archive.Bytes())
}

// layer is the file system of the image as a tar archive.
func (i Image) layer() ([]byte, error) {
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	if i.Root != "" {
		if err := w.AddFS(os.DirFS(i.Root)); err != nil {
			return nil, err
		}
	}
	for _, dir := range i.folders() {
		mode := int64(0o755)
		if dir == "tmp" {
			mode = 0o1777
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: mode}); err != nil {
			return nil, err
		}
	}
	for _, name := range sortedKeys(i.Files) {
		data, err := os.ReadFile(i.Files[name])
		if err != nil {
			return nil, err
		}
		if err := addFile(w, strings.TrimPrefix(name, "/"), data, 0o755); err != nil {
			return nil, err
		}
	}
	for _, name := range sortedKeys(i.Links) {
		header := &tar.Header{Typeflag: tar.TypeSymlink, Name: strings.TrimPrefix(name, "/"), Linkname: i.Links[name]}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
	}
	err := w.Close() // Close writes the end of the archive
	return buffer.Bytes(), err
}

// folders are the folders of all files and links, and those that programs expect, parents first.
func (i Image) folders() []string {
	all := map[string]string{"etc": "", "tmp": "", "var": ""}
	for _, name := range append(sortedKeys(i.Files), sortedKeys(i.Links)...) {
		for dir := path.Dir(strings.TrimPrefix(name, "/")); dir != "."; dir = path.Dir(dir) {
			all[dir] = ""
		}
	}
	return sortedKeys(all)
}

func addFile(w *tar.Writer, name string, data []byte, mode int64) error {
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(data))}); err != nil {
		return err
	}
	_, err := w.Write(data)
	return err
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
