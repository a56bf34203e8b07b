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

// First is the Ordinal that stands for the first replicas of a component, which start together.
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

// owner can hold the turn: a scaling group, for its own gangs, or the base gang of a graph.
type owner struct {
	graph types.UID
	group string
}

func (k Key) owner() owner { return owner{k.Graph, k.Group} }

// Want is one scaling group's part of an incomplete gang.
type Want struct {
	Key
	// Name of the gang in messages.
	Name string
	// Missing are the pods that are still to be created.
	Missing []Pods
	// Exists: pods of the gang exist, all of them unreleased.
	Exists bool
	// Ready: the missing pods can be created now.
	Ready bool
	// Succeeds: the gang is the successor of replicas that served.
	Succeeds bool
	// Others: another controller creates the pods. A quota may count them before they are visible.
	Others bool
}

// Part has the wants of one scaling group.
type Part struct {
	Group    types.NamespacedName
	Created  time.Time
	Priority int32
	// Members are the scaling groups of a base gang of which Wants has a part.
	Members []string
	// Resting: the group pauses after a refused create.
	Resting bool
	Wants   []Want
}

// Lack is the quota that a gang lacks.
type Lack struct {
	Quota                  string
	Resource               corev1.ResourceName
	Requested, Used, Limit string
	// Before are the names of up to maxBefore earlier gangs that lack the same resource; More counts the others.
	Before []string
	More   int
}

const maxBefore = 3

// Error returns the API server's message about an exceeded quota, and the gangs that wait before this one.
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
	// Create the missing pods.
	Create bool
	// GiveBack the pods: delete them, because the gang is incomplete and does not have the turn.
	GiveBack bool
	// Lack is the quota that the gang waits for; nil for none.
	Lack *Lack
	// Overdue: the gang was not completed during its turn.
	Overdue bool
}

// line is the input of evaluate.
type line struct {
	gangs  []*gang
	quotas []corev1.ResourceQuota
	// holder has the turn; zero if no one has it.
	holder owner
}

// gang is a Want that combines the parts of all scaling groups.
type gang struct {
	Want
	created  time.Time
	priority int32
	// resting: one of its groups pauses. known: all its groups have stated their part. overdue: the gang was not completed during its turn.
	resting, known, overdue bool
	// missing counts the missing pods.
	missing int64
}

// evaluate returns the decisions about all gangs of a namespace, and the next holder of the turn.
func (l *line) evaluate() (map[Key]Decision, owner) {
	out := map[Key]Decision{}
	slices.SortFunc(l.gangs, l.compare)
	left := newBalance(l.quotas)
	turn, closed := owner{}, false
	for _, g := range l.gangs {
		d := Decision{}
		lack, never := left.lack(g)
		if g.Others && g.Exists && g.owner() == l.holder {
			lack = nil // if the gang does lack quota, its turn ends
		}
		d.Lack = lack
		switch {
		case g.overdue || g.resting || never:
			d.Overdue, d.GiveBack = g.overdue, g.Exists
		case !g.Ready || !g.known:
			left.take(g)
			d.GiveBack = g.Exists && g.known
		case lack != nil:
			left.take(g)
			d.GiveBack = g.Exists
		case !closed && (turn == owner{} || turn == g.owner()):
			left.take(g)
			turn, d.Create = g.owner(), true
		default:
			left.take(g)
			closed, d.GiveBack = true, g.Exists
		}
		out[g.Key] = d
	}
	return out, turn
}

func (l *line) compare(a, b *gang) int {
	first := func(of func(*gang) bool) int { return bools.Compare(of(b), of(a)) }
	return cmp.Or(
		first(func(g *gang) bool { return g.owner() == l.holder }), first(func(g *gang) bool { return g.Succeeds }),
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

// lack returns the first quota that is too small for a gang; nil for none. never: even the limit is smaller than the gang.
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

// decided returns the decisions about the gangs of a group, and the work that they cause for the group.
func (p *part) decided(decisions map[Key]Decision) (own map[Key]Decision, todo told) {
	own = map[Key]Decision{}
	for i := range p.Wants {
		want := &p.Wants[i]
		d, waits := decisions[want.Key]
		if !waits {
			continue
		}
		own[want.Key] = d
		todo.create = todo.create || d.Create && len(want.Missing) > 0
		todo.giveBack = todo.giveBack || d.GiveBack && want.Exists
		todo.overdue = todo.overdue || d.Overdue
	}
	return own, todo
}
