// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package suggest

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/trellis-k8s/trellis/test/testutil/apiserver"
)

// Without files the nodes are those of the cluster.
func TestSuggestForACluster(t *testing.T) {
	env := &envtest.Environment{}
	admin := apiserver.Start(t, env)
	nodes := demoNodes()[:8]
	for i := range nodes {
		status := nodes[i].Status
		if err := admin.Create(t.Context(), &nodes[i]); err != nil {
			t.Fatal(err)
		}
		nodes[i].Status = status
		if err := admin.Status().Update(t.Context(), &nodes[i]); err != nil {
			t.Fatal(err)
		}
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, env.KubeConfig, 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd := NewCommand(genericiooptions.IOStreams{Out: &out, ErrOut: &out})
	cmd.SetArgs([]string{"suggest", "--kubeconfig", kubeconfig})
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := "# Proposed from the labels of 8 nodes.\n#\n# LEVEL  DOMAINS  NODES  LABELED BY\n# zone         1    8/8  Kubernetes\n"; !strings.HasPrefix(out.String(), want) {
		t.Errorf("got\n%s\nwant it to begin with\n%s", out.String(), want)
	}
}
