// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"bytes"
	"context"
	"go/parser"
	"go/printer"
	"go/token"
	"strings"

	"github.com/trellis-k8s/trellis/hack/git"
)

// onlyComments lists the changed Go files of which two commits differ only in comments.
func onlyComments(ctx context.Context, clone, from, to string, specs []string) ([]string, error) {
	diff := []string{"diff", "--name-only", "--no-renames", "--diff-filter=M", from, to, "--"}
	changed, err := git.Run(ctx, clone, append(diff, specs...)...)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, file := range strings.Fields(changed) {
		if !strings.HasSuffix(file, ".go") {
			continue
		}
		before, err := codeOf(ctx, clone, from, file)
		if err != nil {
			return nil, err
		}
		after, err := codeOf(ctx, clone, to, file)
		if err != nil {
			return nil, err
		}
		if before == after {
			files = append(files, file)
		}
	}
	return files, nil
}

// codeOf returns a Go file of a commit without its comments, followed by those that compilers and generators read, such as //go:embed and
// +kubebuilder. It returns a file that is not valid Go as it is.
func codeOf(ctx context.Context, clone, commit, file string) (string, error) {
	source, err := git.Run(ctx, clone, "show", commit+":"+file)
	if err != nil {
		return "", err
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), file, source, parser.SkipObjectResolution)
	if err != nil {
		return source, nil //nolint:nilerr // any change of the file counts
	}
	var out bytes.Buffer
	if err := printer.Fprint(&out, token.NewFileSet(), parsed); err != nil {
		return "", err
	}
	for line := range strings.Lines(source) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "//go:") || strings.HasPrefix(line, "// +") {
			out.WriteString(line + "\n")
		}
	}
	return out.String(), nil
}
