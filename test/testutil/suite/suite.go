// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package suite runs the Ginkgo suites of the project, those that need an API server or a sandbox, in one way. A suite is a file
// suite_test.go:
//
//	func TestAPI(t *testing.T) { suite.Run(t, "Definitions", suite.Default) }
//
//	var _ = SynchronizedBeforeSuite(func() []byte { ... start ... }, func([]byte) { ... connect ... })
//
// Each of the processes that ginkgo -p starts connects to the control plane that the first one has started.
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
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/trellis-k8s/trellis/test/testutil/patience"
	"github.com/trellis-k8s/trellis/test/testutil/tier"
)

// Labels of specs. A provider's name is a label, too.
var (
	// Core specs of a suite that runs with OnlyCore are part of make test.
	Core = ginkgo.Label("core")
	// Slow specs repeat what others show, or take long: make test leaves them out.
	Slow = ginkgo.Label("slow")
	// Faults specs kill processes or break hosts: make test leaves them out, unless they are Core, too.
	Faults = ginkgo.Label("faults")
	// KAI, Grove and LWS (LeaderWorkerSet) are the peers that specs are about.
	KAI   = ginkgo.Label("kai")
	Grove = ginkgo.Label("grove")
	LWS   = ginkgo.Label("lws")
)

// Filter is the label filter of the core tier.
type Filter string

const (
	// Default leaves out what is slow or about faults.
	Default Filter = "core || !(slow || faults)"
	// OnlyCore leaves out all that is not labelled core.
	OnlyCore Filter = "core"
)

// specsVariable of the environment is "skip" where go test leaves the specs to ginkgo, and runs the other tests of their packages.
const specsVariable = "TRELLIS_SPECS"

// Patience is how long a wait for an event may take before it fails the spec. It bounds specs that hang and is no measure of speed: no
// spec may pass or fail by how fast the machine is.
func Patience() time.Duration { return patience.Limit() }

// Timeout of a spec: SpecTimeout(suite.Timeout()). A spec waits for several events one after the other.
func Timeout() time.Duration { return 4 * Patience() }

// Run runs the specs of a package as one Go test. In the core tier those run that the filter names, unless ginkgo was given a filter of
// its own.
func Run(t *testing.T, name string, core Filter) {
	t.Helper()
	if os.Getenv(specsVariable) == "skip" {
		t.Skip(specsVariable + "=skip: ginkgo runs the specs")
	}
	log.SetLogger(ginkgo.GinkgoLogr) // a spec that fails shows what was logged
	gomega.RegisterFailHandler(ginkgo.Fail)
	gomega.SetDefaultEventuallyTimeout(Patience())
	gomega.SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	gomega.EnforceDefaultTimeoutsWhenUsingContexts()
	config, reporter := ginkgo.GinkgoConfiguration()
	if tier.Core() {
		config.LabelFilter = cmp.Or(config.LabelFilter, string(core))
	}
	config.Timeout = max(config.Timeout, 6*time.Hour) // go test and ginkgo bound the process
	config.PollProgressAfter = cmp.Or(config.PollProgressAfter, Patience()/2)
	ginkgo.RunSpecs(t, name, config, reporter)
}

// Entries are the cases of a table by name, in the order of names, for DescribeTable. The body takes the case.
func Entries[C any](cases map[string]C, args ...any) []ginkgo.TableEntry {
	ginkgo.GinkgoHelper() // a case that fails is reported at the table
	out := make([]ginkgo.TableEntry, 0, len(cases))
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		out = append(out, ginkgo.Entry(name, append(slices.Clone(args), cases[name])...))
	}
	return out
}
