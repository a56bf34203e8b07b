// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/hack/sandbox/peers"
	"github.com/trellis-k8s/trellis/hack/sandbox/proc"
	"github.com/trellis-k8s/trellis/hack/sandbox/progress"
	"github.com/trellis-k8s/trellis/internal/operator"
	"github.com/trellis-k8s/trellis/test/testutil/simulated"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// Variables of the first process, which runs all specs because they are Serial.
var (
	scratch string
	cluster *sandbox.Sandbox
	// kueue installs Kueue again.
	kueue *sandbox.Peers
	api   client.WithWatch
)

func TestKueue(t *testing.T) { suite.Run(t, "Real Kueue", suite.Default) }

var _ = SynchronizedBeforeSuite(start, func() { DeferOnFailure(keepLogs) }, NodeTimeout(suite.Timeout()))

// start starts the sandbox with Kueue, and reports its version.
func start(ctx SpecContext) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	Expect(err).NotTo(HaveOccurred())
	set, err := peers.Find(root, peers.Kueue, string(sandbox.LeaderWorkerSet))
	Expect(err).NotTo(HaveOccurred())
	AddReportEntry("The peer", strings.Join(set.Versions(ctx), "; "))
	alone, err := peers.Find(root, peers.Kueue)
	Expect(err).NotTo(HaveOccurred())
	kueue = alone.Beside(progress.Discard)
	scratch, err = os.MkdirTemp("", "trellis-kueue")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { _ = os.Remove(scratch) }) // this fails if logs were kept in it
	cluster, err = sandbox.Up(ctx, sandbox.Options{
		Name: "kueue", Dir: filepath.Join(scratch, "s"), Root: root,
		Shape: simulated.Shape{Zones: 1, Blocks: 1, Racks: 1, Hosts: 1, GPUs: 1}, Operator: true, Peers: set.Beside(progress.Discard),
	})
	Expect(err).NotTo(HaveOccurred(), "bringing the sandbox up")
	DeferCleanup(cluster.Down, NodeTimeout(suite.Timeout()))
	config, err := cluster.RESTConfig()
	Expect(err).NotTo(HaveOccurred())
	api = suite.Connect(ctx, config, operator.NewScheme())
}

// keepLogs adds the end of the operator's log to the report of a failed spec, and copies the logs of all programs, which are deleted with
// the sandbox.
func keepLogs() error {
	if cluster == nil {
		return nil
	}
	log := cluster.LogFile(sandbox.DefaultManager)
	for _, name := range []string{log, cluster.LogFile(peers.KueueProgram)} {
		AddReportEntry(fmt.Sprintf("the end of %s", name), strings.TrimSpace(proc.Tail(name, 40)), ReportEntryVisibilityFailureOrVerbose)
	}
	return suite.KeepLogs(filepath.Dir(log), filepath.Join(scratch, "logs"))
}
