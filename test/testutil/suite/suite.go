// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package suite runs the project's Ginkgo suites, which need an API server or a sandbox, in a uniform way. A suite is a file suite_test.go:
//
//	func TestAPI(t *testing.T) { suite.Run(t, "Definitions", suite.Default) }
//
//	var _ = SynchronizedBeforeSuite(func() []byte { ... start ... }, func([]byte) { ... connect ... })
//
// Each process of ginkgo -p connects to the control plane that the first process has started.
package suite

import (
	"cmp"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/trellis-k8s/trellis/test/testutil/patience"
	"github.com/trellis-k8s/trellis/test/testutil/tier"
)

// Labels of specs. A provider's name is a label, too.
var (
	// Core specs of a suite with the filter OnlyCore are part of make test.
	Core = ginkgo.Label("core")
	// Slow specs repeat other specs' checks, or take long: make test omits them.
	Slow = ginkgo.Label("slow")
	// Faults specs kill processes or break hosts: make test omits them, unless they are also Core.
	Faults = ginkgo.Label("faults")
	// KAI, Grove and LWS (LeaderWorkerSet) are the peers that specs test.
	KAI   = ginkgo.Label("kai")
	Grove = ginkgo.Label("grove")
	LWS   = ginkgo.Label("lws")
)

// Filter is the label filter of the core tier.
type Filter string

const (
	// Default omits Slow and Faults specs, unless they are Core.
	Default Filter = "core || !(slow || faults)"
	// OnlyCore omits all specs that are not Core.
	OnlyCore Filter = "core"
)

// specsVariable is an environment variable. It is "skip" if go test leaves the specs to ginkgo, and runs only the other tests of their
// packages.
const specsVariable = "TRELLIS_SPECS"

// Patience is the maximum time that a spec waits for an event. It ends specs that hang and does not measure speed: no spec may pass or fail
// by the speed of the machine.
func Patience() time.Duration { return patience.Limit() }

// Timeout is the timeout of a spec: SpecTimeout(suite.Timeout()). A spec waits for several events one after the other.
func Timeout() time.Duration { return 4 * Patience() }

// Run runs the specs of a package as one Go test. In the core tier it runs only those that core selects, unless ginkgo has its own filter.
func Run(t *testing.T, name string, core Filter) {
	t.Helper()
	if os.Getenv(specsVariable) == "skip" {
		t.Skip(specsVariable + "=skip: ginkgo runs the specs")
	}
	log.SetLogger(ginkgo.GinkgoLogr)  // a failed spec shows the log
	klog.SetLogger(ginkgo.GinkgoLogr) // client-go has its own logger
	gomega.RegisterFailHandler(ginkgo.Fail)
	gomega.SetDefaultEventuallyTimeout(Patience())
	gomega.SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	gomega.EnforceDefaultTimeoutsWhenUsingContexts()
	config, reporter := ginkgo.GinkgoConfiguration()
	if tier.Core() {
		config.LabelFilter = cmp.Or(config.LabelFilter, string(core))
	}
	config.Timeout = max(config.Timeout, 6*time.Hour) // go test and ginkgo limit the process
	config.PollProgressAfter = cmp.Or(config.PollProgressAfter, Patience()/2)
	ginkgo.RunSpecs(t, name, config, reporter)
}

// Entries returns the cases of a table, sorted by name, for DescribeTable. The body takes the case.
func Entries[C any](cases map[string]C, args ...any) []ginkgo.TableEntry {
	ginkgo.GinkgoHelper() // a failed case is reported at the table
	out := make([]ginkgo.TableEntry, 0, len(cases))
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		out = append(out, ginkgo.Entry(name, append(slices.Clone(args), cases[name])...))
	}
	return out
}
