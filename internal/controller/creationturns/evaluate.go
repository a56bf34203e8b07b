// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package creationturns

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-k8s/trellis/internal/bools"
)

// First is the Ordinal of the gang that consists of a component's first replicas, which start together.
const First = -1

// Key identifies a gang in a namespace: one replica, the first replicas of a component, or a base gang.
type Key struct {
	// Graph is the UID of the deployment, GraphName its name.
	Graph     types.UID
	GraphName string
	// Group is the scaling group; "" for the base gang of the graph.
	Group   string
	Ordinal int32
}

// owner identifies a possible holder of the turn: a scaling group, for its own gangs, or the base gang of a graph.
type owner struct {
	graph types.UID
	group string
}

func (k Key) owner() owner { return owner{k.Graph, k.Group} }

// Want is one scaling group's part of an incomplete gang.
type Want struct {
	Key
	// Name is the name of the gang in messages.
	Name string
	// Missing are the pods that are still to be created.
	Missing []Pods
	// Exists: pods of the gang exist, all of them unreleased.
	Exists bool
	// Ready: the missing pods can be created now.
	Ready bool
	// Succeeds: the gang is the successor of replicas that served.
	Succeeds bool
	// Others: another controller creates the pods. A quota may count these pods before the operator sees them.
	Others bool
}

// Part has the wants of one scaling group.
type Part struct {
	Group    types.NamespacedName
	Created  time.Time
	Priority int32
	// Members are the scaling groups of the base gang, if Wants has a part of the base gang.
	Members []string
	// Rests selects the gangs that pause after a refused create.
	Rests Rests
	Wants []Want
}

// Rests selects gangs of a group: successors of replicas that served, all other gangs, or both.
type Rests struct{ Successors, Others bool }

// All selects all gangs of a group.
var All = Rests{Successors: true, Others: true}

// Of returns the selection extended by the kind of the decision's gang: successors, or other gangs.
func (r Rests) Of(d Decision) Rests {
	return Rests{Successors: r.Successors || d.Succeeds, Others: r.Others || !d.Succeeds}
}

// has reports whether a gang is selected.
func (r Rests) has(want *Want) bool {
	return want.Succeeds && r.Successors || !want.Succeeds && r.Others
}

// Lack is the quota that a gang lacks.
type Lack struct {
	Quota                  string
	Resource               corev1.ResourceName
	Requested, Used, Limit string
	// Before are the names of up to maxBefore earlier gangs that lack the same resource. More counts the further earlier gangs.
	Before []string
	More   int
}

const maxBefore = 3

// Error returns the API server's message about an exceeded quota, extended by the gangs that wait before this gang.
func (l *Lack) Error() string {
	text := fmt.Sprintf("exceeded quota: %s, requested: %s=%s, used: %s=%s, limited: %s=%s", l.Quota, l.Resource, l.Requested, l.Resource,
		l.Used, l.Resource, l.Limit)
	switch {
	case l.More > 0:
		text += fmt.Sprintf("; %s and %d others wait before it", strings.Join(l.Before, ", "), l.More)
	case len(l.Before) == 1:
		text += fmt.Sprintf("; %s waits before it", l.Before[0])
	case len(l.Before) > 1:
		text += fmt.Sprintf("; %s wait before it", strings.Join(l.Before, ", "))
	}
	return text
}

// Decision is the next step of a gang.
type Decision struct {
	// Create: the missing pods may be created.
	Create bool
	// GiveBack: the existing pods have to be deleted, because the gang is incomplete and does not have the turn.
	GiveBack bool
	// Lack is the quota that the gang waits for; nil for none.
	Lack *Lack
	// Overdue: the gang was not completed during its turn.
	Overdue bool
	// Succeeds: the replicas that the scaling group adds to the gang replace replicas that served.
	Succeeds bool
}

// line is the input of evaluate.
type line struct {
	gangs  []*gang
	quotas []corev1.ResourceQuota
	// holder is the owner that has the turn; zero for none. creates: pods of the holder's gangs are being created.
	holder  owner
	creates bool
	// refused: a create was refused in the last five minutes, so quotas alone do not determine which gangs can be created.
	refused bool
}

// gang is a Want that combines the parts of all scaling groups.
type gang struct {
	Want
	created  time.Time
	priority int32
	// resting: one of the gang's groups pauses. known: all of the gang's groups have passed their parts to [Turns.Sync]. overdue: the gang
	// was not completed during its turn. insists: the gang is the successor of a replica that served, and the API server first refused pods
	// of the group's successors less than 30 seconds ago. During these 30 seconds, gangs that never served wait for this gang.
	resting, known, overdue, insists bool
	// missing counts the missing pods.
	missing int64
}

// evaluate returns the decisions about all gangs of a namespace, and the next holder of the turn.
func (l *line) evaluate() (map[Key]Decision, owner) {
	out := map[Key]Decision{}
	slices.SortFunc(l.gangs, l.compare)
	e := evaluation{line: l, left: newBalance(l.quotas)}
	for _, g := range l.gangs {
		out[g.Key] = e.decide(g)
	}
	return out, e.turn
}

// evaluation is the state of evaluate after the decisions made so far.
type evaluation struct {
	*line
	left *balance
	// turn is the owner of the gangs that are created.
	turn owner
	// closed: a gang waits for the turn, so no later gang is created. lacksSuccessor: a successor of a replica that served is not created
	// yet.
	closed, lacksSuccessor bool
}

func (e *evaluation) decide(g *gang) Decision {
	lack, never := e.left.lack(g)
	if g.Others && g.Exists && g.owner() == e.holder {
		lack = nil // if the gang does lack quota, its turn ends
	}
	if g.overdue || g.resting || never {
		e.lacksSuccessor = e.lacksSuccessor || g.insists
		return Decision{Lack: lack, Overdue: g.overdue, GiveBack: g.Exists}
	}
	e.left.take(g)
	d := Decision{Lack: lack}
	switch {
	case !g.Ready || !g.known:
		d.GiveBack = g.Exists && g.known
		e.lacksSuccessor = e.lacksSuccessor || g.Succeeds && e.refused
	case lack != nil:
		d.GiveBack = g.Exists
	case e.mayCreate(g):
		e.turn, d.Create = g.owner(), true
	default:
		e.closed, d.GiveBack = true, g.Exists
	}
	return d
}

func (e *evaluation) mayCreate(g *gang) bool {
	return !e.closed && (g.Succeeds || !e.lacksSuccessor) && (e.turn == owner{} || e.turn == g.owner())
}

func (l *line) compare(a, b *gang) int {
	first := func(of func(*gang) bool) int { return bools.Compare(of(b), of(a)) }
	holds := func(g *gang) bool { return g.owner() == l.holder }
	return cmp.Or(
		first(func(g *gang) bool { return holds(g) && (l.creates || g.Exists) }), first(func(g *gang) bool { return g.Succeeds }), first(holds),
		cmp.Compare(b.priority, a.priority), first(func(g *gang) bool { return g.Exists }), a.created.Compare(b.created),
		cmp.Compare(a.GraphName, b.GraphName), cmp.Compare(a.Group, b.Group), cmp.Compare(a.Ordinal, b.Ordinal),
	)
}

// balance is the remaining quota after the gangs evaluated so far.
type balance struct {
	quotas []corev1.ResourceQuota
	left   []corev1.ResourceList
	// waiting are the names of gangs that lack a resource, by quota and resource.
	waiting map[string][]string
}

func newBalance(quotas []corev1.ResourceQuota) *balance {
	b := &balance{quotas: quotas, waiting: map[string][]string{}}
	for i := range quotas {
		left := corev1.ResourceList{}
		for name, hard := range quotas[i].Status.Hard {
			hard = hard.DeepCopy()
			hard.Sub(quotas[i].Status.Used[name])
			left[name] = hard
		}
		b.left = append(b.left, left)
	}
	return b
}

// lack returns the first quota whose remaining amount is too small for a gang; nil for none. never: the gang needs more than the limit of a
// quota.
func (b *balance) lack(g *gang) (lack *Lack, never bool) {
	for i := range b.quotas {
		quota := &b.quotas[i]
		needed := need(g.Missing, quota)
		for _, name := range slices.Sorted(maps.Keys(needed)) {
			amount, left, hard, used := needed[name], b.left[i][name], quota.Status.Hard[name], quota.Status.Used[name]
			if amount.Cmp(left) <= 0 {
				continue
			}
			if lack == nil {
				before := b.waiting[quota.Name+"/"+string(name)]
				lack = &Lack{Quota: quota.Name, Resource: name, Requested: amount.String(), Used: used.String(), Limit: hard.String(),
					Before: before[:min(len(before), maxBefore)], More: max(0, len(before)-maxBefore)}
			}
			never = never || amount.Cmp(hard) > 0
		}
	}
	return lack, never
}

// take reserves quota for a gang, up to the remaining quota.
func (b *balance) take(g *gang) {
	for i := range b.quotas {
		for name, amount := range need(g.Missing, &b.quotas[i]) {
			left := b.left[i][name]
			if amount.Cmp(left) > 0 {
				key := b.quotas[i].Name + "/" + string(name)
				b.waiting[key] = append(b.waiting[key], g.Name)
			}
			left.Sub(amount)
			if left.Sign() < 0 {
				left.Set(0)
			}
			b.left[i][name] = left
		}
	}
}
