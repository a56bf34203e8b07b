// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package specs

// PodGroup is the provider that uses Kubernetes' own gang scheduling.
var PodGroup = Spec{Name: "PodGroup", Planned: true}
