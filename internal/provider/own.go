// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Unwatched has to go with every write of a kind that only a provider needs. The operator's client otherwise waits for its writes to show
// in the manager's cache, and so would start to watch there a kind that may not be served tomorrow.
const Unwatched = client.DisableReadYourWritesConsistency
