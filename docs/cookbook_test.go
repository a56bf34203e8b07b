// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/cli/files"
	"github.com/trellis-k8s/trellis/internal/cli/plan"
	"github.com/trellis-k8s/trellis/internal/hierarchy"
	"github.com/trellis-k8s/trellis/internal/topology"
	"github.com/trellis-k8s/trellis/test/testutil/simulated"
)

var yamlBlock = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

// recipes are the topologies and the deployments of the cookbook, by name.
func recipes(t *testing.T) (map[string]*grovev1alpha1.ClusterTopology, map[string]*nvidiav1beta1.DynamoGraphDeployment) {
	t.Helper()
	topologies, graphs := map[string]*grovev1alpha1.ClusterTopology{}, map[string]*nvidiav1beta1.DynamoGraphDeployment{}
	for _, block := range yamlBlock.FindAllStringSubmatch(pages(t)["cookbook.md"], -1) {
		objects, skipped, err := files.Read([]string{files.Stdin}, strings.NewReader(block[1]))
		if err != nil || len(skipped) > 0 {
			t.Fatalf("%v\n%s", err, block[1])
		}
		for _, object := range objects {
			switch o := object.Object.(type) {
			case *grovev1alpha1.ClusterTopology:
				topologies[o.Name] = o
			case *nvidiav1beta1.DynamoGraphDeployment:
				graphs[o.Name] = o
			}
		}
	}
	return topologies, graphs
}

// labelledFor makes two domains of each level in each domain above, with 8 GPUs on each host. Keys whose values are not unique repeat.
func labelledFor(ct *grovev1alpha1.ClusterTopology) []corev1.Node {
	paths := []map[string]string{maps.Clone(ct.Spec.NodeSelector)}
	names := []string{"n"}
	for _, level := range ct.Spec.Levels {
		var nextPaths []map[string]string
		var nextNames []string
		for i, path := range paths {
			for j := range 2 {
				labels := maps.Clone(path)
				if labels == nil {
					labels = map[string]string{}
				}
				name := fmt.Sprintf("%s-%d", names[i], j)
				if labels[level.Key] = name; level.Key != corev1.LabelHostname {
					if key, _ := hierarchy.Look(level.Key); !key.Unique {
						labels[level.Key] = fmt.Sprintf("%s-%d", level.Domain, j)
					}
				}
				nextPaths, nextNames = append(nextPaths, labels), append(nextNames, name)
			}
		}
		paths, names = nextPaths, nextNames
	}
	nodes := make([]corev1.Node, len(paths))
	for i := range paths {
		nodes[i] = simulated.NewNode(names[i], 8, paths[i])
		nodes[i].APIVersion, nodes[i].Kind = "v1", "Node"
	}
	return nodes
}

// packed is a graph of which one replica of some hosts is packed into a level.
func packed(ct *grovev1alpha1.ClusterTopology, level string, hosts int) string {
	return fmt.Sprintf(`apiVersion: nvidia.com/v1beta1
kind: DynamoGraphDeployment
metadata: {name: g}
spec:
  topologyConstraint: {clusterTopologyName: %s, packDomain: %s}
  components:
  - name: Worker
    multinode: {nodeCount: %d}
    podTemplate: {spec: {containers: [{name: main, image: i, command: [sleep, infinity], resources: {limits: {nvidia.com/gpu: "8"}}}]}}
`, ct.Name, level, hosts)
}

// planned runs kubectl trellis plan on files with these contents.
func planned(t *testing.T, contents ...any) (out string, code int) {
	t.Helper()
	dir := t.TempDir()
	var args []string
	for i, content := range contents {
		data, ok := content.(string)
		if !ok {
			marshalled, err := yaml.Marshal(content)
			if err != nil {
				t.Fatal(err)
			}
			data = string(marshalled)
		}
		file := filepath.Join(dir, fmt.Sprintf("%d.yaml", i))
		if err := os.WriteFile(file, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "-f", file)
	}
	var stdout, stderr bytes.Buffer
	cmd := plan.NewCommand(genericiooptions.IOStreams{In: strings.NewReader(""), Out: &stdout, ErrOut: &stderr})
	cmd.SetArgs(append(args, "-o", "json"))
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.ExecuteContext(t.Context())
	code, tell := cli.ExitCode(err)
	if tell {
		t.Logf("plan: %v %s", err, stderr.String())
	}
	return stdout.String(), code
}

// TestRecipesPlan packs a replica of as many hosts as a domain of each level has into that level, and one host more in vain.
func TestRecipesPlan(t *testing.T) {
	topologies, graphs := recipes(t)
	if len(topologies) < 11 || len(graphs) == 0 {
		t.Fatalf("this test finds %d topologies and %d graphs in the cookbook", len(topologies), len(graphs))
	}
	for name, ct := range topologies {
		t.Run(name, func(t *testing.T) {
			list := map[string]any{"apiVersion": "v1", "kind": "List", "items": labelledFor(ct)}
			for i, level := range ct.Spec.Levels[:len(ct.Spec.Levels)-1] {
				hosts := 1 << (len(ct.Spec.Levels) - 1 - i)
				out, code := planned(t, list, ct, packed(ct, level.Domain, hosts))
				var answer struct {
					Graphs []struct{ Domain map[string]string }
				}
				if err := json.Unmarshal([]byte(out), &answer); code != 0 || err != nil || answer.Graphs[0].Domain[level.Domain] == "" {
					t.Errorf("%d hosts in one %s: exit code %d, %s", hosts, level.Domain, code, out)
				}
				if _, code := planned(t, list, ct, packed(ct, level.Domain, hosts+1)); code != 2 {
					t.Errorf("%d hosts in one %s of %d: exit code %d, want 2", hosts+1, level.Domain, hosts, code)
				}
			}
		})
	}
	for name, graph := range graphs {
		ct := topologies[graph.Spec.TopologyConstraint.ClusterTopologyName]
		if ct == nil {
			t.Fatalf("graph %s names a topology that is not in the cookbook", name)
		}
		if out, code := planned(t, map[string]any{"apiVersion": "v1", "kind": "List", "items": labelledFor(ct)}, ct, graph); code != 0 {
			t.Errorf("graph %s: exit code %d, %s", name, code, out)
		}
	}
}

// TestRecipesAreSuggested: kubectl trellis topology suggest proposes the cookbook's levels on nodes labelled so.
func TestRecipesAreSuggested(t *testing.T) {
	topologies, _ := recipes(t)
	for name, ct := range topologies {
		t.Run(name, func(t *testing.T) {
			var nodes []hierarchy.Node
			var labels []map[string]string
			for _, n := range labelledFor(ct) {
				nodes, labels = append(nodes, hierarchy.Node{Name: n.Name, Labels: n.Labels, Accelerated: true}), append(labels, n.Labels)
			}
			var want, got, levels = "", "", topology.Levels{}
			for _, l := range ct.Spec.Levels {
				want += l.Domain + "=" + l.Key + " "
				levels = append(levels, topology.Level{Domain: l.Domain, Key: l.Key})
			}
			p := hierarchy.Propose(nodes)
			for _, l := range p.Levels {
				got += l.Domain + "=" + l.Key + " "
			}
			if got != want || len(p.Notes) > 0 {
				t.Errorf("proposed %s\nwant     %s\nnotes %q", got, want, p.Notes)
			}
			if omitted := hierarchy.FindOmitted(labels, levels); len(omitted) > 0 {
				t.Errorf("omitted: %v", omitted)
			}
		})
	}
}
