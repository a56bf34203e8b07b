// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package readme plays the README's tour on a sandbox: its commands as they stand there, with the output that it shows.
package readme

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/trellis-k8s/trellis/internal/sandbox"
)

// root of the clone.
const root = "../.."

var block = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$")

// tour is the README and the sandbox it is played on.
type tour struct {
	t      *testing.T
	blocks []string
	env    []string
}

// block returns the first code block of the README with all these parts.
func (r *tour) block(parts ...string) string {
	r.t.Helper()
	at := slices.IndexFunc(r.blocks, func(b string) bool {
		return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(b, part) })
	})
	if at < 0 {
		r.t.Fatalf("the README has no block with %q any more", parts)
	}
	return r.blocks[at]
}

// run runs a script as a reader would and returns what it prints.
func (r *tour) run(script string) string {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), "bash", "-euo", "pipefail", "-c", script)
	cmd.Env = r.env
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		state := exec.CommandContext(r.t.Context(), "kubectl", "get", "ctopo,dgd,sg,pods", "-o", "wide")
		state.Env = r.env
		now, _ := state.CombinedOutput() // says why it cannot
		r.t.Fatalf("%s\n%v: %s%s\n%s", script, err, out, errs.String(), now)
	}
	return string(out)
}

// hosts are eight hosts of 8 GPUs that nobody has labelled.
func hosts(t *testing.T) string {
	t.Helper()
	list := corev1.NodeList{}
	list.APIVersion, list.Kind = "v1", "NodeList"
	for i := range 8 {
		node := sandbox.NewNode(fmt.Sprintf("host-%d", i), 8, nil)
		node.APIVersion, node.Kind = "v1", "Node"
		list.Items = append(list.Items, node)
	}
	data, err := yaml.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "nodes.yaml")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func start(t *testing.T) *tour {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "tour") // short, for a socket's sake
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s, err := sandbox.Up(t.Context(), sandbox.Options{Name: "tour", Dir: filepath.Join(dir, "s"), NodesFile: hosts(t), Operator: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Down(context.Background()); err != nil {
			t.Error(err)
		}
	})
	bin := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(bin, "kubectl-trellis"), "./cmd/kubectl-trellis")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	r := &tour{t: t, env: append(os.Environ(), "KUBECONFIG="+s.Kubeconfig(), "PATH="+s.Assets()+":"+bin+":"+os.Getenv("PATH"))}
	for _, found := range block.FindAllStringSubmatch(string(readme), -1) {
		r.blocks = append(r.blocks, found[2])
	}
	return r
}

func TestTour(t *testing.T) {
	r := start(t)
	label := r.block("kubectl label node NODE")
	for i := range 8 { // two zones of two racks of two hosts
		r.run(strings.NewReplacer("NODE", fmt.Sprintf("host-%d", i), "zone-0", fmt.Sprintf("zone-%d", i/4), "rack-0", fmt.Sprintf("rack-%d", i/2%2)).Replace(label))
	}
	r.run(r.block("kind: ClusterTopology"))
	r.run("kubectl wait --for=condition=LevelsLabeled ctopo/hall --timeout=60s && kubectl wait --for=condition=HierarchyConsistent ctopo/hall --timeout=60s")
	r.run(r.block("kind: DynamoGraphDeployment"))
	r.run("kubectl wait --for=condition=Ready dgd/chat --timeout=120s")
	r.transcript(r.block("$ kubectl get dgd\n"))
	r.tree(r.block("$ kubectl trellis tree\n"))
	r.third()
	r.topologies()
}

var age = regexp.MustCompile(`(?m) \d+s *$`)

// transcript runs the commands of a console block and compares what they print. Ages differ.
func (r *tour) transcript(want string) {
	r.t.Helper()
	var got strings.Builder
	for line := range strings.Lines(want) {
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			got.WriteString(line + r.run(command))
		}
	}
	if diff := cmp.Diff(age.ReplaceAllString(want, " AGE"), age.ReplaceAllString(got.String(), " AGE")); diff != "" {
		r.t.Errorf("the README (-) and the cluster (+):\n%s", diff)
	}
}

// tree compares domains and numbers. Which pod of a replica is on which host of its rack is the kube-scheduler's to say.
func (r *tour) tree(want string) {
	r.t.Helper()
	domains := func(text string) []string {
		var out []string
		column := -1
		for line := range strings.Lines(strings.TrimPrefix(text, "$ kubectl trellis tree\n")) {
			if strings.HasPrefix(line, "DOMAIN") {
				column = len([]rune(line[:strings.Index(line, "PODS")]))
			}
			runes := []rune(strings.TrimRight(line, "\n"))
			if column >= 0 {
				runes = runes[:min(column, len(runes))]
			}
			if line := strings.TrimRight(string(runes), " │"); line != "" {
				out = append(out, line)
			}
		}
		return out
	}
	if diff := cmp.Diff(domains(want), domains(r.run("kubectl trellis tree"))); diff != "" {
		r.t.Errorf("the README (-) and the cluster (+):\n%s", diff)
	}
}

// third asks for a replica more than the zone has capacity for.
func (r *tour) third() {
	r.t.Helper()
	r.run(`kubectl patch dynamographdeployments.v1alpha1.nvidia.com/chat --type=merge -p '{"spec":{"services":{"Worker":{"replicas":3}}}}'`)
	got := r.run(`kubectl wait --for=condition=Placed=False dgd/chat --timeout=60s >/dev/null; kubectl get dgd chat -o jsonpath='{.status.conditions[?(@.type=="Placed")].message}'`)
	want := strings.Join(strings.Fields(r.block("3 of 4 packed replicas")), " ")
	if diff := cmp.Diff(want, got); diff != "" {
		r.t.Errorf("the README (-) and the cluster (+):\n%s", diff)
	}
}

// topologies has the API server accept what the plugin suggests and what the cookbook has.
func (r *tour) topologies() {
	r.t.Helper()
	if out := r.run("kubectl trellis topology suggest | kubectl apply -f -"); !strings.Contains(out, "clustertopology.grove.io/cluster created") {
		r.t.Errorf("the suggestion was not created: %s", out)
	}
	cookbook, err := os.ReadFile(filepath.Join(root, "docs", "cookbook.md"))
	if err != nil {
		r.t.Fatal(err)
	}
	for _, found := range block.FindAllStringSubmatch(string(cookbook), -1) {
		if found[1] == "yaml" && strings.Contains(found[2], "kind: ClusterTopology") {
			r.run("kubectl apply --dry-run=server -f - <<'YAML'\n" + found[2] + "YAML\n")
		}
	}
}
