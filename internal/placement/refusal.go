// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Codes of a refusal.
const (
	// CodeInsufficientCapacity: no domain has capacity for the whole gang.
	CodeInsufficientCapacity = "InsufficientCapacity"
	// CodeNeverFits: no domain of today's nodes could hold the gang, even if nothing ran there.
	CodeNeverFits = "NeverFits"
	// CodeNoDomain: no node carries the labels of the level that is asked for, or so many lack them, or the levels are in such an order, that
	// no domain could hold the gang.
	CodeNoDomain = "NoDomain"
	// CodeDomainGone: the domain that active members are pinned to has no nodes any more.
	CodeDomainGone = "DomainGone"
	// CodeBudgetExhausted: the search, or the whole plan, stopped before it found a packing or a proof that there is none.
	CodeBudgetExhausted = "BudgetExhausted"
	// CodeBaseGangWaits: the replica follows a base gang that is not placed.
	CodeBaseGangWaits = "BaseGangWaits"
	// CodeAnchorConflict: the domain that the replica's own pods are pinned to lies outside the graph domain.
	CodeAnchorConflict = "AnchorConflict"
	// CodeNoPartner: the replica needs a partner of another role in its domain. None is placed, and none can be placed with it.
	CodeNoPartner = "NoPartner"
	// CodeLevelGone: the required level is not among the levels of the topology.
	CodeLevelGone = "LevelGone"
)

// Refusal explains why a gang was not placed. It is the one source of conditions, events and plans; [Refusal.Message] puts it in words.
type Refusal struct {
	Code string
	// Service and Ordinal say which replica is refused; Gang names the group that does not fit.
	Component string
	Ordinal   int
	Gang      string
	// Level is the index of the level of which one domain must hold the gang, LevelName its name ("cluster" for NoLevel).
	Level     int
	LevelName string
	// Within is the domain that bounds the search: the graph domain or an anchor; empty: the whole cluster.
	Within topology.Path
	// Need is what the gang asks for, scarcest shape first. Apart: its pods go to hosts of their own.
	Need  []Need
	Apart bool
	// Closest is the domain that comes nearest; nil when there is none.
	Closest *Closest
	// OthersEqual and OthersFewer count the other domains of the level that hold no fewer pods than the closest one, and fewer.
	OthersEqual, OthersFewer int
	// Elsewhere is a domain outside of Within that would hold the gang, when the graph is anchored in Within by its running pods; empty when
	// none was found.
	Elsewhere topology.Path
	// LeftOut are nodes that suit pods of which none of the topology's nodes suits any: its node selector, NodeSelector, leaves them out.
	LeftOut      int
	NodeSelector map[string]string
	// Domains are those of the level inside Within, in path order, and Outside those of the level alongside it: with [Options].Domains, and
	// only where domains were compared.
	Domains, Outside []Domain
	// Never explains why no domain of today's nodes could hold the gang; set for [CodeNeverFits], and for [CodeNoDomain] where labels or
	// levels are the cause.
	Never *Never
	// Spreading tells where the spread of its component lets the replica go; nil: anywhere.
	Spreading *Spreading
	// Paired: the domain has to hold replicas of both roles. Partner is the one that is missing; set for [CodeNoPartner].
	Paired  bool
	Partner string
	// Ruled says that rules about other pods, volumes, or the spread of replicas, bind the gang: more than free capacity may let it be placed.
	Ruled bool
	// Blocked is what keeps pods of the gang off every node until an object changes, such as a claim that does not exist; "" for nothing.
	Blocked string
	// Steps is how many search steps were allowed, when they ran out; Compared how many comparisons the plan was allowed, when these did.
	Steps    int
	Compared uint64
	// Cause is the part of the gang that the closest domain does not hold, when the gang has parts; or what the base gang waits for.
	Cause *Refusal
}

// Need is how many pods of one shape a gang has.
type Need struct {
	Pods     int
	Requests []topology.Request
}

// Closest is the domain that comes nearest to holding a gang.
type Closest struct {
	Domain topology.Path
	// Holds of Of pods fit, counted host by host.
	Holds, Of int
	// Short are the resources of which the pods ask more than is free in the domain on hosts that take such pods, or of which enough is free
	// but scattered.
	Short []Short
	// Hosts counts the hosts of the domain, Excluded those that take no pod of the scarcest shape, per reason, most frequent first.
	Hosts    int
	Excluded []Excluded
}

// Short is one resource that is missing in a domain: cpu in thousandths, else the plain amount.
type Short struct {
	Resource string
	// Have is free in the whole domain on hosts that admit the pods, Largest of that on one host; Need is what the pods of the shape ask
	// together, Each what one asks.
	Have, Largest, Need, Each int64
}

// Excluded counts hosts by what keeps them from taking a pod.
type Excluded struct {
	Reason topology.Exclusion
	Hosts  int
}

// refusal explains why a unit does not fit inside a domain alongside what is taken.
func (s *search) refusal(u *unit, at topology.DomainID) *Refusal {
	t := s.tree
	bound := at
	if s.options.left(s.cluster) == 0 {
		return unplanned(s.cluster, t, u.group, max(u.required, t.LevelOf(at)), s.options)
	}
	r := &Refusal{
		Code: CodeInsufficientCapacity, Gang: u.group.Name, Need: needs(u), Apart: u.apart != nil, Ruled: u.ruled() || u.spreads(),
		Blocked: u.blocked(),
	}
	switch {
	case s.spent && s.shareSpent():
		r.Code, r.Compared = CodeBudgetExhausted, s.options.planBudget(s.cluster)
	case s.spent:
		r.Code, r.Steps = CodeBudgetExhausted, s.budget
	}
	if u.gone {
		r.Code, r.Within, r.Level = CodeDomainGone, u.group.Within, u.group.Within.Level()
		r.LevelName = t.Levels().Name(r.Level)
		return r
	}
	if u.within != topology.Nowhere && !t.Within(at, u.within) {
		if bound = u.within; !t.Within(bound, at) {
			r.Code, r.Within = CodeAnchorConflict, t.Path(at)
			r.Closest = &Closest{Domain: t.Path(bound), Of: u.size}
			return r
		}
	}
	r.Within = t.Path(bound)
	r.Level = max(u.required, t.LevelOf(bound))
	r.LevelName = t.Levels().Name(r.Level)
	domains := t.Domains(r.Level, bound)
	if len(domains) == 0 {
		r.Code = CodeNoDomain
		if len(t.Domains(r.Level, topology.Root)) == 0 {
			r.Never = s.nowhere(r.Level)
		}
		return r
	}
	if among := u.onlyAmong(t, domains); len(among) > 0 {
		domains = among
	}
	s.closest(r, u, s.spreadOut(r, u, domains, at))
	return r
}

// levelGone refuses a gang whose level the topology has no more.
func levelGone(gang string, level int) *Refusal {
	return &Refusal{Code: CodeLevelGone, Gang: gang, Level: level, LevelName: "level"}
}
