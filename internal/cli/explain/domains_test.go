// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/internal/cli/text"
	"github.com/trellis-k8s/trellis/test/testutil/golden"
)

// hall makes zones of racks of hosts with 8 GPUs, called zone-0-rack-0-0; rack values repeat between zones.
func hall(zones, racks, hosts int) string {
	var docs []string
	for z := range zones {
		for r := range racks {
			for h := range hosts {
				docs = append(docs, fmt.Sprintf(`
apiVersion: v1
kind: Node
metadata: {name: zone-%[1]d-rack-%[2]d-%[3]d, labels: {zone: zone-%[1]d, rack: rack-%[2]d}}
status: {capacity: {cpu: "64", pods: "110", nvidia.com/gpu: "8"}}`, z, r, h))
			}
		}
	}
	return strings.Join(docs, "\n---\n")
}

// mixed has a frontend anywhere in the zone, prefill workers of one host and decode workers of two hosts in one rack.
const mixed = `
apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeployment
metadata: {name: mixed, namespace: team-a}
spec:
  topologyConstraint: {topologyProfile: hall, packDomain: zone}
  services:
    Frontend:
      componentType: frontend
      extraPodSpec: {mainContainer: {image: app}}
    Prefill:
      componentType: worker
      replicas: 3
      resources: {limits: {gpu: "4"}}
      extraPodSpec: {mainContainer: {image: app}}
    Decode:
      componentType: worker
      replicas: 2
      multinode: {nodeCount: 2}
      topologyConstraint: {packDomain: rack}
      resources: {limits: {gpu: "8"}}
      extraPodSpec: {mainContainer: {image: app, command: [/bin/sh, -c], args: [python3 -m dynamo.vllm --model m]}}`

// situations in which something waits, of which the table of domains explains why.
func situations(t *testing.T) map[string]*world {
	waits := func(w *world) *world {
		words := w.said()
		return w.condition(placed, false, w.reason(), words)
	}
	fitsNowhere := newWorld(t, hall(2, 3, 1), topologyManifest, chat).resolve("chat-worker-0-0 gated\nchat-worker-0-1 gated\nchat-worker-1-0 gated\nchat-worker-1-1 gated\nchat-frontend-0 gated")
	cordoned := newWorld(t, hall(1, 3, 2), topologyManifest, chat)
	for i, n := range cordoned.Nodes {
		n.Spec.Unschedulable = i%2 == 0
	}
	cordoned.resolve("chat-worker-0-0 gated\nchat-worker-0-1 gated\nchat-worker-1-0 gated\nchat-worker-1-1 gated\nchat-frontend-0 gated")
	many := newWorld(t, hall(4, 50, 2), topologyManifest, chat)
	for i, n := range many.Nodes {
		many.occupy(fmt.Sprintf("train-%d", i), n.Name, fmt.Sprint(1+i%8))
	}
	many.resolve("chat-worker-0-0 gated\nchat-worker-0-1 gated\nchat-worker-1-0 gated\nchat-worker-1-1 gated\nchat-frontend-0 gated")
	several := newWorld(t, hall(2, 4, 2), topologyManifest, mixed)
	for i, n := range several.Nodes {
		if i%2 == 0 {
			several.occupy(fmt.Sprintf("train-%d", i), n.Name, "3")
		}
	}
	several.resolve("mixed-decode-0-0 gated\nmixed-decode-0-1 gated\nmixed-decode-1-0 gated\nmixed-decode-1-1 gated\nmixed-frontend-0 gated\n" +
		"mixed-prefill-0 gated\nmixed-prefill-1 gated\nmixed-prefill-2 gated")
	return map[string]*world{
		"fits-nowhere": waits(fitsNowhere), "waits-for-cordoned": waits(cordoned), "anchored": waits(waiting(t)), "mixed": waits(several), "200-racks": waits(many),
	}
}

// TestDomains: on terminals of usual widths the text has at most 25 lines, none too long, and the numbers add up.
func TestDomains(t *testing.T) {
	for name, w := range situations(t) {
		t.Run(name, func(t *testing.T) {
			report := Build(w.Subject)
			tables := 0
			for _, waiting := range report.Waiting {
				tables += len(waiting.Tables)
				for i := range waiting.Tables {
					addsUp(t, &waiting.Tables[i], len(w.Nodes))
				}
			}
			if tables == 0 {
				t.Error("there is no table")
			}
			for _, columns := range []int{80, 100, 160} {
				got := report.Text(text.Page{Columns: columns})
				golden.Check(t, filepath.Join("testdata", "domains", fmt.Sprintf("%s-%d.golden", name, columns)), got)
				checkSize(t, got, columns)
			}
		})
	}
}

// TestDocumented: the example of the documentation is what is printed.
func TestDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "cli.md"))
	if err != nil {
		t.Fatal(err)
	}
	if want := Build(situations(t)["anchored"].Subject).Text(text.Page{}); !strings.Contains(string(page), "```\n"+want+"```\n") {
		t.Errorf("docs/cli.md does not show\n%s", want)
	}
}

// withoutAdvice counts the lines of a text but for those of the advice.
func withoutAdvice(got string) int {
	lines := 0
	for section := range strings.SplitSeq(got, "\n\n") {
		if !strings.HasPrefix(section, "WHAT ") {
			lines += 1 + strings.Count(strings.TrimSuffix(section, "\n"), "\n") + 1
		}
	}
	return lines - 1
}

// checkSize bounds lines and columns. Commands are on one line each.
func checkSize(t *testing.T, got string, columns int) {
	t.Helper()
	if lines := withoutAdvice(got); lines > MaxLines {
		t.Errorf("%d lines:\n%s", lines, got)
	}
	for line := range strings.Lines(got) {
		if width := text.Width(strings.TrimSuffix(line, "\n")); width > columns && !strings.HasPrefix(line, "  kubectl ") {
			t.Errorf("%d of %d columns: %s", width, columns, line)
		}
	}
}

// addsUp: the hosts of a domain are those that take a pod and those that do not; all domains have all hosts.
func addsUp(t *testing.T, table *Table, hosts int) {
	t.Helper()
	for _, d := range append(table.Domains, table.Outside...) {
		out := 0
		for _, e := range d.Excluded {
			out += e.Hosts
		}
		if d.Open+out != d.Hosts || d.Holds > table.Pods || d.Largest > d.Free {
			t.Errorf("%+v of %d pods", d, table.Pods)
		}
		if d.Holds >= table.Pods && len(table.Outside) == 0 {
			t.Errorf("%s holds all, and the gang waits", d.Domain)
		}
	}
	whole, shown := sum(append(table.Domains, table.Outside...)), sum(table.Domains)
	if table.Within == "" && whole.Hosts != hosts || shown.Hosts > hosts {
		t.Errorf("%d hosts in the rows, %d in the cluster", whole.Hosts, hosts)
	}
}

// TestAlwaysShort: the text stays within its bounds whatever the cluster looks like.
func TestAlwaysShort(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	cut := 0
	for range 30 {
		graph := strings.Replace([]string{chat, mixed}[random.IntN(2)], "replicas: 2", fmt.Sprintf("replicas: %d", 1+random.IntN(9)), 1)
		w := newWorld(t, hall(1+random.IntN(4), 1+random.IntN(12), 1+random.IntN(3)), topologyManifest, graph)
		for i, n := range w.Nodes {
			switch random.IntN(5) {
			case 0:
				n.Spec.Unschedulable = true
			case 1:
				n.Spec.Taints = []corev1.Taint{{Key: fmt.Sprintf("example.com/repair-%d", random.IntN(5)), Effect: corev1.TaintEffectNoSchedule}}
			default:
				w.occupy(fmt.Sprintf("a-pod-with-quite-a-long-name-%d", i), n.Name, fmt.Sprint(1+random.IntN(8)))
			}
		}
		w.resolve("")
		w.condition(ready, false, "insufficient_capacity", strings.Repeat("Resources not ready; ", 40))
		w.condition(placed, false, "InsufficientCapacity", strings.Repeat("other words than those of now ", 40))
		for i := range 12 {
			w.event(0, "Pod", fmt.Sprintf("p-%d", i), "Failed", strings.Repeat("a long message ", 40))
		}
		w.Denied = []string{"list priorityclasses.scheduling.k8s.io"}
		report := Build(w.Subject)
		for _, columns := range []int{80, 100, 160} {
			got := report.Text(text.Page{Columns: columns})
			if strings.Contains(got, "and more:") {
				cut++
			}
			if lines := withoutAdvice(got); lines > MaxLines {
				t.Fatalf("%d lines:\n%s", lines, got)
			}
		}
		if wide := report.Text(text.Page{Columns: 80, Wide: true}); strings.Contains(wide, "more") && strings.Contains(wide, "-o wide") {
			t.Fatalf("a wide page leaves something out:\n%s", wide)
		}
	}
	if cut > 0 {
		t.Errorf("%d texts were cut off instead of folded", cut)
	}
}
