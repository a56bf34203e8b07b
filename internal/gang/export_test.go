// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

// Regated is for tests that release pods as a provider does.
var Regated = regated
