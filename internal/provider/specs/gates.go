// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package specs

// Gates is the default provider: scheduling gates and node selectors, which every kube-scheduler supports.
var Gates = Spec{Name: "Gates", Planned: true, InPlace: true, TakesSets: true}
