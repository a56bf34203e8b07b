// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Stdin is the name of the standard input.
const Stdin = "-"

// extensions of the files that are read in a folder.
var extensions = []string{".json", ".yaml", ".yml"}

// Read reads files and folders in the given order. In a folder, it reads the manifests, sorted by name. The name "-" stands for stdin. The
// error joins all errors. Read also returns objects whose only errors are unknown fields.
func Read(names []string, stdin io.Reader) ([]Object, []Skipped, error) {
	all := contents{}
	for _, name := range names {
		paths, err := expand(name)
		if err != nil {
			all.errs = append(all.errs, err)
		}
		for _, path := range paths {
			data, err := content(path, stdin)
			if err != nil {
				all.errs = append(all.errs, err)
				continue
			}
			c := parse(path, data)
			all.objects, all.skipped, all.errs = append(all.objects, c.objects...), append(all.skipped, c.skipped...), append(all.errs, c.errs...)
		}
	}
	return all.objects, all.skipped, errors.Join(all.errs...)
}

func content(path string, stdin io.Reader) ([]byte, error) {
	if path == Stdin {
		data, err := io.ReadAll(stdin)
		if err != nil {
			return nil, fmt.Errorf("reading the standard input: %w", err)
		}
		return data, nil
	}
	return os.ReadFile(path)
}

// expand lists the manifests of a folder. For a file or the standard input, it returns only the name itself.
func expand(name string) ([]string, error) {
	if name == Stdin {
		return []string{name}, nil
	}
	info, err := os.Stat(name)
	if err != nil {
		var wrong *fs.PathError
		if errors.As(err, &wrong) {
			err = wrong.Err
		}
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if !info.IsDir() {
		return []string{name}, nil
	}
	entries, err := os.ReadDir(name)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, entry := range entries {
		if !entry.IsDir() && slices.Contains(extensions, filepath.Ext(entry.Name())) {
			paths = append(paths, filepath.Join(name, entry.Name()))
		}
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("%s: no file in it ends in %s", name, ".json, .yaml or .yml")
	}
	return paths, nil
}
