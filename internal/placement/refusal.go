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
	// CodeNeverFits: with today's nodes, no domain could hold the gang, not even an empty domain.
	CodeNeverFits = "NeverFits"
	// CodeNoDomain: no node is in a domain of the required level, or no existing domain could hold the gang because labels are missing or
	// levels are in the wrong order.
	CodeNoDomain = "NoDomain"
	// CodeDomainGone: the domain that active members are pinned to no longer has nodes.
	CodeDomainGone = "DomainGone"
	// CodeBudgetExhausted: the budget of the search or of the whole plan ran out before the search found a packing or proved that there is
	// none.
	CodeBudgetExhausted = "BudgetExhausted"
	// CodeBaseGangWaits: the replica waits until the base gang, or the first replicas of its component, are placed.
	CodeBaseGangWaits = "BaseGangWaits"
	// CodeAnchorConflict: the domain that the replica's own pods are pinned to lies outside the graph domain.
	CodeAnchorConflict = "AnchorConflict"
	// CodeNoPartner: the replica needs a partner of the other role in its domain. No partner is placed, and none can be placed together
	// with the replica.
	CodeNoPartner = "NoPartner"
	// CodeLevelGone: the required level is not among the levels of the topology.
	CodeLevelGone = "LevelGone"
)

// Refusal explains why a gang was not placed. Conditions, events and plans are all derived from it; [Refusal.Message] formats it.
type Refusal struct {
	Code string
	// Component and Ordinal identify the refused replica; Gang names the group that does not fit.
	Component string
	Ordinal   int
	Gang      string
	// Level is the index of the level whose domain must hold the gang, LevelName its name ("cluster" for NoLevel).
	Level     int
	LevelName string
	// Within is the domain that bounds the search: the graph domain or an anchor; empty: the whole cluster.
	Within topology.Path
	// Need lists the requests of the gang, scarcest shape first. Apart: every pod of the gang needs a host of its own.
	Need  []Need
	Apart bool
	// Closest is the domain that holds most of the gang; nil when there is none.
	Closest *Closest
	// OthersEqual counts the other domains of the level that may hold as many pods as the closest domain; OthersFewer counts the domains
	// that hold fewer.
	OthersEqual, OthersFewer int
	// Elsewhere is a domain outside Within that would hold the gang. It is set only if running pods pin the graph to Within; empty for
	// none.
	Elsewhere topology.Path
	// LeftOut counts nodes that suit the gang's pods but do not match NodeSelector, the topology's node selector. It is set if no node of
	// the topology suits these pods.
	LeftOut      int
	NodeSelector map[string]string
	// Domains lists the compared domains inside Within, in path order. Outside lists the other domains of the level. Both are set only with
	// [Options].Domains.
	Domains, Outside []Domain
	// Never explains why no domain of today's nodes could hold the gang; set for [CodeNeverFits], and for [CodeNoDomain] where labels or
	// levels are the cause.
	Never *Never
	// Spreading describes how the component's spread limits the replica's domains; nil: no limit.
	Spreading *Spreading
	// Paired: the domain must hold replicas of both roles. Partner is the missing role; set for [CodeNoPartner].
	Paired  bool
	Partner string
	// Ruled: rules about other pods, volumes, or the spread of replicas apply to the gang. Changes other than freed capacity may then allow
	// the gang to be placed.
	Ruled bool
	// Blocked describes the object that keeps the gang's pods off every node until the object changes, for example a missing claim; "" for
	// none.
	Blocked string
	// Steps is the budget of search steps, if it was used up; Compared is the plan's budget of comparisons, if it was used up.
	Steps    int
	Compared uint64
	// Cause is the refusal of the part of the gang that does not fit into the closest domain, or of the gang that this replica waits for.
	Cause *Refusal
}

// Need is the number of pods of one shape in a gang, and their requests.
type Need struct {
	Pods     int
	Requests []topology.Request
}

// Closest is the domain that holds most of a refused gang.
type Closest struct {
	Domain topology.Path
	// Of is the number of pods in the gang, and Holds is how many of them fit, counted host by host.
	Holds, Of int
	// Short lists the resources that are too scarce on the domain's hosts that admit these pods: in total, or on every single host.
	Short []Short
	// Hosts counts the hosts of the domain. Excluded counts, by reason, the hosts that take no pod of the scarcest shape, most frequent
	// reason first.
	Hosts    int
	Excluded []Excluded
}

// Short is one resource that a domain lacks. Amounts of cpu are in thousandths; all other amounts are in the resource's own unit.
type Short struct {
	Resource string
	// Have is the free amount on the domain's hosts that admit the pods, Largest the free amount on one host. Need is the request of all
	// pods of the shape, Each the request of one pod.
	Have, Largest, Need, Each int64
}

// Excluded counts hosts by the reason why they take no pod.
type Excluded struct {
	Reason topology.Exclusion
	Hosts  int
}

// refusal explains why a unit does not fit inside a domain, given the capacity that is already taken.
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

// levelGone refuses a gang whose level the topology no longer has.
func levelGone(gang string, level int) *Refusal {
	return &Refusal{Code: CodeLevelGone, Gang: gang, Level: level, LevelName: "level"}
}
