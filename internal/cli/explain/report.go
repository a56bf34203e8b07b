// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-k8s/trellis/internal/cli/live"
)

// Explanation is the report, and its JSON form. Domains are paths of label values, e.g. "zone-a/rack-1".
type Explanation struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// State of the deployment, from its status.
	State string `json:"state,omitempty"`
	// Domain of the entire graph; empty without a graph domain.
	Domain string `json:"domain,omitempty"`
	// Replicas by component and ordinal.
	Replicas []Replica `json:"replicas"`
	// Waiting explains why replicas are not placed. Replicas with the same message share an entry.
	Waiting []Cause `json:"waiting"`
	// Advice lists changes whose results a plan has verified.
	Advice []Advice `json:"advice,omitempty"`
	// Withheld lists changes that a reader may expect but that do not help, according to a plan.
	Withheld []string `json:"withheld,omitempty"`
	// Moves would free a place for the first waiting gang; absent for none. They come first in Advice.
	Moves *Moves `json:"moves,omitempty"`
	// Transfer describes how prefill and decode replicas share domains, and what would improve it; absent without a
	// kvTransferPolicy that places them.
	Transfer []string `json:"kvTransfer,omitempty"`
	// Result compares the plan with the operator's last report.
	Result Result `json:"result"`
	// Conditions that are not as expected.
	Conditions []Condition `json:"conditions"`
	// Events, the latest first.
	Events []Event `json:"events"`
	// Notes on the limits of the report.
	Notes []string `json:"notes,omitempty"`
	// Operator is present if the operator is silent, or if its state is unknown.
	Operator *live.Heartbeat `json:"operator,omitempty"`

	now time.Time
}

// States of a replica.
const (
	// StateRunning: every pod is bound and ready.
	StateRunning = "running"
	// StateNotReady: every pod is bound, but some are not ready.
	StateNotReady = "not ready"
	// StateReleased: it is placed, but the kube-scheduler has not bound all its pods.
	StateReleased = "released"
	// StateGated: its pods exist but are not placed.
	StateGated = "gated"
	// StatePending: the kube-scheduler, which alone places it, has found no node.
	StatePending = "pending"
	// StateCreating: some of its pods do not exist yet.
	StateCreating = "creating"
	// StateLeaving: some of its pods are terminating; then it is recreated.
	StateLeaving = "leaving"
)

// Replica is one replica, described by its pods.
type Replica struct {
	Component string `json:"service"`
	Replica   int    `json:"replica"`
	State     string `json:"state"`
	// Since is when it began to wait; absent while it runs.
	Since *metav1.Time `json:"since,omitempty"`
	// Domain and Nodes of its bound pods.
	Domain string   `json:"domain,omitempty"`
	Nodes  []string `json:"nodes,omitempty"`
	// Detail is the kube-scheduler's or the kubelet's message about the first pod that is not ready.
	Detail string `json:"detail,omitempty"`
	// WouldGo is the domain in which the current plan places it, although it waits.
	WouldGo string `json:"wouldGo,omitempty"`
	// Preempts names the pods that would have to be preempted there.
	Preempts string `json:"preempts,omitempty"`
	// PreemptedBy names what preempted its former pods, and says when.
	PreemptedBy string `json:"preemptedBy,omitempty"`
}

// Moves are the replicas that would have to move, of deployments that allow it.
type Moves struct {
	// Gang that gets a place in Domain.
	Gang   string `json:"gang"`
	Domain string `json:"domain,omitempty"`
	// Replicas that move, and their GPUs.
	Replicas int   `json:"replicas"`
	GPUs     int64 `json:"gpus"`
	// Command that lists the moves.
	Command string `json:"command"`
}

// Cause is the reason why some replicas are not placed.
type Cause struct {
	Who     []Gangs `json:"who"`
	Reason  string  `json:"reason"`
	Message string  `json:"message"`
	// Need is the demand of one replica.
	Need []Need `json:"need,omitempty"`
	// Level at which one domain must hold the replica, and the domain that bounds the search.
	Level  string `json:"level,omitempty"`
	Within string `json:"within,omitempty"`
	// Closest domain, and how many others hold as many pods, or fewer.
	Closest     *Closest `json:"closest,omitempty"`
	OthersEqual int      `json:"othersEqual,omitempty"`
	OthersFewer int      `json:"othersFewer,omitempty"`
	// Asks is Message without the numbers of domains. Those are in Tables, one per evaluated level, the broadest first.
	Asks   string  `json:"asks,omitempty"`
	Tables []Table `json:"tables,omitempty"`
	// Freeing lists the hosts to free, the easiest first, in the domain that is easiest to free among those that hold most. A trial has
	// verified that the first replica is then placed. FreeingMore counts further hosts. Empty if no trial succeeded.
	FreeingDomain string `json:"freeingDomain,omitempty"`
	Freeing       []Host `json:"freeing,omitempty"`
	FreeingMore   int    `json:"freeingMore,omitempty"`
	// FreeingFits are the replicas that are then placed, unless these are all.
	FreeingFits []Gangs `json:"freeingFits,omitempty"`

	// places are the ordinals of all replicas that are then placed, by component.
	places map[string][]int
	// advice is the change that frees the hosts.
	advice *Advice
}

// Advice is one change.
type Advice struct {
	// Effect describes the change, and what a plan places after it.
	Effect string `json:"effect"`
	// Commands that make the change, in order.
	Commands []string `json:"commands,omitempty"`
	// Manual lists the steps without a command.
	Manual []string `json:"manual,omitempty"`
}

// Gangs are replicas of one component.
type Gangs struct {
	Component string `json:"service"`
	Replicas  []int  `json:"replicas"`
}

// Need is a number of equal pods and the requests of each, cpu in thousandths.
type Need struct {
	Pods     int              `json:"pods"`
	Requests map[string]int64 `json:"requests"`
}

// Closest is the domain that comes closest to holding the gang.
type Closest struct {
	Domain string `json:"domain"`
	Holds  int    `json:"holds"`
	Of     int    `json:"of"`
	Hosts  int    `json:"hosts,omitempty"`
	// Excluded counts the hosts that take no pod, by the reason.
	Excluded []Excluded `json:"excluded,omitempty"`
	// Short lists the resources with too little free capacity.
	Short []Short `json:"short,omitempty"`
}

// Table compares the capacity of a level's domains with the demand of a gang.
type Table struct {
	// Gang is the part of the gang that needs one of these domains; empty: the whole gang. Asks is its demand.
	Gang string `json:"gang,omitempty"`
	Asks string `json:"asks"`
	// Level of the domains; Within is the domain that contains them, empty for the cluster.
	Level  string `json:"level"`
	Within string `json:"within,omitempty"`
	// Resource that is counted; empty if the pods request none. Pods is the number of pods of the gang.
	Resource string `json:"resource,omitempty"`
	Pods     int    `json:"pods"`
	// Domains, those that hold most first; Outside are domains outside Within, where the gang may not go.
	Domains []DomainRow `json:"domains"`
	Outside []DomainRow `json:"outside,omitempty"`
}

// DomainRow is one domain. Of its Hosts, Open take a pod now, and the others are Excluded.
type DomainRow struct {
	Domain string `json:"domain"`
	// Holds is the number of the gang's pods that fit.
	Holds int `json:"holds"`
	Hosts int `json:"hosts"`
	Open  int `json:"open"`
	// Free capacity of the resource on hosts that admit the pods, and the Largest on one host; cpu in thousandths.
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

// Host is a host that takes no pod.
type Host struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
	// Remedy lists the steps for the host itself: commands and changes.
	Remedy string `json:"remedy,omitempty"`
	// Pods that have to go as well, as namespace/name; PodsMore counts those that are not listed.
	Pods     []Occupant `json:"pods,omitempty"`
	PodsMore int        `json:"podsMore,omitempty"`
}

// Occupant is a pod that uses the missing resource.
type Occupant struct {
	Pod      string `json:"pod"`
	Resource string `json:"resource"`
	Amount   int64  `json:"amount"`
	// Planned: it is not bound yet.
	Planned bool `json:"planned,omitempty"`
}

// Result is the operator's last report, and whether the current plan agrees.
type Result struct {
	// Reason and Message of the condition Placed, True or not; empty without the condition.
	Placed  *bool        `json:"placed,omitempty"`
	Reason  string       `json:"reason,omitempty"`
	Message string       `json:"message,omitempty"`
	Since   *metav1.Time `json:"since,omitempty"`
	// Planned: the deployment was planned again. Agrees: the plan and the report agree. Text describes the result.
	Planned bool   `json:"planned"`
	Agrees  bool   `json:"agrees"`
	Text    string `json:"text"`
}

// Condition is a condition that is not as expected.
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
