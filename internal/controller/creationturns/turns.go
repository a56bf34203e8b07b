// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package creationturns

import (
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// within is the time without a newly created pod after which a turn ends. It is also how long other gangs wait for a successor whose
	// pods are refused.
	within = 30 * time.Second
	// afterRefusal is how long the gangs of a namespace take turns after a refused create.
	afterRefusal = 5 * time.Minute
	// stale is the age after which a part is ignored. Waiting groups renew their parts twice a minute.
	stale = 2 * time.Minute
)

// Turns stores the wants of scaling groups and the holder of the turn, by namespace. The zero value is ready to use.
type Turns struct {
	// Tell triggers a reconcile of a group; nil: no reconcile is triggered.
	Tell func(group types.NamespacedName)
	// Now replaces the clock, for tests.
	Now func() time.Time

	mu     sync.Mutex
	spaces map[string]*space
}

// space is the state of one namespace.
type space struct {
	parts map[string]*part
	// holder is the owner that has the turn; zero for none. since is the start of the turn or the time of its last progress. missing is the
	// number of the holder's missing pods.
	holder  owner
	since   time.Time
	missing int64
	// refused is the time of the last refused create.
	refused time.Time
	// told has, by group, the work that the last decisions caused.
	told map[string]told
	// creating has the groups that may create pods since their last Sync, and have not called Created yet.
	creating map[string]bool
}

// told is the work that decisions cause for a group: creates, deletions, or an overdue turn.
type told struct{ create, giveBack, overdue bool }

// Sync records the wants of a group, and returns the decisions about them. quotas are the quotas of the namespace that count pods.
func (t *Turns) Sync(stated Part, quotas []corev1.ResourceQuota) map[Key]Decision {
	t.mu.Lock()
	s, now, name := t.space(stated.Group.Namespace), t.now(), stated.Group.Name
	if before := s.parts[name]; len(stated.Wants) == 0 {
		delete(s.parts, name)
	} else {
		next := &part{Part: stated, at: now, overdue: map[owner]bool{}}
		next.Wants = slices.Clone(next.Wants)
		if before != nil {
			next.succeed(before)
			if stated.Rests != All {
				next.overdue = before.overdue
			}
		}
		s.parts[name] = next
	}
	delete(s.creating, name)
	decisions, tell := s.look(name, quotas, now)
	s.creating[name] = s.told[name].create
	for _, member := range stated.Members { // a base gang waits for the parts of all of them
		if s.parts[member] == nil {
			tell = append(tell, member)
		}
	}
	t.mu.Unlock()
	t.tell(stated.Group.Namespace, tell)
	return decisions
}

// Created records the gangs that a group has created, and for which of its gangs a create was refused. It triggers a reconcile of the other
// groups that have new work.
func (t *Turns) Created(group types.NamespacedName, created map[Key]bool, refused Rests, quotas []corev1.ResourceQuota) {
	t.mu.Lock()
	s := t.space(group.Namespace)
	if refused != (Rests{}) {
		s.refused = t.now()
	}
	if one := s.parts[group.Name]; one != nil {
		one.Rests.Successors, one.Rests.Others = one.Rests.Successors || refused.Successors, one.Rests.Others || refused.Others
		if refused.Successors && one.refused.IsZero() {
			one.refused = s.refused
		}
		for i := range one.Wants {
			if created[one.Wants[i].Key] {
				one.Wants[i].Missing, one.Wants[i].Exists = nil, true
			}
		}
	}
	delete(s.creating, group.Name)
	_, tell := s.look(group.Name, quotas, t.now())
	t.mu.Unlock()
	t.tell(group.Namespace, tell)
}

// Yields reports whether a group that has completed a gang has to yield the turn, because another group lacks the successor of a replica
// that served.
func (t *Turns) Yields(group types.NamespacedName) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, now := t.space(group.Namespace), t.now()
	if !s.refusedRecently(now) {
		return false
	}
	for name, one := range s.parts {
		lacks := func(w Want) bool { return w.Succeeds && len(w.Missing) > 0 }
		if name != group.Name && now.Sub(one.at) < stale && slices.ContainsFunc(one.Wants, lacks) {
			return true
		}
	}
	return false
}

// Refused reports whether a create was refused in a namespace in the last five minutes.
func (t *Turns) Refused(namespace string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.spaces[namespace]
	return s != nil && s.refusedRecently(t.now())
}

func (s *space) refusedRecently(now time.Time) bool {
	return !s.refused.IsZero() && now.Sub(s.refused) < afterRefusal
}

// Eased ends the pauses of all groups after a quota has begun to allow more pods, and returns the groups that have work. If quotas is
// empty, it returns all waiting groups.
func (t *Turns) Eased(namespace string, quotas []corev1.ResourceQuota) []types.NamespacedName {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.spaces[namespace]
	if s == nil {
		return nil
	}
	for _, one := range s.parts {
		one.Rests = Rests{}
	}
	_, _ = s.look("", quotas, t.now())
	var out []types.NamespacedName
	for _, name := range slices.Sorted(maps.Keys(s.parts)) {
		if len(quotas) == 0 || s.told[name] != (told{}) {
			out = append(out, types.NamespacedName{Namespace: namespace, Name: name})
		}
	}
	return out
}

// Forget drops the state of a group.
func (t *Turns) Forget(group types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.spaces[group.Namespace]
	if s == nil {
		return
	}
	delete(s.parts, group.Name)
	delete(s.told, group.Name)
	delete(s.creating, group.Name)
	if len(s.parts) == 0 && t.now().Sub(s.refused) >= afterRefusal {
		delete(t.spaces, group.Namespace)
	}
}

func (t *Turns) space(namespace string) *space {
	if t.spaces == nil {
		t.spaces = map[string]*space{}
	}
	if t.spaces[namespace] == nil {
		t.spaces[namespace] = &space{parts: map[string]*part{}, told: map[string]told{}, creating: map[string]bool{}}
	}
	return t.spaces[namespace]
}

func (t *Turns) now() time.Time {
	if t.Now != nil {
		return t.Now()
	}
	return time.Now()
}

func (t *Turns) tell(namespace string, groups []string) {
	for _, name := range groups {
		if t.Tell != nil {
			t.Tell(types.NamespacedName{Namespace: namespace, Name: name})
		}
	}
}

// look makes the decisions about all gangs. asks is the group whose reconcile calls look; only its gangs can get the turn. own has the
// decisions about its gangs. tell has the other groups with new work, for example groups that can get the turn in their own reconcile.
func (s *space) look(asks string, quotas []corev1.ResourceQuota, now time.Time) (own map[Key]Decision, tell []string) {
	s.endTurn(now)
	gangs := s.gangs(now)
	decisions, turn := (&line{
		gangs: gangs, quotas: quotas, holder: s.holder, creates: s.holderCreates(), refused: s.refusedRecently(now),
	}).evaluate()
	switch {
	case turn == s.holder:
	case turn != owner{} && s.has(asks, turn):
		s.holder, s.since, s.missing = turn, now, missingOf(gangs, turn)
	default:
		s.holder = owner{}
	}
	own = map[Key]Decision{}
	for name, one := range s.parts {
		decided, todo := one.decided(decisions)
		if name == asks {
			own = decided
		}
		if name != asks && todo != s.told[name] && todo != (told{}) {
			tell = append(tell, name)
		}
		s.told[name] = todo
	}
	slices.Sort(tell)
	return own, tell
}

// endTurn ends the turn of the holder when its gangs are complete, or when the time limit has passed without progress.
func (s *space) endTurn(now time.Time) {
	if s.holder == (owner{}) {
		return
	}
	missing := missingOf(s.gangs(now), s.holder)
	if missing < s.missing {
		s.since = now
	}
	s.missing = missing
	if missing > 0 && now.Sub(s.since) < within {
		return
	}
	for name, one := range s.parts {
		if missing > 0 && s.has(name, s.holder) {
			one.overdue[s.holder] = true
		}
	}
	s.holder = owner{}
}

// holderCreates reports whether a group with a part of the holder's gangs is creating pods.
func (s *space) holderCreates() bool {
	for name, creates := range s.creating {
		if creates && s.has(name, s.holder) {
			return true
		}
	}
	return false
}

// has reports whether a group has a part of the gangs of an owner.
func (s *space) has(group string, of owner) bool {
	one := s.parts[group]
	return one != nil && slices.ContainsFunc(one.Wants, func(w Want) bool { return w.owner() == of })
}

func missingOf(gangs []*gang, of owner) (n int64) {
	for _, g := range gangs {
		if g.owner() == of {
			n += g.missing
		}
	}
	return n
}
