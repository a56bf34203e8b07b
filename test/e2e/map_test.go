// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/cli/maps"
	"github.com/trellis-k8s/trellis/internal/cli/tree"
	"github.com/trellis-k8s/trellis/test/testutil/drawn"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// mapped is a cluster to draw: a graph that runs, one that waits, a pod of another client, and a cordoned host.
func mapped(ctx context.Context, name string) *world {
	GinkgoHelper()
	w := newWorld(ctx, name, racks(3, 8, name+"/r0", name+"/r1")...) // in a zone of its own
	w.occupy("train", name+"-r1-1", 3)
	w.cordon(name + "-r1-2")
	w.create(w.graphOf("runs", "", services{"Worker": worker(1, 2, 8, "rack"), "Frontend": frontend(1)}))
	w.ready("runs")
	w.create(w.graphOf("waits", "", services{"Worker": worker(1, 2, 8, "rack")}))
	w.hasCondition("waits", nvidiav1alpha1.ConditionPlaced, metav1.ConditionFalse, "InsufficientCapacity", "needs 2 pods")
	return w
}

func (w *world) cordon(host string) {
	w.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: w.node(host)}}
	if err := w.c.Patch(w.t.Context(), node, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"unschedulable":true}}`))); err != nil {
		w.t.Fatal(err)
	}
}

// agrees compares a map with what tree says of the cluster now: the zone of this scenario. Others have graphs elsewhere, which are drawn too.
func (w *world) agrees(m *maps.Map) error {
	w.t.Helper()
	report := asJSON[tree.Overview](w, 0, "tree", "--topology", w.name)
	graphs := slices.DeleteFunc(slices.Clone(m.Graphs), func(g tree.Deployment) bool { return g.Namespace != w.name })
	if len(report.Graphs) != 2 || len(graphs) != 2 {
		return fmt.Errorf("%d graphs are drawn, tree has %d, want 2", len(graphs), len(report.Graphs))
	}
	reported, whole := w.zoneOf(report.Trees), w.zoneOf(m.Trees)
	if reported == nil || whole == nil {
		return fmt.Errorf("the zone is missing: drawn %t, in tree %t", whole != nil, reported != nil)
	}
	if diff, domains := drawn.Diff(reported, whole); diff != "" || domains < 4 {
		return fmt.Errorf("%d domains compared\n%s", domains, diff)
	}
	return nil
}

// zoneOf is the zone of this scenario in the first tree.
func (w *world) zoneOf(trees []tree.Tree) *tree.Domain {
	if len(trees) > 0 {
		for _, d := range trees[0].Cluster.Children {
			if d.Name == w.name {
				return d
			}
		}
	}
	return nil
}

var mapData = regexp.MustCompile(`(?s)<script id="data" type="application/json">(.*?)</script>`)

var _ = Describe("The map", func() {
	// The page and the image that the plugin draws of a running cluster show what tree says of it.
	It("shows of a running cluster what tree says of it", func(ctx SpecContext) {
		w := mapped(ctx, "map")
		other := newWorld(ctx, "map-other", racks(1, 8, "map-other/r0")...) // names have the namespace where there are several
		other.create(other.graphOf("runs", "", services{"Worker": worker(1, 1, 8, "rack")}))
		other.ready("runs")
		page, _ := w.kubectlTrellis(0, "map", "--topology", w.name)
		data := mapData.FindStringSubmatch(page)
		Expect(data).NotTo(BeNil(), "the page has no data:\n%.500s", page)
		m := &maps.Map{}
		Expect(json.Unmarshal([]byte(data[1]), m)).To(Succeed())
		Expect(w.agrees(m)).To(Succeed())
		waits := slices.DeleteFunc(m.Waiting, func(g maps.GraphCause) bool { return g.Namespace != w.name })
		Expect(waits).To(HaveLen(1))
		Expect(waits[0].Graph).To(Equal("waits"))
		Expect(waits[0].Reason).To(Equal("InsufficientCapacity"))
		Expect(waits[0].Freeing).NotTo(BeEmpty())

		svg, _ := w.kubectlTrellis(0, "map", "-o", "svg", "--topology", w.name)
		texts, titles := svgTexts(svg)
		// The graphs of other scenarios are drawn, too: the legend has names for a few graphs only, and the first few that wait are listed.
		for want, instead := range map[string]string{
			"rack r0": "", "rack r1": "", "map/runs": `^pods of \d+ graphs$`, "Waits: map/waits: Worker-0": `^and \d+ more that wait$`,
		} {
			Expect(slices.ContainsFunc(texts, func(s string) bool {
				return strings.Contains(s, want) || instead != "" && regexp.MustCompile(instead).MatchString(s)
			})).To(BeTrue(), "the image says %q, want %q in it", texts, want)
		}
		titles = slices.DeleteFunc(titles, func(s string) bool { return !strings.HasPrefix(s, w.name+"/") })
		slices.Sort(titles)
		Expect(titles).To(Equal([]string{"map/runs: Frontend-0", "map/runs: Worker-0 leader, 8 GPUs", "map/runs: Worker-0 worker 1, 8 GPUs", "map/train, 3 GPUs"}))
	}, SpecTimeout(suite.Timeout()))

	// A page that is served follows the cluster: a host that is cordoned, and a graph that is deleted, are drawn so without being asked for.
	It("follows the cluster while it is served", func(ctx SpecContext) {
		w := mapped(ctx, "map-served")
		next := w.served()
		w.nextMap(next, "the map that tree describes", w.agrees)

		w.cordon(w.name + "-r0-2")
		w.nextMap(next, "the cordoned host", func(m *maps.Map) error {
			if got := stateOf(m.Trees[0].Cluster, w.node(w.name+"-r0-2")); got != "cordoned" {
				return fmt.Errorf("its state is %q", got)
			}
			return w.agrees(m)
		})

		Expect(w.c.Delete(ctx, w.dgd("waits"))).To(Succeed())
		w.nextMap(next, "the map without the deleted graph", func(m *maps.Map) error {
			if slices.ContainsFunc(m.Graphs, func(g tree.Deployment) bool { return g.Namespace == w.name && g.Name == "waits" }) {
				return errors.New("it is still there")
			}
			return nil
		})
	}, SpecTimeout(suite.Timeout()))
})

// svgTexts are the texts of an image, and the titles of what it draws.
func svgTexts(svg string) (texts, titles []string) {
	GinkgoHelper()
	decoder := xml.NewDecoder(strings.NewReader(svg))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return texts, titles
		}
		Expect(err).NotTo(HaveOccurred(), "the image is no XML")
		start, ok := token.(xml.StartElement)
		if !ok || start.Name.Local != "text" && start.Name.Local != "title" {
			continue
		}
		var text string
		Expect(decoder.DecodeElement(&text, &start)).To(Succeed())
		if start.Name.Local == "text" {
			texts = append(texts, text)
		} else {
			titles = append(titles, text)
		}
	}
}

func stateOf(d *tree.Domain, node string) string {
	if d.Node && d.Name == node {
		return d.State
	}
	for _, child := range d.Children {
		if state := stateOf(child, node); state != "" {
			return state
		}
	}
	return ""
}

// nextMap takes maps from a server until one is as wanted.
func (w *world) nextMap(next func() *maps.Map, what string, check func(*maps.Map) error) {
	w.t.Helper()
	var last error
	for began := time.Now(); time.Since(began) < suite.Patience(); {
		if last = check(next()); last == nil {
			return
		}
	}
	w.t.Fatalf("waiting for %s: %v", what, last)
}

// served runs map --serve until the end of the test, and returns what waits for the next map that it pushes.
func (w *world) served() func() *maps.Map {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), "../../bin/kubectl-trellis", "map", "--serve", "--topology", w.name, "--kubeconfig", w.cluster.Kubeconfig())
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // when the test has ended, before its cleanups
	says, err := cmd.StderrPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	lines, address := bufio.NewScanner(says), ""
	for address == "" && lines.Scan() {
		address = regexp.MustCompile(`http://\S+/`).FindString(lines.Text())
	}
	if address == "" {
		w.t.Fatalf("map --serve says no address: %v", cmd.Wait())
	}
	w.t.Cleanup(func() {
		_, _ = io.Copy(io.Discard, says)
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 0 {
			w.t.Errorf("interrupted, map --serve ends with code %d, want 0", code)
		}
	})
	ctx, cancel := context.WithTimeout(w.t.Context(), suite.Patience())
	w.t.Cleanup(cancel)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"events", nil)
	if err != nil {
		w.t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = answer.Body.Close() })
	events := bufio.NewScanner(answer.Body)
	events.Buffer(nil, 16<<20)
	return func() *maps.Map {
		w.t.Helper()
		for events.Scan() {
			data, found := strings.CutPrefix(events.Text(), "data: ")
			if !found {
				continue
			}
			m := &maps.Map{}
			if err := json.Unmarshal([]byte(data), m); err != nil {
				w.t.Fatal(err)
			}
			return m
		}
		w.t.Fatalf("the server says nothing more: %v", events.Err())
		return nil
	}
}
