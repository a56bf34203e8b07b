// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package readme

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/google/go-cmp/cmp"
)

// tour follows the README with the release that it names, on a cluster that has the operator of that release already.
func (r *reader) tour(from release) {
	r.Helper()
	r.installRelease(from)
	r.settle()
	r.transcript(r.block("README.md", "$ kubectl get dgd\n"))
	r.tree(r.block("README.md", "$ kubectl trellis tree\n"))
	r.third()
	r.commands()
}

// settle follows the README until its graph is Ready. It leaves the topology hall and the graph chat.
func (r *reader) settle() {
	r.Helper()
	label := r.block("README.md", "kubectl label node NODE")
	for i := range 8 { // two zones of two racks of two hosts
		r.run(strings.NewReplacer("NODE", fmt.Sprintf("host-%d", i), "zone-0", fmt.Sprintf("zone-%d", i/4), "rack-0", fmt.Sprintf("rack-%d", i/2%2)).Replace(label))
	}
	r.run(r.block("README.md", "kind: ClusterTopology"))
	r.run("kubectl wait --for=condition=LevelsLabeled ctopo/hall --timeout=60s && kubectl wait --for=condition=HierarchyConsistent ctopo/hall --timeout=60s")
	r.warned(r.block("README.md", "kind: DynamoGraphDeployment"))
	r.run("kubectl wait --for=condition=Ready dgd/chat --timeout=120s")
}

// announced maps a part of each warning of the README's graph to the words of the README about it.
var announced = map[string]string{
	"form one program":     "how the two pods of a replica form one program",
	"multinode without a ": "refuses `multinode` without a type",
}

// warned runs a script that has to succeed, with announced warnings only.
func (r *reader) warned(script string) {
	r.Helper()
	_, errs, err := r.shell(script)
	if err != nil {
		r.Fatalf("%s\n%v: %s", script, err, errs)
	}
	text := strings.Join(strings.Fields(r.readme()), " ")
	for line := range strings.Lines(errs) {
		warning, is := strings.CutPrefix(line, "Warning: ")
		expected := false
		for part, words := range announced {
			expected = expected || strings.Contains(warning, part) && strings.Contains(text, words)
		}
		if is && !expected {
			r.Errorf("a warning that the README does not announce: %s", warning)
		}
	}
}

// readme returns the README.
func (r *reader) readme() string {
	r.Helper()
	content, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		r.Fatal(err)
	}
	return string(content)
}

// fromRelease is a file of a release that a command downloads.
var fromRelease = regexp.MustCompile(`\$RELEASE/(\S+)`)

// installRelease runs the README's first step, and checks that every file that it names is in the release, and everything is of its version.
func (r *reader) installRelease(from release) {
	r.Helper()
	step := r.block("README.md", "RELEASE=")
	for _, file := range fromRelease.FindAllStringSubmatch(step, -1) {
		if _, err := os.Stat(filepath.Join(from.folder, file[1])); err != nil {
			r.Errorf("the README downloads %s, which release %s has not: %v", file[1], from.version, err)
		}
	}
	r.write("release/install.yaml", r.rendered(filepath.Join(r.folder, "manifests")))
	r.serveRelease(filepath.Join(r.folder, "release"))
	r.run(downloads.ReplaceAllString(step, "$$RELEASE"))
	for line := range strings.Lines(r.run("kubectl trellis version")) {
		if _, version, _ := strings.Cut(line, ": "); !strings.HasPrefix(strings.TrimSpace(version), from.version+" ") {
			r.Errorf("the README installs %s; kubectl trellis version says %s", from.version, line)
		}
	}
}

// namedCommand is a command of the plugin in the README.
var namedCommand = regexp.MustCompile("kubectl trellis ((?:topology )?[a-z]+)")

// commands checks that the plugin has every command that the README names. Help of a command that is none is that of the one above it.
func (r *reader) commands() {
	r.Helper()
	named := namedCommand.FindAllStringSubmatch(r.readme(), -1)
	if len(named) < 5 {
		r.Errorf("this test finds %d commands only", len(named))
	}
	for _, command := range named {
		out, errs, err := r.shell("kubectl trellis " + command[1] + " --help")
		if err != nil || !strings.Contains(out, "\n  kubectl trellis "+command[1]+" ") {
			r.Errorf("the README names kubectl trellis %s, which the plugin has not: %v: %s%s", command[1], err, out, errs)
		}
	}
}

var age = regexp.MustCompile(`(?m) \d+s *$`)

// transcript runs the commands of a console block and compares what they print. Ages differ.
func (r *reader) transcript(want string) {
	r.Helper()
	var got strings.Builder
	for line := range strings.Lines(want) {
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			got.WriteString(line + r.run(command))
		}
	}
	if diff := cmp.Diff(age.ReplaceAllString(want, " AGE"), age.ReplaceAllString(got.String(), " AGE")); diff != "" {
		r.Errorf("the README (-) and the cluster (+):\n%s", diff)
	}
}

// tree compares domains and numbers. Which pod of a replica is on which host of its rack is the kube-scheduler's to say.
func (r *reader) tree(want string) {
	r.Helper()
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
		r.Errorf("the README (-) and the cluster (+):\n%s", diff)
	}
}

// third asks for a replica more than the zone has capacity for, and goes back to two.
func (r *reader) third() {
	r.Helper()
	patch := regexp.MustCompile("`(kubectl patch dgd chat [^`]*\"value\":)3(}]')`").FindStringSubmatch(r.readme())
	if patch == nil {
		r.Fatal("the README has no patch of the number of replicas")
	}
	scale := func(replicas string) string { return patch[1] + replicas + patch[2] }
	r.run(scale("3"))
	got := r.run(`kubectl wait --for=condition=Placed=False dgd/chat --timeout=60s >/dev/null; kubectl get dgd chat -o jsonpath='{.status.conditions[?(@.type=="Placed")].message}'`)
	if want := strings.Join(strings.Fields(r.output("3 of 4 packed replicas")), " "); want != got {
		r.Errorf("the README: %s\nthe cluster: %s", want, got)
	}
	r.run(scale("2") + " && kubectl wait --for=condition=Ready dgd/chat --timeout=60s")
}

// output returns a block of the README that is no command.
func (r *reader) output(part string) string {
	r.Helper()
	blocks, _ := page("README.md", r.readme())
	for _, b := range blocks {
		if strings.Contains(b.text, part) {
			return b.text
		}
	}
	r.Fatalf("README.md has no block with %q", part)
	return ""
}

// topologies has the API server accept what the cookbook has.
func (r *reader) topologies() {
	r.Helper()
	content, err := os.ReadFile(filepath.Join(root, "docs", "cookbook.md"))
	if err != nil {
		r.Fatal(err)
	}
	blocks, _ := page("docs/cookbook.md", string(content))
	for _, b := range blocks {
		if b.lang == "yaml" && strings.Contains(b.text, "kind: ClusterTopology") {
			r.run("kubectl apply --dry-run=server -f - <<'YAML'\n" + b.text + "YAML\n")
		}
	}
}
