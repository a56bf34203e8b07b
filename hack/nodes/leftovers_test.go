// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// started runs sandbox up with one real node, and returns when a file appears in its folder.
func started(ctx SpecContext, file string) (dir string, command *exec.Cmd) {
	GinkgoHelper()
	scratch, err := os.MkdirTemp("", "trellis-killed")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(os.RemoveAll, scratch)
	dir = filepath.Join(scratch, "s")
	Expect(reap(root, scratch, dir)).To(Succeed())
	command = exec.Command(filepath.Join(root, "bin", "kubectl-trellis"), "sandbox", "up", "--dir="+dir, "--real-nodes=1",
		"--operator=false",
		"--zones=1", "--blocks=1", "--racks=1", "--hosts=1")
	command.Dir, command.Stdout, command.Stderr = root, GinkgoWriter, GinkgoWriter
	Expect(command.Start()).To(Succeed())
	Eventually(ctx, func() error { _, err := os.Stat(filepath.Join(dir, file)); return err }).Should(Succeed())
	return dir, command
}

func down(ctx SpecContext, dir string) {
	GinkgoHelper()
	out, err := exec.CommandContext(ctx, filepath.Join(root, "bin", "kubectl-trellis"), "sandbox", "down", "--dir="+dir).CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(out))
	Expect(dir).NotTo(BeADirectory())
}

var _ = Describe("A sandbox with real nodes, while another one runs", Serial, func() {
	leaves := func(ctx SpecContext, when string, kill func(dir string, command *exec.Cmd)) {
		before := lookAtMachine()
		dir, command := started(ctx, when)
		kill(dir, command)
		down(ctx, dir)
		Expect(lookAtMachine()).To(Equal(before))
	}
	DescribeTable("leaves nothing on the machine", leaves,
		Entry("after its command was killed while nodes started", SpecTimeout(suite.Timeout()), "run/real-0.pid", func(_ string,
			command *exec.Cmd) {
			Expect(command.Process.Signal(syscall.SIGKILL)).To(Succeed())
			_ = command.Wait()
		}),
		Entry("after it has run, and its folder of processes was lost", SpecTimeout(suite.Timeout()), "sandbox.json", func(dir string,
			command *exec.Cmd) {
			Expect(command.Wait()).To(Succeed())
			Expect(os.RemoveAll(filepath.Join(dir, "run"))).To(Succeed())
			Expect(os.Remove(filepath.Join(dir, "sandbox.json"))).To(Succeed())
		}),
	)
})
