// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"slices"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/placement"
)

// patient are the reasons of gangs whose wait can end without action by a person: they wait for capacity, for the end of a pause, or for
// other gangs and controllers.
var patient = []string{
	placement.CodeInsufficientCapacity, placement.CodeBaseGangWaits, placement.CodeNoPartner, gang.CodeRequeued, gang.CodeSchedulerRefuses,
	gang.CodeUnschedulable, gang.CodePreempting, gang.CodeWaitingForAdmission, gang.CodeCreating,
}

// needAction are the reasons of gangs that wait until a person acts. The alert TrellisGangNeedsAction has the same reasons.
var needAction = []string{
	placement.CodeNeverFits, placement.CodeNoDomain, placement.CodeDomainGone, placement.CodeBudgetExhausted, placement.CodeAnchorConflict,
	placement.CodeLevelGone, gang.CodeProviderNotReady, gang.CodeSchedulingBlocked, gang.CodeReleaseRefused, gang.CodeRecordFull,
	gang.CodePodsNotEnding, gang.CodeRefusedEverywhere,
}

// waitReasons are all reasons for which a gang waits.
var waitReasons = slices.Concat(patient, needAction)

// WaitReasons returns all reasons for which a gang waits.
func WaitReasons() []string { return slices.Clone(waitReasons) }

// NeedsAction reports whether a gang that waits for this reason waits until a person acts.
func NeedsAction(reason string) bool { return slices.Contains(needAction, reason) }
