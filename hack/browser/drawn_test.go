// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/cli/maps"
	"github.com/trellis-k8s/trellis/internal/cli/tree"
	"github.com/trellis-k8s/trellis/internal/whatif"
)

// drawn is the content of the page for one tree, read from its elements.
type drawn struct {
	// Amounts by path: "used/total free".
	Amounts map[string]string
	// Pods by name, with their GPUs and the host on which they are drawn.
	Pods map[string]string
	// Hosts by path, with their states.
	Hosts map[string]string
}

const readDrawn = `(() => {
  const out = { Amounts: {}, Pods: {}, Hosts: {} };
  for (const box of document.querySelectorAll('#map .dom')) {
    out.Amounts[box.dataset.path] = box.dataset.used + '/' + box.dataset.total + ' ' + box.dataset.free;
  }
  for (const host of document.querySelectorAll('#map .host')) {
    const path = host.closest('.dom').dataset.path + '/' + host.dataset.name;
    let used = 0, rest = 0;
    for (const cell of host.querySelectorAll('.run, .dot')) {
      const amount = Number(cell.dataset.amount ?? 0);
      if (cell.classList.contains('free')) { rest += amount; continue; }
      used += amount;
      if (cell.dataset.graph) out.Pods[cell.dataset.pod] = cell.dataset.graph + ' ' + amount + ' ' + host.dataset.name;
    }
    out.Hosts[path] = host.dataset.state ?? '';
    out.Amounts[path] = used + '/' + (host.dataset.total ?? used + rest) + ' ' + (host.dataset.state ? 0 : rest);
  }
  return out;
})()`

// readTree selects a tree by its index in the list, and reads the drawn elements.
func readTree(p *page, i int) drawn {
	p.Helper()
	p.do(fmt.Sprintf(`const list = byId('trees'); list.value = %d; list.onchange({ target: list });`, i))
	return js[drawn](p, readDrawn)
}

// reported returns the same content from the output of tree -o json, for each of its trees.
func reported(t *testing.T, report tree.Overview) []drawn {
	t.Helper()
	data, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	var back tree.Overview
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	list := make([]drawn, 0, len(back.Trees))
	for _, one := range back.Trees {
		list = append(list, reportedTree(one))
	}
	return list
}

func reportedTree(t tree.Tree) drawn {
	out := drawn{map[string]string{}, map[string]string{}, map[string]string{}}
	var walk func(*tree.Domain, string)
	walk = func(d *tree.Domain, path string) {
		out.Amounts[path] = fmt.Sprintf("%d/%d %d", d.Used, d.Total, d.Free)
		if d.Node {
			out.Hosts[path] = d.State
		}
		for _, p := range slices.Concat(d.Pods, d.Foreign) {
			if p.Graph == "" {
				continue
			}
			out.Pods[p.Namespace+"/"+p.Name] = fmt.Sprintf("%s/%s %d %s", p.Namespace, p.Graph, p.Amount, d.Name)
		}
		for _, child := range d.Children {
			at := child.Name
			if path != "" {
				at = path + "/" + at
			}
			walk(child, at)
		}
	}
	walk(t.Cluster, "")
	return out
}

// TestDrawnIsTold: the boxes, hosts and cells on the page are those of tree -o json, for each topology: all of its domains with its
// numbers, all of its pods on its hosts, and no others.
func TestDrawnIsTold(t *testing.T) {
	browser := start(t)
	for _, name := range []string{"8", "64", "96", "demo", "wall-64", "wall-400", "wall-2000"} {
		t.Run(name, func(t *testing.T) {
			b, m := build(t, name)
			p := open(t, browser, write(t, m), wide)
			data := reported(t, m.Overview)
			told := make([]drawn, 0, len(data))
			for i := range data {
				told = append(told, toldOf(t, b.World, m, i))
			}
			for i := range told {
				got := readTree(p, i)
				agree(t, told[i], got)
				if len(got.Hosts) != len(b.Nodes) {
					t.Errorf("%d hosts are drawn, want %d", len(got.Hosts), len(b.Nodes))
				}
				if diff := cmp.Diff(data[i], got); diff != "" {
					t.Errorf("all domains, hosts and pods (-data +page):\n%s", diff)
				}
				wholePage(p, len(m.Graphs))
			}
		})
	}
}

// toldOf returns the report of tree for only the graphs that one tree of a map shows. With all graphs, tree would list each host once, in
// one topology.
func toldOf(t *testing.T, w whatif.World, m *maps.Map, at int) drawn {
	t.Helper()
	w.Graphs = slices.DeleteFunc(slices.Clone(w.Graphs), func(dgd *nvidiav1beta1.DynamoGraphDeployment) bool {
		return !slices.ContainsFunc(m.Graphs, func(g tree.Deployment) bool {
			return g.Namespace == dgd.Namespace && g.Name == dgd.Name && g.Tree == at
		})
	})
	return reported(t, tree.Build(tree.Of(&w)))[0]
}

// agree checks that everything in a report of tree is drawn, and no other pod of its graphs. The page may draw more domains, because tree
// summarizes domains without pods, and pods of graphs that another tree shows.
func agree(t *testing.T, want, got drawn) {
	t.Helper()
	graphs := map[string]bool{}
	for pod, at := range want.Pods {
		graphs[strings.Fields(at)[0]] = true
		if got.Pods[pod] != at {
			t.Errorf("pod %s: drawn as %q, tree says %q", pod, got.Pods[pod], at)
		}
	}
	for pod, at := range got.Pods {
		if _, told := want.Pods[pod]; !told && graphs[strings.Fields(at)[0]] {
			t.Errorf("pod %s: drawn as %q, tree has none", pod, at)
		}
	}
	for path, amounts := range want.Amounts {
		if got.Amounts[path] != amounts {
			t.Errorf("%s: drawn %q, tree says %q", path, got.Amounts[path], amounts)
		}
	}
	for path, state := range want.Hosts {
		if at, there := got.Hosts[path]; !there || at != state {
			t.Errorf("%s: drawn as %q, tree says %q", path, at, state)
		}
	}
}

// looksOfGraphs is the number of distinguishable looks of graphs.
const looksOfGraphs = 30

// wholePage checks that graphs use as many different colours as possible, and that nothing is wider than the window.
func wholePage(p *page, graphs int) {
	p.Helper()
	if n := js[int](p, `new Set([...document.querySelectorAll('#graphs .swatch')].map((e) => getComputedStyle(e).backgroundColor + getComputedStyle(e).backgroundImage)).size`); n != min(graphs, looksOfGraphs) {
		p.Errorf("%d graphs have %d colours", graphs, n)
	}
	if w := js[int](p, `Math.max(document.documentElement.scrollWidth - innerWidth, ...[...document.querySelectorAll('main, aside, aside details, #map')].map((e) => e.scrollWidth - e.clientWidth))`); w > 0 {
		p.Errorf("the page is %d pixels wider than the window", w)
	}
}
