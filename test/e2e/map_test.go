// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/cli/maps"
	"github.com/trellis-k8s/trellis/internal/cli/tree"
)

// podLines lists the pods of a tree by host, with what they take.
func podLines(d *tree.Domain, namespace string) []string {
	var out []string
	for _, p := range d.Pods {
		if p.Namespace == namespace {
			out = append(out, fmt.Sprintf("%s on %s takes %d %s", p.Name, d.Name, p.Amount, p.State))
		}
	}
	for _, child := range d.Children {
		out = append(out, podLines(child, namespace)...)
	}
	slices.Sort(out)
	return out
}

// The map of a real cluster has what tree says of it, as a page, a drawing and a served page that follows.
func TestMapDrawsTheCluster(t *testing.T) {
	w := newWorld(t, "map", racks(2, 8, "a/r0", "a/r1", "b/r0")...)
	w.occupy("train", "b-r0-1", 3)
	w.create(w.graphOf("g", "", services{"Worker": worker(2, 2, 8, "rack"), "Frontend": frontend(1)}))
	w.ready("g")

	drawn := asJSON[maps.Map](w, 0, "map", "--topology", w.name).Trees[0].Cluster
	told := asJSON[tree.Report](w, 0, "tree", "--topology", w.name).Trees[0].Cluster
	if *drawn.Amount != *told.Amount || !slices.Equal(podLines(drawn, w.name), podLines(told, w.name)) || len(podLines(told, w.name)) != 5 {
		t.Errorf("the map has %+v and\n%q\ntree %+v and\n%q", drawn.Amount, podLines(drawn, w.name), told.Amount, podLines(told, w.name))
	}
	html, _ := w.kubectlTrellis(0, "map")
	svg, _ := w.kubectlTrellis(0, "map", "-o", "svg", "--topology", w.name)
	if !strings.HasPrefix(html, "<!DOCTYPE html>") || !strings.Contains(svg, "g: Worker-1 leader, 8 GPUs") {
		t.Errorf("got a page of %d bytes and the drawing\n%s", len(html), svg)
	}
	w.servesChanges()
}

var address = regexp.MustCompile(`http://127\.0\.0\.1:\d+/`)

// servesChanges runs map --serve, cordons a host and waits until that is pushed.
func (w *world) servesChanges() {
	w.t.Helper()
	ctx, stop := context.WithTimeout(w.t.Context(), patience)
	defer stop()
	cmd := exec.CommandContext(ctx, "../../bin/kubectl-trellis", "map", "--serve", "--topology", w.name, "--kubeconfig", w.cluster.Kubeconfig())
	stderr, err := cmd.StderrPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	defer func() { stop(); _ = cmd.Wait() }()
	said := bufio.NewScanner(stderr)
	if !said.Scan() || !address.MatchString(said.Text()) {
		w.t.Fatalf("map --serve says %q, %v", said.Text(), said.Err())
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.FindString(said.Text())+"events", nil)
	if err != nil {
		w.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		w.t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<24)
	for first := true; lines.Scan(); first = false {
		if first {
			node := &corev1.Node{}
			node.Name = w.node("b-r0-0")
			if err := w.c.Patch(ctx, node, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"unschedulable":true}}`))); err != nil {
				w.t.Fatal(err)
			}
		}
		if strings.Contains(lines.Text(), `"name":"`+w.node("b-r0-0")+`","node":true,"state":"cordoned"`) {
			return
		}
	}
	w.t.Fatalf("the cordon was never pushed: %v", lines.Err())
}
