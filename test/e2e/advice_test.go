// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-k8s/trellis/internal/cli/explain"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// obstacle is a cause for which the deployment g waits, with one packed replica of two hosts.
type obstacle struct {
	hosts []host
	// prepare lets g wait.
	prepare func(*world)
	// advises is a part of the advised command.
	advises string
}

var obstacles = map[string]obstacle{
	"pods without a controller": {
		racks(2, 8, "a/r0"), func(w *world) { w.occupy("train", "a-r0-1", 8) }, "kubectl delete pod",
	},
	"fragmented hosts": {
		racks(2, 8, "a/r0", "a/r1"), func(w *world) { w.occupy("small-0", "a-r0-0", 1); w.occupy("small-1", "a-r1-0", 1) }, "kubectl delete pod",
	},
	"cordoned hosts": {
		racks(2, 8, "a/r0"), func(w *world) { w.cordon("a-r0-0"); w.cordon("a-r0-1") }, "kubectl uncordon",
	},
	"a host that is tainted for others": {
		racks(2, 8, "a/r0"), func(w *world) { w.mustKubectl("taint", "node", w.node("a-r0-0"), "team=training:NoSchedule") }, "kubectl taint node",
	},
	"replicas of another deployment": {
		racks(2, 8, "a/r0", "a/r1"), func(w *world) {
			w.create(w.graphOf("other", "", services{"Worker": worker(2, 2, 8, "rack")}))
			w.ready("other")
		}, "kubectl patch dgd",
	},
	"the only replica of another deployment": {
		racks(2, 8, "a/r0"), func(w *world) {
			w.create(w.graphOf("other", "", services{"Worker": worker(1, 2, 8, "rack")}))
			w.ready("other")
		}, "kubectl delete dgd",
	},
}

var _ = Describe("What explain advises", Label("cli"), func() {
	for name, one := range obstacles {
		It("ends the wait for "+name+" when it is run as printed", func(ctx SpecContext) {
			w := newWorld(ctx, "advice-"+strings.ReplaceAll(name, " ", "-"), one.hosts...)
			one.prepare(w)
			w.create(w.graphOf("g", "zone", services{"Worker": worker(1, 2, 8, "rack")}))
			w.hasCondition("g", placed, metav1.ConditionFalse, "InsufficientCapacity", "needs 2 pods")
			w.follows("g", one.advises)
			w.ready("g")
		}, SpecTimeout(suite.Timeout()))
	}

	It("moves a graph into a zone that holds all of it by a Parallel restart", func(ctx SpecContext) {
		w := newWorld(ctx, "advice-restart", racks(2, 8, "a/r0", "b/r0", "b/r1")...)
		w.create(w.graphOf("g", "zone", services{"Worker": worker(1, 2, 8, "rack")}))
		w.ready("g")
		w.scale("g", "Worker", 2)
		w.hasCondition("g", placed, metav1.ConditionFalse, "InsufficientCapacity", "running pods anchor the graph in")
		w.follows("g", "kubectl trellis rollout restart --parallel")
		w.until("two replicas run in the other zone", func() error {
			if zones := w.domains("zone", w.of("Worker")...); !slices.Equal(zones, []string{"b"}) {
				return fmt.Errorf("they are in %v", zones)
			}
			return w.isReady("g")
		})
		w.ready("g")
	}, SpecTimeout(suite.Timeout()))
})

// follows runs the commands of the first advice about a graph in a shell, as a user would who confirms them.
func (w *world) follows(graph, part string) {
	w.t.Helper()
	report := asJSON[explain.Explanation](w, 0, "explain", "dgd/"+graph)
	Expect(report.Advice).NotTo(BeEmpty(), "nothing is advised")
	commands := report.Advice[0].Commands
	Expect(commands).To(ContainElement(HavePrefix(part)))
	plugin, err := filepath.Abs("../../bin")
	w.must(err)
	for _, command := range commands {
		shell := exec.CommandContext(w.t.Context(), "bash", "-euc", command)
		shell.Stdin = strings.NewReader("y\n")
		shell.Env = append(os.Environ(), "KUBECONFIG="+w.cluster.Kubeconfig(), "KUBECACHEDIR="+w.t.TempDir(),
			"PATH="+strings.Join([]string{w.cluster.Assets(), plugin, os.Getenv("PATH")}, string(os.PathListSeparator)))
		out, err := shell.CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), "%s\n%s", command, out)
	}
}
