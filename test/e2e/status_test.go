// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/test/testutil/tier"
)

// plugin prepares kubectl trellis in the world's namespace.
func (w *world) plugin(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(w.t.Context(), "../../bin/kubectl-trellis", append(args, "-n", w.name)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+w.cluster.Kubeconfig())
	return cmd
}

// Somebody scales out, watches, and gets on with it when all replicas serve: the command ends then, and not while one waits for capacity.
func TestStatusWatch(t *testing.T) {
	tier.All(t)
	w := newWorld(t, "status", racks(2, 8, "a/r0")...)
	blocker := w.occupy("other", "a-r0-1", 8)
	w.create(w.graphOf("llm", "zone", services{"Decode": worker(1, 1, 8, "rack"), "Frontend": frontend(1)}))
	w.ready("llm")

	w.scale("llm", "Decode", 2)
	cmd := w.plugin("status", "dgd/llm", "--watch", "--timeout", patience.String())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var seen []string
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		seen = append(seen, lines.Text())
		if strings.Contains(lines.Text(), "waiting: a place for 1 replica") && blocker != nil {
			t.Log("it waits for capacity; the capacity is made")
			if err := w.c.Delete(t.Context(), blocker); err != nil {
				t.Fatal(err)
			}
			blocker = nil
		}
	}
	_, _ = io.Copy(io.Discard, out)
	if err := cmd.Wait(); err != nil || blocker != nil {
		t.Fatalf("%v, after:\n%s", err, strings.Join(seen, "\n"))
	}
	if last := seen[len(seen)-1]; !strings.HasSuffix(last, "llm in status is ready, placed in a") {
		t.Errorf("the last line is %q", last)
	}
	report := struct {
		Done     bool
		Services []struct {
			Name           string
			Ready, Desired int
			Where          []struct{ Domain string }
		}
	}{}
	text, err := w.plugin("status", "llm", "-o", "json").Output()
	if err != nil || json.Unmarshal(text, &report) != nil || !report.Done || report.Services[0].Ready != 2 || report.Services[0].Where[0].Domain == "" {
		t.Errorf("%v: %s", err, text)
	}

	t.Log("a graph that is not there, and one that goes while it is watched")
	if text, err := w.plugin("status", "dgd/nobody").CombinedOutput(); err == nil || !strings.Contains(string(text), "DynamoGraphDeployment status/nobody not found") {
		t.Errorf("%v: %s", err, text)
	}
	forever := w.plugin("status", "dgd/llm", "--watch", "--forever")
	if out, err = forever.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := forever.Start(); err != nil {
		t.Fatal(err)
	}
	if lines = bufio.NewScanner(out); !lines.Scan() {
		t.Fatal("it says nothing")
	}
	if err := w.c.Delete(t.Context(), w.dgd("llm"), client.PropagationPolicy("Foreground")); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, out)
	if err := forever.Wait(); err == nil || forever.ProcessState.ExitCode() != 1 {
		t.Errorf("it ended with %v", err)
	}
}
