// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

// root is the root of the repository.
var root = filepath.Join("..", "..")

// requeueAfter is shorter than in production, so that a gang that cannot bind is evicted soon.
const requeueAfter = 20 * time.Second

// Variables of the first process, which runs all specs because they are Serial.
var (
	set     *peers.Set
	scratch string
	cluster *sandbox.Sandbox
	api     client.WithWatch
)

func TestPeers(t *testing.T) {
	var err error
	if set, err = peers.Find(root, peers.Chosen()...); err != nil {
		fmt.Println("skipped:", err)
		t.SkipNow()
	}
	if err := untested(); err != nil {
		t.Fatal(err)
	}
	suite.Run(t, "Real peers", suite.Default)
}

var _ = SynchronizedBeforeSuite(start, func() { DeferOnFailure(keepLogs) }, NodeTimeout(suite.Timeout()))

// start starts the sandbox with the peers, and reports their versions.
func start(ctx SpecContext) {
	absolute, err := filepath.Abs(root)
	Expect(err).NotTo(HaveOccurred())
	scratch, err = os.MkdirTemp("", "trellis-peers")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { _ = os.Remove(scratch) }) // this fails if logs were kept in it
	AddReportEntry("The peers", strings.Join(set.Versions(ctx), "; "))
	cluster, err = sandbox.Up(ctx, sandbox.Options{
		Name: "peers", Dir: filepath.Join(scratch, "s"), Root: absolute,
		Shape:    simulated.Shape{Zones: 1, Blocks: 1, Racks: 1, Hosts: 1, GPUs: 1},
		Operator: true, Manager: sandbox.ManagerOptions{Args: []string{"--requeue-after=" + requeueAfter.String()}},
		Peers: set.Beside(progress.Discard),
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
	AddReportEntry("the end of "+log, strings.TrimSpace(proc.Tail(log, 60)), ReportEntryVisibilityFailureOrVerbose)
	return suite.KeepLogs(filepath.Dir(log), filepath.Join(scratch, "logs"))
}
