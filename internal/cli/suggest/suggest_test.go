// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package suggest

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/cli/files"
	"github.com/trellis-k8s/trellis/internal/topologybinding"
	"github.com/trellis-k8s/trellis/test/testutil/simulated"
)

// run is the command as a user would give it.
func run(t *testing.T, nodes []corev1.Node, args ...string) (string, error) {
	t.Helper()
	list := corev1.NodeList{Items: nodes}
	list.APIVersion, list.Kind = "v1", "NodeList"
	for i := range list.Items {
		list.Items[i].APIVersion, list.Items[i].Kind = "v1", "Node"
	}
	in, err := yaml.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd := NewCommand(genericiooptions.IOStreams{In: bytes.NewReader(in), Out: &out, ErrOut: &out})
	cmd.SetArgs(append([]string{"suggest", "-f", "-"}, args...))
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err = cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// demoNodes are the nodes of the demo, one of which lacks its rack, and one node without GPUs.
func demoNodes() []corev1.Node {
	nodes := append(simulated.DefaultShape.Nodes(), simulated.NewNode("cpu-0", 0, map[string]string{"topology.kubernetes.io/zone": "zone-0"}))
	for i := range nodes {
		nodes[i].Labels["kubernetes.io/hostname"] = nodes[i].Name
	}
	delete(nodes[5].Labels, "topology.trellis.dev/rack")
	return nodes
}

func TestSuggest(t *testing.T) {
	want := `# Proposed from the labels of the 48 nodes with accelerators, of 49 nodes.
#
# LEVEL  DOMAINS  NODES  LABELED BY
# zone         2  48/48  Kubernetes
# block        4  48/48  named so
# rack        12  47/48  named so
# host        47  47/48  Kubernetes
#
# To check:
# - 1 of 48 nodes lack label topology.trellis.dev/rack of level 'rack'
#   (zone-0-block-0-rack-1-host-1): they are in the levels above only
apiVersion: grove.io/v1alpha1
kind: ClusterTopology
metadata:
  name: hall
spec:
  levels:
  - {domain: zone, key: topology.kubernetes.io/zone}
  - {domain: block, key: topology.trellis.dev/block}
  - {domain: rack, key: topology.trellis.dev/rack}
  - {domain: host, key: kubernetes.io/hostname}
`
	got, err := run(t, demoNodes(), "--name", "hall")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	objects, skipped, err := files.Read([]string{files.Stdin}, strings.NewReader(got))
	if err != nil || len(objects) != 1 || len(skipped) != 0 {
		t.Fatalf("%d objects, %v: the output is no manifest", len(objects), err)
	}
	if ct, ok := objects[0].Object.(*grovev1alpha1.ClusterTopology); !ok || ct.Name != "hall" || len(ct.Spec.Levels) != 4 {
		t.Errorf("the manifest is %+v", objects[0].Object)
	}
}

// For Grove and Dynamo the same levels are a ClusterTopologyBinding.
func TestSuggestBinding(t *testing.T) {
	topology, err := run(t, demoNodes())
	if err != nil {
		t.Fatal(err)
	}
	got, err := run(t, demoNodes(), "--kind", "ClusterTopologyBinding")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Replace(topology, "kind: ClusterTopology\n", "kind: ClusterTopologyBinding\n", 1), got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	objects, _, err := files.Read([]string{files.Stdin}, strings.NewReader(got))
	if err != nil || len(objects) != 1 {
		t.Fatalf("%d objects, %v: the output is no manifest", len(objects), err)
	}
	if b, ok := objects[0].Object.(*topologybinding.Binding); !ok || len(b.Spec.Levels) != 4 {
		t.Errorf("the manifest is %+v", objects[0].Object)
	}
	nodes := demoNodes()
	long := "topology.trellis.dev-of-a-site-with-a-long-name.example.com/rack"
	for i := range nodes {
		nodes[i].Labels[long] = nodes[i].Labels["topology.trellis.dev/rack"]
		delete(nodes[i].Labels, "topology.trellis.dev/rack")
	}
	if got, err = run(t, nodes, "--kind", "ClusterTopologyBinding"); err != nil || !strings.Contains(got, "takes label keys of at most 63") {
		t.Errorf("%v: a key of %d characters is not noted:\n%s", err, len(long), got)
	}
}

// A name that YAML takes for a number or a truth value is quoted.
func TestSuggestQuotesTheName(t *testing.T) {
	for _, name := range []string{"123", "1.5", "true", "no", "null", "1e3", "0x1f", "2026-01-01"} {
		text, err := run(t, demoNodes(), "--name", name)
		if err != nil {
			t.Fatal(err)
		}
		manifest := struct{ Metadata map[string]any }{}
		if err := yaml.Unmarshal([]byte(text), &manifest); err != nil || manifest.Metadata["name"] != name {
			t.Errorf("--name %s: the manifest has the name %#v: %v", name, manifest.Metadata["name"], err)
		}
	}
}

func TestSuggestForPrograms(t *testing.T) {
	out, err := run(t, demoNodes(), "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var report Suggestion
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatal(err)
	}
	if report.Name != "cluster" || report.Nodes != 48 || report.Others != 1 || len(report.Levels) != 4 || len(report.Notes) != 1 || report.Levels[2].Nodes != 47 {
		t.Errorf("report %+v", report)
	}
}

func TestSuggestRefusals(t *testing.T) {
	for name, tc := range map[string]struct {
		nodes []corev1.Node
		args  []string
		want  string
	}{
		"no nodes":   {want: "there are no nodes"},
		"a bad name": {nodes: demoNodes(), args: []string{"--name", "My Hall"}, want: "--name My Hall"},
		"a kind":     {nodes: demoNodes(), args: []string{"--kind", "Topology"}, want: "--kind Topology: want ClusterTopology or ClusterTopologyBinding"},
		"a format":   {nodes: demoNodes(), args: []string{"-o", "nonsense"}, want: "-o nonsense: want one of"},
		"a stray":    {nodes: demoNodes(), args: []string{"stray"}, want: "stray"},
	} {
		t.Run(name, func(t *testing.T) {
			if out, err := run(t, tc.nodes, tc.args...); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q (%s)", err, tc.want, out)
			}
		})
	}
}
