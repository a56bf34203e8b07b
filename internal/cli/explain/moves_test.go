// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-k8s/trellis/internal/cli/text"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/golden"
)

// embed is a deployment with one worker of 4 GPUs whose replicas may move.
const embed = `
apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeployment
metadata: {name: embed, namespace: team-b, annotations: {trellis.dev/may-move: "true"}}
spec:
  topologyConstraint: {topologyProfile: hall, packDomain: zone}
  services:
    Worker:
      componentType: worker
      resources: {limits: {gpu: "4"}}
      extraPodSpec: {mainContainer: {image: app}}`

// withMovable is the situation of waiting, with a replica of 4 GPUs in the third rack that may move: a half of another host is free.
func withMovable(t *testing.T) *world {
	w := newWorld(t, nodes(t, 1, 3, 2), topologyManifest, embed)
	w.resolve("embed-worker-0 node a-2-0")
	movables, groups, pods := w.Graphs, w.Groups, w.Pods
	w = newWorld(t, nodes(t, 1, 3, 2), topologyManifest, chat)
	w.occupy("train-7", "a-1-1", "8").occupy("train-8", "a-1-0", "4")
	w.resolve(firstRuns + "chat-worker-1-0 gated\nchat-worker-1-1 gated")
	w.Graphs, w.Groups, w.Pods = append(w.Graphs, movables...), append(w.Groups, groups...), append(w.Pods, pods...)
	for _, pod := range w.Pods {
		if pod.Labels[render.LabelGraph] == "embed" {
			pod.CreationTimestamp = ago(2 * time.Hour)
		}
	}
	return w.condition(placed, false, "InsufficientCapacity", w.said())
}

// The report names moves that would free the place, and the command that lists them.
func TestMoves(t *testing.T) {
	report := Build(withMovable(t).Subject)
	golden.Check(t, filepath.Join("testdata", "moves.golden"), report.Text(text.Page{}))
	m := report.Moves
	if m == nil {
		t.Fatal("there are no moves")
	}
	want := Moves{Gang: "Worker-1", Domain: "a/r2", Replicas: 1, GPUs: 4, Command: "kubectl trellis repack --for chat -n team-a"}
	if *m != want {
		t.Errorf("%+v, want %+v", *m, want)
	}
	for name, change := range map[string]func(w *world){
		"not allowed": func(w *world) { w.Graphs[1].Annotations = nil },
		"too young": func(w *world) {
			for _, pod := range w.Pods {
				pod.CreationTimestamp = ago(59 * time.Minute)
			}
		},
		"no other place": func(w *world) { w.occupy("train-9", "a-1-0", "4") },
	} {
		w := withMovable(t)
		change(w)
		if r := Build(w.Subject); r.Moves != nil || strings.Contains(r.Text(text.Page{}), "repack") {
			t.Errorf("%s: %+v", name, r.Moves)
		}
	}
}
