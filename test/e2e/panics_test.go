// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"fmt"
	"os"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/trellis-k8s/trellis/hack/sandbox"
)

// Controllers recover from a panic and try again, which can hide it from every other assertion.

// panicked are the panics of operators in this process until now.
var panicked float64

var _ = AfterEach(func() {
	families, err := metrics.Registry.Gather()
	Expect(err).NotTo(HaveOccurred())
	sum := 0.0
	for _, family := range families {
		if family.GetName() == "controller_runtime_reconcile_panics_total" {
			for _, m := range family.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	fresh := sum - panicked
	panicked = sum
	Expect(fresh).To(BeZero(), "a controller panicked: see \"Observed a panic\" above")
})

// noPanic reads the log of a sandbox's operator.
func noPanic(s *sandbox.Sandbox) error {
	log, err := os.ReadFile(s.LogFile(sandbox.DefaultManager))
	if err != nil {
		return nil //nolint:nilerr // it had no operator
	}
	_, found, is := bytes.Cut(log, []byte("Observed a panic"))
	if !is {
		return nil
	}
	return fmt.Errorf("the operator of %s panicked: %.1500s", s.Name(), found)
}
