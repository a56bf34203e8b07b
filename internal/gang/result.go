// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Checked is the result of the placement search for a Workload. Why is the reason why the Workload has no place; "" if all its pods have a
// place. Fingerprint identifies the pods that the search covered, and the additions that Kueue will make to these pods; see quota.Promise.
type Checked struct{ Why, Fingerprint string }

// Waiting is one replica that is not placed or not bound yet, and the reason.
type Waiting struct {
	Component string
	Ordinal   int
	// Code is a reason constant, and Message a sentence for the user.
	Code, Message string
	// Refusal is the planner's refusal, with its numbers; nil when the replica waits for another reason.
	Refusal *placement.Refusal
	// Note describes what Trellis does while the replica waits; "" for none. Message ends with the same note.
	Note string
	// Gang names, in messages, the replicas that are placed together with this replica. It is equal for all these replicas; "" when the
	// replica is placed alone.
	Gang string
}

// Blocked returns the reason why the replica, or the gang for which it waits, can run on no node, however much capacity is free; "" when
// free capacity may suffice.
func (w *Waiting) Blocked() string {
	for r := w.Refusal; r != nil; r = r.Cause {
		if r.Blocked != "" {
			return r.Blocked
		}
	}
	return ""
}

// Noted sets the note of a waiting replica, and appends the note to the message.
func (w *Waiting) Noted(note string) {
	w.Note = note
	w.Message += "; " + note
}

// String returns the name and the message of a waiting replica.
func (w Waiting) String() string { return fmt.Sprintf("%s-%d: %s", w.Component, w.Ordinal, w.Message) }

// Result is the result of the latest evaluation of a graph.
type Result struct {
	// UID is the UID of the DynamoGraphDeployment.
	UID types.UID
	// Creating: scaling groups or pods of the graph do not exist yet, so the counts are not final.
	Creating bool
	// Wanted and Placed count the replicas that Trellis places.
	Wanted, Placed int
	// Domain is the graph domain; empty without one.
	Domain topology.Path
	// Score is the [placement.Score] of all packed replicas whose pods have nodes, 0..1; [placement.Unscored] for none.
	Score float64
	// Places are the domains of the bound replicas.
	Places Places
	// Transfer describes how prefill and decode replicas share domains; nil when no kvTransferPolicy places them.
	Transfer *Transfer
	// Uncounted are the resources of placed pods that are not counted on their hosts.
	Uncounted []Uncounted
	// Cliques are the NVLink cliques of placed pods, by the templates of the pods' claims.
	Cliques []Claimed
	// UncountedClaims has, by component, the reason why the component's resource claims are not counted. UncountedVolumes names, by
	// component, the unknown objects of the component's volumes.
	UncountedClaims, UncountedVolumes map[string]string
	// Waiting are the replicas that wait, sorted by component and ordinal.
	Waiting []Waiting
	// Outside are replicas and single-node components with pods outside the domain that must hold them.
	Outside []Outside
	// Checked has, by Workload name, the result of the placement search that Trellis runs before Kueue admits the Workload.
	Checked map[string]Checked
	// Surplus are the replicas that an update would add beyond the permanently wanted number but that have no capacity.
	Surplus []Waiting
	// Asked describes the capacity that is requested from an autoscaler; "" for none.
	Asked string
}
