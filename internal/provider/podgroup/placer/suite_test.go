// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placer

import (
	"testing"

	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// The specs are about what an API server is started with: each starts one of its own.
func TestOnAPIServers(t *testing.T) { suite.Run(t, "PodGroup placer", suite.Default) }
