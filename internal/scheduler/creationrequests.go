// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Creations are the replicas that are to be created in place: what the scaling group controller asks for and the loop answers. Neither
// waits for the other: a question has the graph looked at, an answer has the group reconciled, and a group without an answer asks again
// at the next event.
//
//	asked ──> gated                                      it has no place now: it is created gated
//	      └─> placed ──> offered ──> begun ──> made         its place is reserved, and its pods are created there
//
// The lock is held for what is here alone, and never while a plan is made. The reservations are the ledger's; it drops those of creations
// that have ended.
type Creations struct {
	// operator names this process in reservations.
	operator string
	// tell requeues a scaling group, and look requeues a graph. They are called without the lock.
	tell, look func(types.NamespacedName)

	mu     sync.Mutex
	next   int
	groups map[types.NamespacedName]*creationsOfGroup
	byName map[string]*creation
	// ended are the reservations of creations that have ended, by graph, as the cluster cache knows them.
	ended map[types.NamespacedName][]endedReservation
}

// NewCreations returns an empty store. tell has a scaling group reconciled; it must not wait for the loop.
func NewCreations(tell func(group types.NamespacedName)) *Creations {
	operator, _, _ := strings.Cut(string(uuid.NewUUID()), "-")
	return &Creations{
		operator: operator, tell: tell, look: func(types.NamespacedName) {},
		groups: map[types.NamespacedName]*creationsOfGroup{}, byName: map[string]*creation{},
		ended: map[types.NamespacedName][]endedReservation{},
	}
}

// Ask reports which replicas of a group are to be created in place, and returns how each is created, by ordinal. What the group asked for
// before and does not any more is dropped. It is called after a read of the group's pods that shows what the group has created, but for
// the replicas that are Unseen.
func (b *Creations) Ask(sg *trellisv1alpha1.ScalingGroup, wants []Want) map[int32]Answer {
	name := client.ObjectKeyFromObject(sg)
	graph := types.NamespacedName{Namespace: sg.Namespace, Name: sg.Spec.Graph}
	answers := map[int32]Answer{}
	var tell []types.NamespacedName
	look := false
	b.mu.Lock()
	of := b.groups[name]
	if of == nil || of.uid != sg.UID {
		if of == nil && len(wants) == 0 {
			b.mu.Unlock()
			return answers
		}
		look = of.concerns()
		tell, of = b.renew(sg)
	}
	told, ended := b.endStale(sg, of, wants)
	tell, look = append(tell, told...), look || ended
	for _, want := range wants {
		if want.Unseen {
			continue
		}
		answer, isNew := b.ask(sg, of, want, name, graph)
		answers[want.Ordinal], look = answer, look || isNew
	}
	b.mu.Unlock()
	b.tellAll(tell)
	if look {
		b.look(graph)
	}
	return answers
}

// endStale ends what a group asked for before and does not want so any more, and what of it is created and gone. It returns the groups to
// be told, and whether the graph is to be requeued. Called with the lock held.
func (b *Creations) endStale(
	sg *trellisv1alpha1.ScalingGroup, of *creationsOfGroup, wants []Want,
) (tell []types.NamespacedName, look bool) {
	wanted, unseen := map[int32]bool{}, map[int32]bool{}
	for _, want := range wants {
		wanted[want.Ordinal], unseen[want.Ordinal] = true, want.Unseen
	}
	for _, one := range slices.Collect(maps.Values(of.byOrdinal)) {
		ordinal := int32(one.key.Ordinal)
		switch {
		case b.byName[one.name] != one: // it has ended with another one of its gang
		case one.state >= creationBegun && unseen[ordinal]:
		case one.state >= creationBegun:
			one.shown, look = true, true
			if wanted[ordinal] { // its pods are gone
				tell = append(tell, b.end(one)...)
			}
		case !wanted[ordinal] || of.gated[ordinal] || one.version != versionOf(sg):
			tell, look = append(tell, b.end(one)...), true
		}
	}
	return tell, look
}

// versionOf is what replicas of a group are created from now.
func versionOf(sg *trellisv1alpha1.ScalingGroup) string {
	restart := ""
	if sg.Spec.Restart != nil {
		restart = sg.Spec.Restart.ID
	}
	return fmt.Sprintf("%s/%s/%d/%s", sg.Spec.Revision, restart, render.PodsPerReplica(sg), render.LevelKeys(sg.Spec.Topology))
}

// ask answers for one replica. Called with the lock held.
func (b *Creations) ask(
	sg *trellisv1alpha1.ScalingGroup, of *creationsOfGroup, want Want, group, graph types.NamespacedName,
) (answer Answer, isNew bool) {
	if of.gated[want.Ordinal] {
		return Answer{Gated: true}, false
	}
	if one := of.byOrdinal[want.Ordinal]; one != nil {
		return one.answer(), false
	}
	b.next++
	one := &creation{
		name: fmt.Sprintf("%s-%d", b.operator, b.next), group: group, graph: graph, uid: sg.UID, version: versionOf(sg), more: want.More,
		key: gang.Key{Component: sg.Spec.Service, Ordinal: int(want.Ordinal)}, pods: want.Pods(), reserved: map[string]bool{},
	}
	for _, pod := range one.pods {
		pod.UID = gang.PlannedUID(one.name, pod.Name)
	}
	of.byOrdinal[want.Ordinal], b.byName[one.name] = one, one
	return Answer{New: true}, true
}

func (one *creation) answer() Answer {
	switch one.state {
	case creationGated:
		return Answer{Gated: true}
	case creationOffered:
		return Answer{Offer: &Offer{Creation: one.name, Gang: one.gang.name, Attempt: one.attempt, Releases: one.releases}}
	}
	return Answer{}
}

// Ungate ends that a replica is created gated: all of it was.
func (b *Creations) Ungate(sg *trellisv1alpha1.ScalingGroup, ordinal int32) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if of := b.groups[client.ObjectKeyFromObject(sg)]; of != nil && of.uid == sg.UID {
		delete(of.gated, ordinal)
	}
}

// renew replaces what is known of an earlier group of the same name, and ends what that has asked for. It returns the groups to be told.
// Called with the lock held.
func (b *Creations) renew(sg *trellisv1alpha1.ScalingGroup) (tell []types.NamespacedName, of *creationsOfGroup) {
	name := client.ObjectKeyFromObject(sg)
	tell = b.drop(name)
	of = &creationsOfGroup{
		uid: sg.UID, graph: types.NamespacedName{Namespace: sg.Namespace, Name: sg.Spec.Graph},
		byOrdinal: map[int32]*creation{}, gated: map[int32]bool{}, failed: map[string]bool{},
	}
	b.groups[name] = of
	return tell, of
}

// Forget drops all of a group that is gone.
func (b *Creations) Forget(group types.NamespacedName) {
	b.mu.Lock()
	of := b.groups[group]
	look := of.concerns()
	tell := b.drop(group)
	delete(b.groups, group)
	b.mu.Unlock()
	b.tellAll(tell)
	if look {
		b.look(of.graph)
	}
}

// ofPod returns the creation of a pod; nil for none. Called with the lock held.
func (b *Creations) ofPod(pod *corev1.Pod) *creation {
	group, uid, owned := render.GroupOf(pod)
	of := b.groups[types.NamespacedName{Namespace: pod.Namespace, Name: group}]
	if !owned || of == nil || of.uid != uid {
		return nil
	}
	ordinal, _, _ := render.ReplicaOf(pod)
	one := of.byOrdinal[ordinal]
	if one == nil || one.gang == nil || one.gang.name != pod.Annotations[render.AnnotationGang] {
		return nil
	}
	return one
}

func (b *Creations) tellAll(groups []types.NamespacedName) {
	slices.SortFunc(groups, func(a, b types.NamespacedName) int { return cmp.Compare(a.String(), b.String()) })
	for _, group := range slices.Compact(groups) {
		b.tell(group)
	}
}

// drop ends all creations of a group. Called with the lock held.
func (b *Creations) drop(group types.NamespacedName) (tell []types.NamespacedName) {
	of := b.groups[group]
	if of == nil {
		return nil
	}
	for _, one := range slices.Collect(maps.Values(of.byOrdinal)) {
		if b.byName[one.name] == one { // it has not ended with another one of its gang
			tell = append(tell, b.end(one)...)
		}
	}
	return tell
}

// end ends a creation, and with it its gang where that is not complete: the rest has to be planned again. Where some of that has begun,
// all of it is recreated gated: what exists would run without the rest for as long as that cannot be created. It returns the groups to be
// told: those of the others, and where pods have to be deleted its own. Called with the lock held.
func (b *Creations) end(one *creation) (tell []types.NamespacedName) {
	if one.gang == nil || one.gang.complete() {
		b.remove(one)
		return nil
	}
	if one.gang.begun() {
		return b.fail(one.gang)
	}
	for _, member := range slices.Clone(one.gang.members) {
		b.remove(member)
		if member.group != one.group {
			tell = append(tell, member.group)
		}
	}
	return tell
}

// fail ends all of a gang, and has it created gated from now on. It returns the groups, which delete what exists of it. Called with the
// lock held.
func (b *Creations) fail(of *createdGang) (tell []types.NamespacedName) {
	for _, member := range slices.Clone(of.members) {
		b.remove(member)
		if group := b.groups[member.group]; group != nil && group.uid == member.uid {
			group.gated[int32(member.key.Ordinal)] = true
			group.failed[of.name] = member.base
		}
		tell = append(tell, member.group)
	}
	return tell
}

// remove drops a creation and gives its reservations back. Called with the lock held.
func (b *Creations) remove(one *creation) {
	for _, release := range one.releases {
		if id := topology.PodID(release.Pod); one.reserved[id] {
			b.ended[one.graph] = append(b.ended[one.graph], endedReservation{id, client.ObjectKeyFromObject(release.Pod)})
		}
	}
	b.unlist(one)
	if one.gang != nil {
		one.gang.members = slices.DeleteFunc(one.gang.members, func(member *creation) bool { return member == one })
	}
}

// unlist drops a creation. Called with the lock held.
func (b *Creations) unlist(one *creation) {
	delete(b.byName, one.name)
	if of := b.groups[one.group]; of != nil && of.byOrdinal[int32(one.key.Ordinal)] == one {
		delete(of.byOrdinal, int32(one.key.Ordinal))
	}
}

// settleMade drops a creation of which nothing is left to follow: all its pods are created and have taken over their reservations. It stays
// in its gang, whose other creations may still fail. Called with the lock held.
func (b *Creations) settleMade(one *creation) {
	if one.state == creationMade && len(one.reserved) == 0 {
		b.unlist(one)
	}
}
