// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// file is a file of an archive. root owns all files.
type file struct {
	name string
	mode fs.FileMode
	data []byte
}

// filesOf returns the binary and its licence.
func (r *release) filesOf(b binary) ([]file, error) {
	program, err := os.ReadFile(b.path)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(r.dir, licence))
	if err != nil {
		return nil, err
	}
	return []file{{licence, 0o644, text}, {filepath.Base(b.path), 0o755, program}}, nil
}

// folder reads every file below a folder, in the order of their names.
func folder(dir string) ([]file, error) {
	var files []file
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(dir, path)
		files = append(files, file{filepath.ToSlash(relative), 0o644, data})
		return err
	})
	return files, err
}

// writeTar writes files in order, all with the same time.
func writeTar(w io.Writer, files []file, at time.Time) error {
	archive := tar.NewWriter(w)
	for _, f := range files {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: int64(f.mode), Size: int64(len(f.data)), ModTime: at,
			Format: tar.FormatUSTAR}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(f.data); err != nil {
			return err
		}
	}
	return archive.Close()
}

func writeTarGz(w io.Writer, files []file, at time.Time) error {
	compressed, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	return errors.Join(writeTar(compressed, files, at), compressed.Close())
}

// readTarGz reads the regular files of an archive, in the order of their names.
func readTarGz(r io.Reader) ([]file, error) {
	plain, err := gzip.NewReader(r)
	if err != nil {
		return nil, err
	}
	var files []file
	for archive := tar.NewReader(plain); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			slices.SortFunc(files, func(a, b file) int { return cmp.Compare(a.name, b.name) })
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		data, err := io.ReadAll(archive)
		if err != nil {
			return nil, err
		}
		files = append(files, file{header.Name, header.FileInfo().Mode(), data})
	}
}

func writeZip(w io.Writer, files []file, at time.Time) error {
	archive := zip.NewWriter(w)
	for _, f := range files {
		header := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: at}
		header.SetMode(f.mode)
		entry, err := archive.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := entry.Write(f.data); err != nil {
			return err
		}
	}
	return archive.Close()
}

// archive is the plugin's archive for one platform.
type archive struct {
	platform
	name, bin, sha256 string
}

// writeArchives packs the plugin in the usual archive format of each system.
func (r *release) writeArchives(plugins []binary) ([]archive, error) {
	var written []archive
	for _, b := range plugins {
		files, err := r.filesOf(b)
		if err != nil {
			return nil, err
		}
		suffix, write := ".tar.gz", writeTarGz
		if b.os == "windows" {
			suffix, write = ".zip", writeZip
		}
		var packed bytes.Buffer
		if err := write(&packed, files, r.time); err != nil {
			return nil, err
		}
		name := r.artefact(plugin, b.os+"_"+b.arch+suffix)
		if err := r.writeFile(name, packed.Bytes()); err != nil {
			return nil, err
		}
		written = append(written, archive{b.platform, name, filepath.Base(b.path), sum(packed.Bytes())})
	}
	return written, nil
}

func sum(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data)) }

// writeChecksums lists the checksum of every file of the release for sha256sum --check. The folder of the OCI layout is left out, because
// it has its own digests.
func (r *release) writeChecksums() error {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var lines strings.Builder
	for _, entry := range entries {
		if entry.IsDir() {
			continue
		}
		data, err := os.ReadFile(filepath.Join(r.out, entry.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&lines, "%s  %s\n", sum(data), entry.Name())
	}
	return r.writeFile("checksums.txt", []byte(lines.String()))
}
