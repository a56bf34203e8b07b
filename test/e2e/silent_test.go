// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"os/exec"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/trellis-k8s/trellis/hack/sandbox"
	clilive "github.com/trellis-k8s/trellis/internal/cli/live"
	"github.com/trellis-k8s/trellis/internal/cli/status"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

var _ = Describe("The plugin without an operator", func() {
	// The operator is killed and a pod is deleted after that. No command says that all is well: each warns that the operator has not renewed its Lease,
	// and those that know of the pod miss it.
	It("warns that what it shows may be old, and counts missing pods", func(ctx SpecContext) {
		e := newEnvironment(of(ctx), "silent")
		w := e.newWorld(ctx, "silent", racks(2, 8, "a/r0", "a/r1")...)
		e.stopOperator(ctx)
		Expect(e.cluster.StartManager(ctx, sandbox.ManagerOptions{Args: []string{"--leader-elect=true"}})).To(Succeed())
		w.create(w.graphOf("g", "", services{"Worker": worker(1, 2, 8, "rack"), "Frontend": frontend(1)}))
		w.ready("g")
		for command, want := range map[string]string{"status": "is ready", "queue": "Nothing waits", "explain": "every packed replica is placed.", "tree": "g True"} {
			out, errOut := w.kubectlTrellis(0, argsOf(command)...)
			w.says(out, want)
			Expect(errOut).To(BeEmpty(), "%s of a running operator", command)
		}

		Expect(e.cluster.KillManager(ctx, sandbox.DefaultManager)).To(Succeed())
		w.deletePod("g-worker-0-1")
		w.until("the pod is gone and the operator is found silent", func() error {
			err := w.plugin("status", "dgd/g").Run()
			var exit *exec.ExitError
			if n := len(w.all()); n != 2 || !errors.As(err, &exit) || exit.ExitCode() != int(clilive.ExitSilent) {
				return fmt.Errorf("%d pods, status ends with %w", n, err)
			}
			return nil
		})
		for command, want := range map[string]string{
			"status":  "is not ready (pods that its status counts are missing or not ready)",
			"queue":   "Pods are missing that the status counts, and the operator has not reported it: silent/g (1 of 3 pods)",
			"explain": "but pods are missing of Worker-0",
			"tree":    "g False",
		} {
			out, errOut := w.kubectlTrellis(int(clilive.ExitSilent), argsOf(command)...)
			w.says(out, want)
			w.says(errOut, "Warning: The operator has not renewed its lease for", "what follows may be old.")
		}
		r := asJSON[status.Status](w, int(clilive.ExitSilent), "status", "g")
		Expect(r.Ready).To(BeFalse())
		Expect(r.Outdated).To(BeTrue())
		Expect(r.Operator).To(And(Not(BeNil()), HaveField("Silent", true)))
	}, SpecTimeout(suite.Timeout()))
})

// argsOf are the arguments of a command about the deployment g, or about the namespace.
func argsOf(command string) []string {
	if command == "queue" || command == "tree" {
		return []string{command}
	}
	return []string{command, "dgd/g"}
}
