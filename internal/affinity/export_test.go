// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package affinity

// Parsed is how many terms of running pods were read.
func (x *Binder) Parsed() int { return x.parsed }
