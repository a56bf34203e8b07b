// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placer

import (
	"testing"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// The specs are about what an API server is started with: each starts one of its own.
func TestOnAPIServers(t *testing.T) { suite.Run(t, "PodGroup placer", suite.Default) }

var _ = BeforeSuite(func() { log.SetLogger(logr.Discard()) })
