// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/internal/cli/tree"
	"github.com/trellis-k8s/trellis/test/testutil/simulated"
	"github.com/trellis-k8s/trellis/test/testutil/worlds"
)

// cluster is a running cluster, with the programs of a user.
type cluster struct {
	*testing.T
	kubectl string
	env     []string
}

// startCluster starts a cluster of two racks of four hosts with the operator. One graph has two replicas of two hosts; another graph waits
// for three hosts of one rack.
func startCluster(t *testing.T) *cluster {
	t.Helper()
	dir, err := os.MkdirTemp("", "map") // short, because of the path of a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sandbox.Down(context.WithoutCancel(t.Context()), dir); err != nil {
			t.Error(err)
		}
	})
	shape := simulated.Shape{Zones: 1, Blocks: 1, Racks: 2, Hosts: 4, GPUs: 8}
	s, err := sandbox.Up(t.Context(), sandbox.Options{Name: "map", Dir: dir, Shape: shape, Operator: true})
	if err != nil {
		t.Fatal(err)
	}
	bin, err := filepath.Abs(root + "/bin")
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{T: t, kubectl: filepath.Join(s.Assets(), "kubectl"), env: append(os.Environ(), "KUBECONFIG="+s.Kubeconfig(), "PATH="+s.Assets()+":"+bin+":"+os.Getenv("PATH"))}
	c.run("apply", "-f", root+"/config/samples/clustertopology.yaml")
	graphs := filepath.Join(t.TempDir(), "graphs.yaml")
	manifests := worlds.Graph("default", "runs", "rack", 2, 2, 8) + "---" + worlds.Graph("default", "waits", "rack", 1, 3, 8)
	if err := os.WriteFile(graphs, []byte(manifests), 0o600); err != nil {
		t.Fatal(err)
	}
	c.run("cordon", "zone-0-block-0-rack-1-host-3")
	c.run("apply", "-f", graphs)
	c.run("wait", "--for=condition=Ready", "dgd/runs", "--timeout=1m")
	c.run("wait", "--for=condition=Placed=False", "dgd/waits", "--timeout=1m")
	c.run("wait", "--for=jsonpath={.status.conditions[?(@.type==\"Placed\")].reason}=InsufficientCapacity", "dgd/waits", "--timeout=1m")
	return c
}

// run runs kubectl, and returns its output.
func (c *cluster) run(args ...string) []byte {
	c.Helper()
	cmd := exec.CommandContext(c.Context(), c.kubectl, args...)
	cmd.Env = c.env
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		c.Fatalf("kubectl %q: %v: %s%s", args, err, out, &errs)
	}
	return out
}

// TestRunningCluster: the plugin's map of a running cluster agrees with tree, and the served page follows the cluster.
func TestRunningCluster(t *testing.T) {
	c, browser := startCluster(t), start(t)
	file := filepath.Join(t.TempDir(), "map.html")
	if err := os.WriteFile(file, c.run("trellis", "map"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := open(t, browser, "file://"+file, wide)
	agree(t, c.tree(), js[drawn](p, readDrawn))
	want(p, "what waits", `document.querySelectorAll('#waiting .card').length`, 1)
	p.shot("running-cluster")

	p = open(t, browser, c.serve(), wide)
	agree(t, c.tree(), js[drawn](p, readDrawn))
	const host = "zone-0-block-0-rack-0-host-0"
	want(p, "cordoned at first", fmt.Sprintf(`document.querySelectorAll('.host[data-name=%q].out').length`, host), 0)
	c.run("cordon", host)
	p.run(chromedp.WaitVisible(fmt.Sprintf(`.host[data-name=%q].out`, host), chromedp.ByQuery))
	c.run("delete", "dgd", "waits")
	p.run(chromedp.WaitNotPresent(`#waiting .card`, chromedp.ByQuery))
	agree(t, c.tree(), js[drawn](p, readDrawn))
	p.shot("running-cluster-served")
}

// tree returns the output of tree -o json for the cluster.
func (c *cluster) tree() drawn {
	c.Helper()
	var report tree.Overview
	if err := json.Unmarshal(c.run("trellis", "tree", "-A", "-o", "json"), &report); err != nil {
		c.Fatal(err)
	}
	return reported(c.T, report)[0]
}

// serve runs map --serve until the end of the test, and returns its address.
func (c *cluster) serve() string {
	c.Helper()
	cmd := exec.CommandContext(c.Context(), root+"/bin/kubectl-trellis", "map", "--serve")
	cmd.Env = c.env
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	says, err := cmd.StderrPipe()
	if err != nil {
		c.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() {
		_, _ = io.Copy(io.Discard, says)
		_ = cmd.Wait() // the process was interrupted
	})
	lines := bufio.NewScanner(says)
	for lines.Scan() {
		if address := regexp.MustCompile(`http://\S+/`).FindString(lines.Text()); address != "" {
			return address
		}
	}
	c.Fatal("map --serve says no address")
	return ""
}
