// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package specs

// KAI is the provider that uses KAI Scheduler.
var KAI = Spec{Name: "KAI", Planned: true, TakesSets: true, Queued: true, SchedulerName: "kai-scheduler"}
