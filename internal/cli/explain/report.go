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
	// Moves summarizes the moves that would free a place for the first waiting gang; absent without moves. The first entry of Advice
	// describes these moves.
	Moves *Moves `json:"moves,omitempty"`
	// Transfer describes how prefill and decode replicas share domains, and possible improvements; absent if no kvTransferPolicy places
	// these replicas.
	Transfer []string `json:"kvTransfer,omitempty"`
	// Result compares the plan with the operator's last report.
	Result Result `json:"result"`
	// Conditions with an unexpected status.
	Conditions []Condition `json:"conditions"`
	// Events, the latest first.
	Events []Event `json:"events"`
	// Notes on the limits of the report.
	Notes []string `json:"notes,omitempty"`
	// Operator is present if the operator does not renew its Lease, or if its state is unknown.
	Operator *live.Heartbeat `json:"operator,omitempty"`

	now time.Time
}

// States of a replica.
const (
	// StateRunning: every pod is bound and ready.
	StateRunning = "running"
	// StateNotReady: every pod is bound, but some are not ready.
	StateNotReady = "not ready"
	// StateReleased: the replica is placed, but the kube-scheduler has not bound all of its pods.
	StateReleased = "released"
	// StateGated: all pods of the replica exist, but some still have Trellis' scheduling gate.
	StateGated = "gated"
	// StatePending: Trellis does not gate the pods of the replica, and the kube-scheduler has not bound all of them.
	StatePending = "pending"
	// StateCreating: some pods of the replica do not exist yet.
	StateCreating = "creating"
	// StateLeaving: some pods of the replica are terminating or finished. Afterwards the replica is recreated.
	StateLeaving = "leaving"
)

// Replica describes one replica by its pods.
type Replica struct {
	Component string `json:"service"`
	Replica   int    `json:"replica"`
	State     string `json:"state"`
	// Since is the time at which the replica began to wait; absent while it runs.
	Since *metav1.Time `json:"since,omitempty"`
	// Domain and Nodes of the replica's bound pods.
	Domain string   `json:"domain,omitempty"`
	Nodes  []string `json:"nodes,omitempty"`
	// Detail explains State, e.g. with the number of created pods, or with the kube-scheduler's or the kubelet's message about a pod.
	Detail string `json:"detail,omitempty"`
	// WouldGo is the domain in which the current plan places the waiting replica, or the planned nodes if there is no domain.
	WouldGo string `json:"wouldGo,omitempty"`
	// Preempts describes the pods that would have to be preempted in WouldGo.
	Preempts string `json:"preempts,omitempty"`
	// PreemptedBy names the deployment or pod that preempted the replica's former pods, and the time since then.
	PreemptedBy string `json:"preemptedBy,omitempty"`
}

// Moves summarizes the replicas that would have to move. Their deployments allow moves.
type Moves struct {
	// Gang that gets a place in Domain.
	Gang   string `json:"gang"`
	Domain string `json:"domain,omitempty"`
	// Replicas counts the replicas that move, and GPUs counts their GPUs.
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
	// Level at which the whole gang must fit into one domain. Within is the domain in which the gang must be placed; empty for the cluster.
	Level  string `json:"level,omitempty"`
	Within string `json:"within,omitempty"`
	// Closest is the domain that comes closest to holding the gang. OthersEqual counts the other domains that hold at least as many pods as
	// Closest, and OthersFewer counts the domains that hold fewer.
	Closest     *Closest `json:"closest,omitempty"`
	OthersEqual int      `json:"othersEqual,omitempty"`
	OthersFewer int      `json:"othersFewer,omitempty"`
	// Asks is Message without the comparison of domains. Tables contains this comparison: one table per evaluated level, the broadest level
	// first.
	Asks   string  `json:"asks,omitempty"`
	Tables []Table `json:"tables,omitempty"`
	// Freeing lists the hosts to free in FreeingDomain, the easiest first. Of the domains that come closest to holding the gang,
	// FreeingDomain is the easiest to free. A trial plan has verified that the first replica is placed once the hosts are free. FreeingMore
	// counts further hosts to free. These fields are empty if no trial plan succeeded.
	FreeingDomain string `json:"freeingDomain,omitempty"`
	Freeing       []Host `json:"freeing,omitempty"`
	FreeingMore   int    `json:"freeingMore,omitempty"`
	// FreeingFits are the replicas that are placed once the hosts are free; empty if all replicas of Who are placed.
	FreeingFits []Gangs `json:"freeingFits,omitempty"`

	// places maps each component to the ordinals of its replicas that are placed once the hosts are free.
	places map[string][]int
	// advice is the change that frees the hosts.
	advice *Advice
}

// Advice is one change.
type Advice struct {
	// Effect describes the change and its result according to a plan.
	Effect string `json:"effect"`
	// Commands that make the change, in order.
	Commands []string `json:"commands,omitempty"`
	// Manual lists the steps for which there is no command.
	Manual []string `json:"manual,omitempty"`
}

// Gangs are replicas of one component.
type Gangs struct {
	Component string `json:"service"`
	Replicas  []int  `json:"replicas"`
}

// Need is a number of equal pods, and the requests of each pod. CPU is in thousandths of a core.
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
	// Excluded counts the hosts that take no pod, by reason.
	Excluded []Excluded `json:"excluded,omitempty"`
	// Short lists the resources with too little free capacity.
	Short []Short `json:"short,omitempty"`
}

// Table compares the capacity of a level's domains with the demand of a gang.
type Table struct {
	// Gang names the part of the gang that must fit into one of these domains; empty for the whole gang. Asks describes the demand of this
	// part.
	Gang string `json:"gang,omitempty"`
	Asks string `json:"asks"`
	// Level of the domains; Within is the domain that contains them, empty for the cluster.
	Level  string `json:"level"`
	Within string `json:"within,omitempty"`
	// Resource is the resource that the table counts; empty if the pods request no resource. Pods is the number of pods in the gang or in
	// its part.
	Resource string `json:"resource,omitempty"`
	Pods     int    `json:"pods"`
	// Domains are sorted: domains that hold most pods come first. Outside lists the domains outside of Within, in which the gang may not be
	// placed.
	Domains []DomainRow `json:"domains"`
	Outside []DomainRow `json:"outside,omitempty"`
}

// DomainRow is a domain. Hosts counts its hosts, Open counts the hosts on which a pod of the gang fits now, and Excluded counts the hosts
// that take no pod, by reason.
type DomainRow struct {
	Domain string `json:"domain"`
	// Holds is the number of the gang's pods that fit.
	Holds int `json:"holds"`
	Hosts int `json:"hosts"`
	Open  int `json:"open"`
	// Free is the free capacity of the resource on hosts that admit the pods. Largest is the largest free capacity on one host. CPU is in
	// thousandths of a core.
	Free     int64      `json:"free"`
	Largest  int64      `json:"largestOnOneHost"`
	Excluded []Excluded `json:"excluded,omitempty"`
}

// Excluded counts hosts.
type Excluded struct {
	Reason string `json:"reason"`
	Hosts  int    `json:"hosts"`
}

// Short is a resource with too little free capacity on the domain's hosts, in total or on every single host.
type Short struct {
	Resource string `json:"resource"`
	Free     int64  `json:"free"`
	Largest  int64  `json:"largestOnOneHost"`
	Need     int64  `json:"need"`
}

// Host is a host to free: no pod of the gang fits on it now.
type Host struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
	// Remedy lists the steps for the host itself, as commands or descriptions.
	Remedy string `json:"remedy,omitempty"`
	// Pods that also have to be removed, as namespace/name. PodsMore counts the pods that are not listed.
	Pods     []Occupant `json:"pods,omitempty"`
	PodsMore int        `json:"podsMore,omitempty"`
}

// Occupant is a pod that uses the missing resource.
type Occupant struct {
	Pod      string `json:"pod"`
	Resource string `json:"resource"`
	Amount   int64  `json:"amount"`
	// Planned: the pod is not bound yet; capacity on the host is reserved or planned for it.
	Planned bool `json:"planned,omitempty"`
}

// Result compares the operator's last report with the current plan.
type Result struct {
	// Placed, Reason, Message and Since are from the deployment's condition Placed; empty without the condition.
	Placed  *bool        `json:"placed,omitempty"`
	Reason  string       `json:"reason,omitempty"`
	Message string       `json:"message,omitempty"`
	Since   *metav1.Time `json:"since,omitempty"`
	// Planned: the deployment was planned again. Agrees: the plan and the report agree. Text describes the result.
	Planned bool   `json:"planned"`
	Agrees  bool   `json:"agrees"`
	Text    string `json:"text"`
}

// Condition is a condition with an unexpected status.
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
