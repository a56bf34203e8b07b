// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/cli/plugin"
	"github.com/trellis-k8s/trellis/internal/cli/text"
)

// graphs are how many deployments a crowded cluster has. The first waiting ones of them wait.
const graphs, waiting = 200, 104

// crowd adds hosts and deployments to a cluster. They are deleted when the test is over.
func (c *cluster) crowd(t *testing.T) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", c.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	scheme, err := cli.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	admin, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 24 {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("gpu-host-%d", i)}}
		node.Labels = map[string]string{"topology.kubernetes.io/zone": fmt.Sprintf("zone-%d", i%3), corev1.LabelHostname: node.Name}
		create(t, admin, node)
		patchStatus(t, admin, node, map[string]any{
			"allocatable": map[string]any{"pods": "110", "nvidia.com/gpu": "8"}, "capacity": map[string]any{"pods": "110", "nvidia.com/gpu": "8"},
			"conditions": []any{map[string]any{"type": "Ready", "status": "True"}},
		})
	}
	t.Cleanup(func() {
		if err := admin.DeleteAllOf(context.Background(), &nvidiav1beta1.DynamoGraphDeployment{}, client.InNamespace("default"), client.MatchingLabels{"crowd": "true"}); err != nil {
			t.Error(err)
		}
	})
	for i := range graphs {
		dgd := &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: fmt.Sprintf("llama-70b-disaggregated-%d", i), Labels: map[string]string{"crowd": "true"},
		}}
		dgd.Spec.Components = []nvidiav1beta1.ComponentSpec{{
			Name: "PrefillWorkerOfTheLargeModel", Type: "prefill",
			PodTemplate: &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "app"}}}},
		}}
		if err := admin.Create(t.Context(), dgd); err != nil {
			t.Fatal(err)
		}
		condition := map[string]any{"type": "Placed", "status": "True", "reason": "AllReplicasPlaced", "message": "all 1 packed replicas are placed in zone-0"}
		if i < waiting {
			condition = map[string]any{"type": "Placed", "status": "False", "reason": "InsufficientCapacity", "message": "0 of 1 packed replicas are placed. " +
				"PrefillWorkerOfTheLargeModel-0: needs 4 pods x 8 nvidia.com/gpu in one zone; zone-0 holds 3 of 4 (1 host cordoned, 2 short of nvidia.com/gpu); 2 other zones hold fewer"}
		}
		condition["lastTransitionTime"] = metav1.NewTime(time.Now().Add(-time.Hour))
		patchStatus(t, admin, dgd, map[string]any{"conditions": []any{condition}})
	}
}

func patchStatus(t *testing.T, admin client.Client, object client.Object, status map[string]any) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		t.Fatal(err)
	}
	if err := admin.Status().Patch(t.Context(), object, client.RawPatch("application/merge-patch+json", patch)); err != nil {
		t.Fatal(err)
	}
}

// crowdedLines are command lines by command, each with the rows that it may take on a terminal of 50; 0: any number.
var crowdedLines = map[string]map[string]int{
	"drain":            {"drain gpu-host-1 --dry-run": 50},
	"explain":          {"explain dgd/llama-70b-disaggregated-3": 50, "explain dgd/llama-70b-disaggregated-150": 50},
	"map":              {}, // a file for a browser
	"options":          {"options": 0},
	"plan":             {"plan --cluster dgd llama-70b-disaggregated-3": 50},
	"queue":            {"queue": waiting + 8, "queue -n default": waiting + 8},
	"repack":           {"repack": 50, "repack --for llama-70b-disaggregated-3": 50, "repack --free zone=1": 50},
	"rollout abort":    {"rollout abort dgd/llama-70b-disaggregated-3": 50},
	"rollout history":  {"rollout history dgd/llama-70b-disaggregated-3": 50},
	"rollout pause":    {"rollout pause dgd/llama-70b-disaggregated-3": 50},
	"rollout restart":  {"rollout restart dgd/llama-70b-disaggregated-3 --yes": 50},
	"rollout resume":   {"rollout resume dgd/llama-70b-disaggregated-3": 50},
	"rollout status":   {"rollout status dgd/llama-70b-disaggregated-3": 50},
	"rollout undo":     {"rollout undo dgd/llama-70b-disaggregated-3": 50},
	"status":           {"status dgd/llama-70b-disaggregated-3": 50, "status dgd/llama-70b-disaggregated-150": 50},
	"topology suggest": {"topology suggest": 50},
	"tree":             {"tree -A": 50, "tree": 50, "tree --level zone": 0, "tree dgd/llama-70b-disaggregated-3": 50},
	"version":          {"version": 50},
}

// eraseLine is the escape sequence after the progress of a command, and after its removal ([cli.During]).
const eraseLine = "\x1b[K"

// TestCrowdedCluster: with 200 deployments every command fits terminals of 80, 100 and 160 columns, but for single words, and what is not a
// list of everything fits a screen.
func TestCrowdedCluster(t *testing.T) {
	c := startCluster(t)
	c.crowd(t)
	var commands []string
	root := plugin.NewCommand(genericiooptions.NewTestIOStreamsDiscard())
	for _, path := range paths(root, nil) {
		if cmd, _, err := root.Find(path); err == nil && !cmd.HasSubCommands() && cmd.Name() != "help" {
			commands = append(commands, strings.Join(path, " "))
		}
	}
	slices.Sort(commands)
	if tried := slices.Sorted(maps.Keys(crowdedLines)); !slices.Equal(commands, tried) {
		t.Errorf("the commands are %q, tried are %q", commands, tried)
	}
	for _, columns := range []uint16{80, 100, 160} {
		for _, lines := range crowdedLines {
			for line, rows := range lines {
				args := strings.Fields(line)
				if line != "options" {
					args = append(args, "--kubeconfig", c.kubeconfig)
				}
				got, err := onTerminal(t, columns, args...)
				if err != nil {
					got += err.Error() + "\n"
				}
				if len(got) < 10 {
					t.Errorf("%s at %d columns: %q", line, columns, got)
				}
				if shown := strings.Count(got, "\n"); rows > 0 && shown > rows {
					t.Errorf("%s at %d columns: %d of %d rows:\n%s", line, columns, shown, rows, got)
				}
				for out := range strings.Lines(strings.ReplaceAll(got, eraseLine, "\n")) {
					if width := text.Width(strings.TrimSuffix(out, "\n")); width > int(columns) && err == nil && len(strings.Fields(out)) > 1 {
						t.Errorf("%s: %d of %d columns: %s", line, width, columns, out)
					}
				}
			}
		}
	}
}

// TestPlanWithoutRights: a plan on a cluster says once what the user may not read, whether it can be made without, or not.
func TestPlanWithoutRights(t *testing.T) {
	c := startCluster(t)
	admin := c.admin(t)
	limited := role(t)
	limited.Name, limited.ResourceVersion, limited.Rules = "no-details", "", nil
	for _, rule := range role(t).Rules {
		if rule.APIGroups[0] != "node.k8s.io" && rule.APIGroups[0] != "storage.k8s.io" && rule.APIGroups[0] != "resource.k8s.io" {
			limited.Rules = append(limited.Rules, rule)
		}
	}
	create(t, admin, limited)
	open(t, admin)
	c.bind(t, admin, "no-details", "joe")
	for user, needed := range map[string]bool{"joe": false, "nobody": true} {
		_, errOut, err := c.run(t.Context(), "plan", "--cluster", "dgd", "chat", "--as", user, "--kubeconfig", c.kubeconfig)
		if err != nil {
			errOut += err.Error()
		}
		if (err != nil) != needed || strings.Count(errOut, "ou may not") != 1 {
			t.Errorf("%s: %v; it says\n%s", user, err, errOut)
		}
	}
}
