// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package specs

// Gates is the default: scheduling gates and node selectors, which every kube-scheduler knows.
var Gates = Spec{Name: "Gates", Planned: true, InPlace: true, TakesSets: true}
