// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/cli/text"
	"github.com/trellis-k8s/trellis/test/testutil/golden"
)

// run is the command as a user would give it, in testdata.
func run(t *testing.T, stdin string, args ...string) (out, errOut string, code int) {
	t.Helper()
	var o, e bytes.Buffer
	cmd := NewCommand(genericiooptions.IOStreams{In: strings.NewReader(stdin), Out: &o, ErrOut: &e})
	cmd.SetArgs(append([]string{}, args...))
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.ExecuteContext(t.Context())
	code, tell := cli.ExitCode(err)
	if tell {
		fmt.Fprintln(&e, "Error:", err)
	}
	return o.String(), e.String(), code
}

// TestPlan shows what users see: the command, its output, what it says alongside it, and its exit code.
func TestPlan(t *testing.T) {
	for name, args := range map[string]string{
		"whole":             "-f nodes.yaml -f topology.yaml -f chat.yaml",
		"whole-json":        "-f nodes.yaml -f topology.yaml -f chat.yaml -o json",
		"too-large":         "-f nodes.yaml,topology.yaml -f chat-large.yaml",
		"too-large-json":    "-f nodes.yaml,topology.yaml -f chat-large.yaml -o json",
		"one-after-another": "-f nodes.yaml -f topology.yaml -f chat.yaml -f code.yaml -f plain.yaml",
		"order-is-theirs":   "-f nodes.yaml -f topology.yaml -f code.yaml -f chat.yaml",
		"running-members":   "-f nodes.yaml -f topology.yaml -f running.yaml -f chat.yaml",
		"running-json":      "-f nodes.yaml -f topology.yaml -f running.yaml -f chat.yaml -o json",
		"no-constraint":     "-f nodes.yaml -f plain.yaml -n team-c",
		"admitted":          "-f nodes.yaml -f admitted.yaml",
		"devices":           "-f nodes.yaml -f devices.yaml",
		"volumes":           "-f nodes.yaml -f topology.yaml -f volumes.yaml",
		"topology-missing":  "-f nodes.yaml -f chat.yaml -f code.yaml",
		"nvlink":            "-f nvlink.yaml",
		"nvlink-json":       "-f nvlink.yaml -o json",
		"transfer":          "-f nodes.yaml -f topology.yaml -f transfer.yaml",
		"transfer-json":     "-f nodes.yaml -f topology.yaml -f transfer.yaml -o json",
		"twice":             "-f nodes.yaml -f topology.yaml -f chat.yaml -f chat-large.yaml",
	} {
		t.Run(name, func(t *testing.T) {
			file, err := filepath.Abs(filepath.Join("testdata", name+".golden"))
			if err != nil {
				t.Fatal(err)
			}
			t.Chdir("testdata")
			out, errOut, code := run(t, "", strings.Fields(args)...)
			got := fmt.Sprintf("$ kubectl trellis plan %s\n%s", args, out)
			if errOut != "" {
				got += "--- beside it\n" + errOut
			}
			got += fmt.Sprintf("--- exit code %d\n", code)
			golden.Check(t, file, got)
		})
	}
}

// A ClusterTopologyBinding is as good as the ClusterTopology with its levels, and gives way to one of its name.
func TestBinding(t *testing.T) {
	topology, err := os.ReadFile(filepath.Join("testdata", "topology.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"-f", "testdata/nodes.yaml", "-f", "testdata/chat.yaml", "-o", "json"}
	want, _, code := run(t, "", append(args, "-f", "testdata/topology.yaml")...)
	binding := strings.Replace(string(topology), "kind: ClusterTopology", "kind: ClusterTopologyBinding", 1)
	got, errOut, gotCode := run(t, binding, append(args, "-f", "-")...)
	if diff := cmp.Diff(want, got); diff != "" || code != gotCode || errOut != "" {
		t.Errorf("exit codes %d and %d, %s\n(-of a ClusterTopology +of a Binding)\n%s", code, gotCode, errOut, diff)
	}
	broken := "apiVersion: grove.io/v1alpha1\nkind: ClusterTopologyBinding\nmetadata: {name: hall}\nspec: {levels: [{domain: a, key: a}]}\n"
	for _, text := range []string{broken + "---\n" + string(topology), string(topology) + "---\n" + broken} {
		if got, errOut, gotCode := run(t, text, append(args, "-f", "-")...); got != want || gotCode != code {
			t.Errorf("with a Binding of the same name: exit code %d, %s\n%s", gotCode, errOut, cmp.Diff(want, got))
		}
	}
}

// The same objects give the same answer, in whatever order they come, a folder's files and the standard input included.
func TestOrderDoesNotMatter(t *testing.T) {
	o := &options{Output: cli.NewOutput(genericiooptions.IOStreams{In: strings.NewReader(""), Out: io.Discard, ErrOut: io.Discard})}
	for _, f := range []string{"nodes", "topology", "running", "chat-large", "code", "plain"} {
		o.files = append(o.files, filepath.Join("testdata", f+".yaml"))
	}
	in, err := o.gather(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	answer := func() string {
		report, err := Execute(in, in.Planner(), io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		data, err := json.Marshal(report)
		if err != nil {
			t.Fatal(err)
		}
		return string(data) + report.Text(text.Page{})
	}
	want := answer()
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		shuffle(random, in.world.Nodes)
		shuffle(random, in.world.Pods)
		shuffle(random, in.world.Topologies)
		if diff := cmp.Diff(want, answer()); diff != "" {
			t.Fatalf("-first +shuffled:\n%s", diff)
		}
	}
}

func shuffle[T any](r *rand.Rand, list []T) {
	r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
}

func TestStandardInputAndFolder(t *testing.T) {
	folder := t.TempDir()
	for _, f := range []string{"topology.yaml", "chat.yaml"} {
		data, err := os.ReadFile(filepath.Join("testdata", f))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, f), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	nodes, err := os.ReadFile(filepath.Join("testdata", "nodes.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	want, _, code := run(t, "", "-f", "testdata/nodes.yaml", "-f", "testdata/topology.yaml", "-f", "testdata/chat.yaml", "-o", "json")
	got, errOut, gotCode := run(t, string(nodes), "-f", folder, "-f", "-", "-o", "json")
	if got != want || gotCode != code || code != 0 {
		t.Errorf("exit code %d and %d, %s\n%s", code, gotCode, errOut, cmp.Diff(want, got))
	}
}

// Every manifest that users are known to have written is read without a complaint, where the samples are at hand.
func TestManifests(t *testing.T) {
	manifests, _ := filepath.Glob("../../../../shared/manifests/*.yaml")
	if len(manifests) == 0 {
		t.Skip("no samples beside the repository")
	}
	topology := "apiVersion: grove.io/v1alpha1\nkind: ClusterTopology\nmetadata: {name: my-cluster-topology}\n" +
		"spec: {levels: [{domain: zone, key: example/zone}, {domain: block, key: example/block}, {domain: rack, key: example/rack}]}\n"
	for _, manifest := range manifests {
		t.Run(filepath.Base(manifest), func(t *testing.T) {
			if _, errOut, code := run(t, topology, "-f", "-", "-f", "testdata/nodes.yaml", "-f", manifest, "-o", "json"); code == 1 {
				t.Error(errOut)
			}
		})
	}
}

func TestBadInput(t *testing.T) {
	nodes, topology := "testdata/nodes.yaml", "testdata/topology.yaml"
	graph := func(components, rest string) string {
		return "apiVersion: nvidia.com/v1alpha1\nkind: DynamoGraphDeployment\nmetadata: {name: g}\nspec:\n  topologyConstraint: {topologyProfile: hall" + rest +
			"}\n  services:\n    Worker:\n      componentType: worker\n" + components
	}
	tests := map[string]struct {
		input string
		args  []string
		want  []string
	}{
		"not YAML":      {"a: b\n---\nkind: [\n", []string{nodes}, []string{"-:3: not YAML: did not find expected node content"}},
		"not JSON":      {"{\"kind\": \"List\"}\n{\"kind\": }", []string{nodes}, []string{"-:2: not JSON: invalid character '}'"}},
		"a key twice":   {"kind: Node\nkind: Pod\n", []string{nodes}, []string{"-:2: not YAML: key \"kind\" already set in map"}},
		"not an object": {"a: b\n", []string{nodes}, []string{"-:1: not a Kubernetes object: apiVersion and kind are missing"}},
		"unknown field": {graph("      replica: 2\n", ""), []string{nodes, topology}, []string{"-:9: DynamoGraphDeployment g: spec.services.Worker.replica: unknown field"}},
		"unknown and refused": {graph("      replica: 2\n      replicas: -1\n", ""), []string{nodes, topology}, []string{
			"-:9: DynamoGraphDeployment g: spec.services.Worker.replica: unknown field", "-:10: DynamoGraphDeployment default/g: spec.services[Worker].replicas: Invalid value: -1",
		}},
		"wrong type":         {graph("      replicas: two\n", ""), []string{nodes, topology}, []string{"-:9: DynamoGraphDeployment g: spec.services.Worker.replicas: cannot unmarshal string"}},
		"bad quantity":       {"apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Node\n  metadata: {name: host}\n  status:\n    capacity:\n      cpu: '1'\n      nvidia.com/gpu: eight\n", []string{topology}, []string{"-:10: Node host: status.capacity.nvidia.com/gpu: quantities must match"}},
		"another version":    {"\n---\napiVersion: nvidia.com/v1\nkind: DynamoGraphDeployment\nmetadata: {name: g}\n", []string{nodes}, []string{"-:3: DynamoGraphDeployment g: apiVersion: nvidia.com/v1 is not known; write it as nvidia.com/v1beta1"}},
		"no name":            {"apiVersion: v1\nkind: Node\nmetadata: {}\n", nil, []string{"-:3: Node: metadata.name: is required"}},
		"refused":            {graph("      replicas: -1\n      topologyConstraint:\n        packDomain: row\n", ", packDomain: rack"), []string{nodes, topology}, []string{"-:9: DynamoGraphDeployment default/g: spec.services[Worker].replicas: Invalid value: -1", "-:11: DynamoGraphDeployment default/g: spec.services[Worker].topologyConstraint.packDomain: Not found: \"row\": packDomain not found in cluster topology"}},
		"topology missing":   {graph("", ", packDomain: rack"), []string{nodes}, []string{"-:5: DynamoGraphDeployment default/g: spec.topologyConstraint.topologyProfile: Not found: \"hall\": ClusterTopology not found"}},
		"topology wrong":     {"apiVersion: grove.io/v1alpha1\nkind: ClusterTopology\nmetadata: {name: t}\nspec:\n  levels:\n  - {domain: a, key: a}\n  - domain: a\n    key: b\n", []string{nodes, "testdata/plain.yaml"}, []string{"-:7: ClusterTopology t: spec.levels[1].domain: Duplicate value"}},
		"binding wrong":      {"apiVersion: grove.io/v1alpha1\nkind: ClusterTopologyBinding\nmetadata: {name: t}\nspec: {levels: [{domain: a, key: a}, {domain: a, key: b}]}\n", []string{nodes, "testdata/plain.yaml"}, []string{"-:1: ClusterTopologyBinding t: spec.levels[1].domain: \"a\" is the domain of another level too"}},
		"no nodes":           {graph("", ""), []string{topology}, []string{"there is no Node in the files: add the output of kubectl get nodes -o yaml, or take those of the cluster with --cluster"}},
		"a node twice":       {"apiVersion: v1\nkind: Node\nmetadata: {name: a-0-0}\n", []string{nodes, topology, "testdata/chat.yaml"}, []string{"testdata/nodes.yaml:2: Node a-0-0: is there already, at -:1; names must be unique"}},
		"nothing to plan":    {"", []string{nodes}, []string{"nothing to plan: there is no DynamoGraphDeployment in the files"}},
		"no such file":       {"", []string{"testdata/none.yaml"}, []string{"testdata/none.yaml: no such file"}},
		"everything at once": {"apiVersion: v1\nkind: Node\nmetadata: {name: a, nam: b}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: 7}\n", nil, []string{"-:3: Node a: metadata.nam: unknown field", "-:7: Pod : metadata.name: cannot unmarshal number"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			args := []string{"-f", "-"}
			for _, a := range tc.args {
				args = append(args, "-f", a)
			}
			out, errOut, code := run(t, tc.input, args...)
			if code != 1 || out != "" {
				t.Errorf("exit code %d, output %q", code, out)
			}
			for _, want := range tc.want {
				if !strings.Contains("\n"+strings.Replace(errOut, "Error: ", "", 1), "\n"+want) {
					t.Errorf("got\n%s\nwant a line that begins with\n%s", errOut, want)
				}
			}
		})
	}
}

func TestBadFlags(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"nothing":       {nil, "nothing to plan: give manifests with -f FILE"},
		"format":        {[]string{"-f", "x", "-o", "xml"}, "-o xml: want one of "},
		"name, offline": {[]string{"dgd/a"}, "a deployment that exists is planned with --cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			_, errOut, code := run(t, "", tc.args...)
			if code != 1 || !strings.Contains(errOut, tc.want) {
				t.Errorf("exit code %d, %s; want %s", code, errOut, tc.want)
			}
		})
	}
}
