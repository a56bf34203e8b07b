// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/test/testutil/simulated"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// reaping waits until its standard input ends, then ends a sandbox and removes the folder around it.
const reaping = `cat; if [ -d "$2" ]; then "$1" sandbox down --dir="$2" || exit; fi; rm -rf "$3"`

// lives are the write ends of the reapers' pipes, open until this process ends.
var lives []*os.File

// reap starts a process that ends the sandbox in dir and removes scratch when this process has ended for any reason.
func reap(root, scratch, dir string) error {
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	lives = append(lives, write)
	reaper := exec.Command("sh", "-c", reaping, "sh", filepath.Join(root, "bin", "kubectl-trellis"), dir, scratch)
	reaper.Stdin, reaper.Dir, reaper.SysProcAttr = read, root, &syscall.SysProcAttr{Setsid: true}
	return reaper.Start()
}

// killedVariable makes TestKilled the process to be killed; its value is the folder of that process.
const killedVariable = "TRELLIS_NODES_KILLED"

// TestKilled starts a sandbox and waits to be killed: see the spec below.
func TestKilled(t *testing.T) {
	scratch := os.Getenv(killedVariable)
	if scratch == "" {
		t.Skip("it is started by a spec")
	}
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(scratch, "s")
	if err := reap(root, scratch, dir); err != nil {
		t.Fatal(err)
	}
	_, err = sandbox.Up(t.Context(), sandbox.Options{
		Name: "killed", Dir: dir, Root: root, Shape: simulated.Shape{Zones: 1, Blocks: 1, Racks: 1, Hosts: 1},
		Real: sandbox.RealNodes{Count: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(scratch, "up"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	select {}
}

var _ = Describe("A run with a sandbox with real nodes that is killed", Serial, func() {
	It("leaves nothing on the machine", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		before := lookAtMachine()
		scratch, err := os.MkdirTemp("", "trellis-killed")
		Expect(err).NotTo(HaveOccurred())
		program, err := os.Executable()
		Expect(err).NotTo(HaveOccurred())
		command := exec.Command(program, "-test.run=^TestKilled$", "-test.timeout=1h")
		command.Env = append(os.Environ(), killedVariable+"="+scratch)
		command.Stdout, command.Stderr = GinkgoWriter, GinkgoWriter
		Expect(command.Start()).To(Succeed())
		ended := make(chan error, 1)
		go func() { ended <- command.Wait() }()
		Eventually(ctx, func() error {
			select {
			case err := <-ended:
				return StopTrying(fmt.Sprint("it has ended: ", err))
			default:
				_, err := os.Stat(filepath.Join(scratch, "up"))
				return err
			}
		}).Should(Succeed())
		Expect(lookAtMachine()).NotTo(Equal(before))
		Expect(command.Process.Kill()).To(Succeed())
		Eventually(ctx, func() string { return scratch }).ShouldNot(BeADirectory())
		Eventually(ctx, lookAtMachine).Should(Equal(before))
	})
})
