// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Checked is what came of looking for the place of a Workload: why it has none, or "" where all its pods have one. Fingerprint
// identifies the pods that it was looked for, and what they will be: see quota.Promise.
type Checked struct{ Why, Fingerprint string }

// Waiting is one replica that is not placed yet, and why.
type Waiting struct {
	Component string
	Ordinal   int
	// Code is a reason constant, Message a sentence for the user.
	Code, Message string
	// Refusal has the planner's numbers; nil when something else is the cause.
	Refusal *placement.Refusal
	// Note is what is done for it meanwhile; it ends Message too.
	Note string
	// Gang is what messages call the replicas that are placed together with it, the same for each of them; "" when it is placed alone.
	Gang string
}

// Blocked describes what keeps the replica, or the gang that it follows, off every node whatever is free; "" when capacity may do.
func (w *Waiting) Blocked() string {
	for r := w.Refusal; r != nil; r = r.Cause {
		if r.Blocked != "" {
			return r.Blocked
		}
	}
	return ""
}

// Noted adds what is done for a waiting replica meanwhile.
func (w *Waiting) Noted(note string) {
	w.Note = note
	w.Message += "; " + note
}

// String names a waiting replica for messages.
func (w Waiting) String() string { return fmt.Sprintf("%s-%d: %s", w.Component, w.Ordinal, w.Message) }

// Result is the scheduling result of a graph: what was last decided about it.
type Result struct {
	// UID of the DynamoGraphDeployment it is about.
	UID types.UID
	// Creating: scaling groups or pods of the graph are still to be made, so that the counts are not final.
	Creating bool
	// Wanted and Placed count the replicas that Trellis places.
	Wanted, Placed int
	// Domain is the graph domain; empty without one.
	Domain topology.Path
	// Score of all packed replicas that have their nodes, 0..1; [placement.Unscored] when none has. See [placement.Score].
	Score float64
	// Places are where the bound replicas are.
	Places Places
	// Transfer describes how prefill and decode replicas share domains; nil where no policy places them.
	Transfer *Transfer
	// Uncounted are the resources of placed pods that are not counted on their hosts.
	Uncounted []Uncounted
	// Cliques are the NVLink cliques of placed pods, by the template that claims of theirs are made of.
	Cliques []Claimed
	// UncountedClaims are why the resource claims of components are not counted, by component, and UncountedVolumes what is not known of their
	// volumes.
	UncountedClaims, UncountedVolumes map[string]string
	// Waiting replicas, in component and ordinal order.
	Waiting []Waiting
	// Outside are replicas with pods outside the domain that they have to be in.
	Outside []Outside
	// Checked are the Workloads of Kueue whose place was looked for before their pods may run.
	Checked map[string]Checked
	// Surplus replicas without capacity: an update would like them, beyond what is wanted permanently.
	Surplus []Waiting
	// Asked is the capacity that an autoscaler is asked for, in words; "" for none.
	Asked string
}
