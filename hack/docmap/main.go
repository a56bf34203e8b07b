// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Command docmap draws docs/map.svg, the map in the README: the output of kubectl trellis map -f FILE -o svg for the cluster of make demo
// and a deployment that is only planned. It needs no cluster, and its output is deterministic.
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/trellis-k8s/trellis/internal/cli/maps"
	"github.com/trellis-k8s/trellis/internal/cli/plan"
	"github.com/trellis-k8s/trellis/test/testutil/worlds"
)

func main() {
	if err := run("."); err != nil {
		fmt.Fprintln(os.Stderr, "docmap:", err)
		os.Exit(1)
	}
}

// run draws the map of a clone of the repository.
func run(root string) error {
	b, err := worlds.Demo(root)
	if err != nil {
		return err
	}
	file := filepath.Join(root, "config/samples/whatif/new-llm.yaml")
	in, err := plan.Load(b.World, metav1.NamespaceDefault, []string{file}, genericiooptions.NewTestIOStreamsDiscard())
	if err != nil {
		return err
	}
	m, err := maps.Build(&maps.Source{Input: in, Files: true}, io.Discard)
	if err != nil {
		return err
	}
	return os.WriteFile(root+"/docs/map.svg", []byte(m.SVG()), 0o644) //nolint:gosec // the documentation is readable by all users
}
