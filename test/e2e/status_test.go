// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// plugin prepares kubectl trellis in the world's namespace.
func (w *world) plugin(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(w.t.Context(), "../../bin/kubectl-trellis", append(args, "-n", w.name)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+w.cluster.Kubeconfig())
	return cmd
}

var _ = Describe("kubectl trellis status --watch", func() {
	// A user scales out and watches until all replicas serve: the command ends then, and not while one waits for capacity.
	It("ends when all replicas serve, and not while one waits for capacity", func(ctx SpecContext) {
		w := newWorld(ctx, "status", racks(2, 8, "a/r0")...)
		blocker := w.occupy("other", "a-r0-1", 8)
		w.create(w.graphOf("llm", "zone", services{"Decode": worker(1, 1, 8, "rack"), "Frontend": frontend(1)}))
		w.ready("llm")

		w.scale("llm", "Decode", 2)
		cmd := w.plugin("status", "dgd/llm", "--watch", "--timeout", suite.Patience().String())
		out, err := cmd.StdoutPipe()
		Expect(err).NotTo(HaveOccurred())
		Expect(cmd.Start()).To(Succeed())
		var seen []string
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			seen = append(seen, lines.Text())
			if strings.Contains(lines.Text(), "waiting: a place for 1 replica") && blocker != nil {
				By("it waits for capacity; the capacity is made")
				Expect(w.c.Delete(ctx, blocker)).To(Succeed())
				blocker = nil
			}
		}
		_, _ = io.Copy(io.Discard, out)
		Expect(cmd.Wait()).To(Succeed(), strings.Join(seen, "\n"))
		Expect(blocker).To(BeNil(), strings.Join(seen, "\n"))
		Expect(seen[len(seen)-1]).To(HaveSuffix("llm in status is ready, placed in a"))
		report := struct {
			Done     bool
			Services []struct {
				Name           string
				Ready, Desired int
				Where          []struct{ Domain string }
			}
		}{}
		text, err := w.plugin("status", "llm", "-o", "json").Output()
		Expect(err).NotTo(HaveOccurred())
		Expect(json.Unmarshal(text, &report)).To(Succeed())
		Expect(report.Done).To(BeTrue())
		Expect(report.Services[0].Ready).To(Equal(2))
		Expect(report.Services[0].Where[0].Domain).NotTo(BeEmpty())

		By("a graph that is not there, and one that goes while it is watched")
		text, err = w.plugin("status", "dgd/nobody").CombinedOutput()
		Expect(err).To(HaveOccurred())
		Expect(string(text)).To(ContainSubstring("DynamoGraphDeployment status/nobody not found"))
		forever := w.plugin("status", "dgd/llm", "--watch", "--forever")
		out, err = forever.StdoutPipe()
		Expect(err).NotTo(HaveOccurred())
		Expect(forever.Start()).To(Succeed())
		lines = bufio.NewScanner(out)
		Expect(lines.Scan()).To(BeTrue(), "it prints a line")
		Expect(w.c.Delete(ctx, w.dgd("llm"), client.PropagationPolicy("Foreground"))).To(Succeed())
		_, _ = io.Copy(io.Discard, out)
		Expect(forever.Wait()).To(HaveOccurred())
		Expect(forever.ProcessState.ExitCode()).To(Equal(1))
	}, SpecTimeout(suite.Timeout()))
})
