// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"os"
	"testing"

	"github.com/trellis-k8s/trellis/test/rights"
)

// What the operator of these tests asks for is what its rights allow.
func TestMain(m *testing.M) { os.Exit(rights.Of("operator").Finish(shared.Main(m))) }
