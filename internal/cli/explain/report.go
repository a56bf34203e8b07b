// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-k8s/trellis/internal/cli/live"
)

// Explanation is the explanation, and its JSON form. Domains are paths of label values, e.g. "zone-a/rack-1".
type Explanation struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// State is the deployment in one word, as its status says.
	State string `json:"state,omitempty"`
	// Domain all of it sits in; empty without such a constraint.
	Domain string `json:"domain,omitempty"`
	// Replicas by component and ordinal.
	Replicas []Replica `json:"replicas"`
	// Waiting explains why replicas are not placed, those with the same words together.
	Waiting []Cause `json:"waiting"`
	// Advice are changes that were planned on a copy, each with the result that it says.
	Advice []Advice `json:"advice,omitempty"`
	// Withheld describes changes that a reader may think of, and that were planned and do not help.
	Withheld []string `json:"withheld,omitempty"`
	// Moves would free a place for the first gang that waits; absent without any. Advice begins with them.
	Moves *Moves `json:"moves,omitempty"`
	// Transfer describes how prefill and decode replicas share domains, and what would mend it; absent where no kvTransferPolicy
	// places them.
	Transfer []string `json:"kvTransfer,omitempty"`
	// Result compares the plan with what the operator says.
	Result Result `json:"result"`
	// Conditions that are not as they should be.
	Conditions []Condition `json:"conditions"`
	// Events, the latest first.
	Events []Event `json:"events"`
	// Notes on what the reader should know about the report.
	Notes []string `json:"notes,omitempty"`
	// Operator is there when the operator is silent, or when nothing is known of it.
	Operator *live.Heartbeat `json:"operator,omitempty"`

	now time.Time
}

// States of a replica.
const (
	// StateRunning: every pod is bound and ready.
	StateRunning = "running"
	// StateNotReady: every pod is bound, not every one is ready.
	StateNotReady = "not ready"
	// StateReleased: it is placed, and the kube-scheduler has not bound all of it.
	StateReleased = "released"
	// StateGated: its pods are there and are not placed.
	StateGated = "gated"
	// StatePending: the kube-scheduler has found no node for it; Trellis has no part in it.
	StatePending = "pending"
	// StateCreating: pods of it are still to be made.
	StateCreating = "creating"
	// StateLeaving: pods of it end, and it is recreated after that.
	StateLeaving = "leaving"
)

// Replica is one replica as its pods show it.
type Replica struct {
	Component string `json:"service"`
	Replica   int    `json:"replica"`
	State     string `json:"state"`
	// Since when it waits; absent while it runs.
	Since *metav1.Time `json:"since,omitempty"`
	// Domain and Nodes of its pods, as far as they have any.
	Domain string   `json:"domain,omitempty"`
	Nodes  []string `json:"nodes,omitempty"`
	// Detail is the kube-scheduler's or the kubelet's message about the first pod that is not ready.
	Detail string `json:"detail,omitempty"`
	// WouldGo is the domain that the plan of now has for it, when it waits all the same.
	WouldGo string `json:"wouldGo,omitempty"`
	// Preempts reports who would have to free capacity there.
	Preempts string `json:"preempts,omitempty"`
	// PreemptedBy reports who has taken its capacity, and when.
	PreemptedBy string `json:"preemptedBy,omitempty"`
}

// Moves are replicas of deployments that allow it which would have to move.
type Moves struct {
	// Gang gets a place in Domain.
	Gang   string `json:"gang"`
	Domain string `json:"domain,omitempty"`
	// Replicas that move, and their GPUs.
	Replicas int   `json:"replicas"`
	GPUs     int64 `json:"gpus"`
	// Command lists the moves.
	Command string `json:"command"`
}

// Cause is why some replicas are not placed.
type Cause struct {
	Who     []Gangs `json:"who"`
	Reason  string  `json:"reason"`
	Message string  `json:"message"`
	// Need is what one replica asks for.
	Need []Need `json:"need,omitempty"`
	// Level of which one domain must hold it, and the domain that bounds the search.
	Level  string `json:"level,omitempty"`
	Within string `json:"within,omitempty"`
	// Closest domain, and how many others hold as many pods, or fewer.
	Closest     *Closest `json:"closest,omitempty"`
	OthersEqual int      `json:"othersEqual,omitempty"`
	OthersFewer int      `json:"othersFewer,omitempty"`
	// Asks is Message without the numbers of domains, which are in Tables: one for each level that was looked at, the broadest first.
	Asks   string  `json:"asks,omitempty"`
	Tables []Table `json:"tables,omitempty"`
	// Freeing are the hosts to free in the domain that is easiest to free, of those that hold most; the easiest first. It was tried: with all
	// of that done the first replica is placed. FreeingMore counts those left out. There are none when nothing that was tried helps.
	FreeingDomain string `json:"freeingDomain,omitempty"`
	Freeing       []Host `json:"freeing,omitempty"`
	FreeingMore   int    `json:"freeingMore,omitempty"`
	// FreeingFits are the replicas that are placed then, where these are not all.
	FreeingFits []Gangs `json:"freeingFits,omitempty"`

	// places are the ordinals of all replicas that are placed then, by component.
	places map[string][]int
	// advice is the change that frees them.
	advice *Advice
}

// Advice is one change.
type Advice struct {
	// Effect is what the change does, and what a plan after it places.
	Effect string `json:"effect"`
	// Commands make the change, in this order.
	Commands []string `json:"commands,omitempty"`
	// Manual is what no command does.
	Manual []string `json:"manual,omitempty"`
}

// Gangs are replicas of one component.
type Gangs struct {
	Component string `json:"service"`
	Replicas  []int  `json:"replicas"`
}

// Need is a number of equal pods and what each asks for, in thousandths for cpu.
type Need struct {
	Pods     int              `json:"pods"`
	Requests map[string]int64 `json:"requests"`
}

// Closest is the domain that comes nearest.
type Closest struct {
	Domain string `json:"domain"`
	Holds  int    `json:"holds"`
	Of     int    `json:"of"`
	Hosts  int    `json:"hosts,omitempty"`
	// Excluded counts the hosts that take no pod by what keeps it off.
	Excluded []Excluded `json:"excluded,omitempty"`
	// Short are resources of which too little is free.
	Short []Short `json:"short,omitempty"`
}

// Table is what each domain of a level has for a gang.
type Table struct {
	// Gang is the part of the gang that needs one of these domains; empty: all of it. Asks is what it needs.
	Gang string `json:"gang,omitempty"`
	Asks string `json:"asks"`
	// Level of the domains; Within is the domain around them, empty for the cluster.
	Level  string `json:"level"`
	Within string `json:"within,omitempty"`
	// Resource that is counted; empty when the pods ask for nothing. Pods is how many pods the gang has.
	Resource string `json:"resource,omitempty"`
	Pods     int    `json:"pods"`
	// Domains that hold most first; Outside are those alongside Within, where the gang may not go.
	Domains []DomainRow `json:"domains"`
	Outside []DomainRow `json:"outside,omitempty"`
}

// DomainRow is one domain. Hosts are those that take a pod now and those Excluded.
type DomainRow struct {
	Domain string `json:"domain"`
	// Holds is how many pods of the gang fit.
	Holds int `json:"holds"`
	Hosts int `json:"hosts"`
	Open  int `json:"open"`
	// Free of the resource on hosts that admit the pods, and Largest of that on one host; cpu in thousandths.
	Free     int64      `json:"free"`
	Largest  int64      `json:"largestOnOneHost"`
	Excluded []Excluded `json:"excluded,omitempty"`
}

// Excluded counts hosts.
type Excluded struct {
	Reason string `json:"reason"`
	Hosts  int    `json:"hosts"`
}

// Short is a resource in a domain.
type Short struct {
	Resource string `json:"resource"`
	Free     int64  `json:"free"`
	Largest  int64  `json:"largestOnOneHost"`
	Need     int64  `json:"need"`
}

// Host is one host that takes no pod.
type Host struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
	// Remedy is what has to be done about the host itself: commands and changes.
	Remedy string `json:"remedy,omitempty"`
	// Pods that have to go as well, as namespace/name, and how many more than are listed.
	Pods     []Occupant `json:"pods,omitempty"`
	PodsMore int        `json:"podsMore,omitempty"`
}

// Occupant is a pod that uses what is missing.
type Occupant struct {
	Pod      string `json:"pod"`
	Resource string `json:"resource"`
	Amount   int64  `json:"amount"`
	// Planned: it is not bound there yet.
	Planned bool `json:"planned,omitempty"`
}

// Result is the operator's last report, and whether the plan of now agrees.
type Result struct {
	// Reason and Message of the condition Placed, True or not; empty when there is none.
	Placed  *bool        `json:"placed,omitempty"`
	Reason  string       `json:"reason,omitempty"`
	Message string       `json:"message,omitempty"`
	Since   *metav1.Time `json:"since,omitempty"`
	// Planned states that it was planned again; Agrees that both say the same. Text puts it in words.
	Planned bool   `json:"planned"`
	Agrees  bool   `json:"agrees"`
	Text    string `json:"text"`
}

// Condition is one condition that is not as expected.
type Condition struct {
	// Object is empty for the deployment itself.
	Object  string      `json:"object,omitempty"`
	Type    string      `json:"type"`
	Status  string      `json:"status"`
	Reason  string      `json:"reason"`
	Message string      `json:"message"`
	Since   metav1.Time `json:"since"`
}

// Event is one event.
type Event struct {
	Time    metav1.Time `json:"time"`
	Type    string      `json:"type"`
	Reason  string      `json:"reason"`
	Object  string      `json:"object"`
	Message string      `json:"message"`
}
