// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"path/filepath"
	"testing"

	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// root is the root of the repository.
var root = filepath.Join("..", "..", "..")

func TestUp(t *testing.T) { suite.Run(t, "Sandboxes with real peers", suite.Default) }
