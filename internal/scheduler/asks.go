// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/render"
)

// Asks holds the requests of scaling groups to create replicas in place, that is, pinned and without Trellis' gate. The scalinggroup
// controller adds an ask with the planned pods of the replica. The loop answers the ask with the attempt of the recorded place, or with the
// instruction to create the replica gated. The controller and the loop do not wait for each other: an ask requeues the graph, and an answer
// requeues the group. If an ask is lost, the controller repeats it.
type Asks struct {
	// tell requeues a scaling group, and look requeues a graph. Asks calls both without holding the lock.
	tell, look func(types.NamespacedName)

	mu     sync.Mutex
	groups map[types.NamespacedName]*asksOfGroup
	// refused has, by graph and gang name, the gangs with pods that could not be created, or were not created in time. The value is true
	// once the refusal is announced. gated has the replicas of these gangs, whose pods are created gated.
	refused map[types.NamespacedName]map[string]bool
	gated   map[types.NamespacedName]map[gang.Key]bool
	// ended has, by graph and replica, the highest attempt of the pods that the controller has deleted. The loop reads and removes these
	// entries.
	ended map[types.NamespacedName]map[gang.Key]int32
}

// asksOfGroup are the asks of one scaling group.
type asksOfGroup struct {
	uid       types.UID
	graph     types.NamespacedName
	component string
	byOrdinal map[int32]*ask
}

// ask is a replica without pods that its group wants to create.
type ask struct {
	// version identifies the inputs from which the replica is created; see versionOf.
	version string
	pods    []*corev1.Pod
	// gated and attempt are the answer; neither is set before the loop answers. begun: the controller has begun to create pods at the
	// attempt.
	gated, begun bool
	attempt      int32
}

// Want is a replica that a group wants to create and that has no pods yet.
type Want struct {
	Ordinal int32
	// Pods returns the planned pods of the replica by index, as the API server will store them ([gang.AsPlanned]).
	Pods func() []*corev1.Pod
}

// Answer determines how a replica is created. If neither Gated nor Attempt is set, the replica waits: its group is requeued when the loop
// answers.
type Answer struct {
	// New: this call of [Asks.Ask] added the ask.
	New bool
	// Gated: the pods are created with Trellis' gate.
	Gated bool
	// Attempt is the attempt of the recorded place in which the replica is created; 0 for none. Pods are the planned pods, by index.
	Attempt int32
	Pods    []*corev1.Pod
}

// NewAsks returns an empty store. tell requeues a scaling group; it must not wait for the loop.
func NewAsks(tell func(group types.NamespacedName)) *Asks {
	return &Asks{
		tell: tell, look: func(types.NamespacedName) {}, groups: map[types.NamespacedName]*asksOfGroup{},
		refused: map[types.NamespacedName]map[string]bool{}, gated: map[types.NamespacedName]map[gang.Key]bool{},
		ended: map[types.NamespacedName]map[gang.Key]int32{},
	}
}

// Ask adds asks for the replicas in wants, and returns the answer for each of these replicas, by ordinal. It drops the group's earlier asks
// for other replicas, and earlier asks with another version. It keeps a begun ask only while the replica's ordinal is in unseen, that is,
// while a read past the cache shows pods that the cache does not show. If Ask drops a begun ask and the group still wants the replica, it
// adds a new ask.
func (a *Asks) Ask(sg *trellisv1alpha1.ScalingGroup, wants []Want, unseen []int32) map[int32]Answer {
	answers, wanted, changed := map[int32]Answer{}, map[int32]bool{}, false
	for _, want := range wants {
		wanted[want.Ordinal] = true
	}
	a.mu.Lock()
	of := a.of(sg, len(wants) > 0)
	if of == nil {
		a.mu.Unlock()
		return answers
	}
	for ordinal, one := range of.byOrdinal {
		keeps := one.begun && slices.Contains(unseen, ordinal) || !one.begun && wanted[ordinal] && one.version == versionOf(sg)
		if !keeps {
			delete(of.byOrdinal, ordinal)
			changed = true
		}
	}
	for _, want := range wants {
		if a.gated[of.graph][of.key(want.Ordinal)] {
			answers[want.Ordinal] = Answer{Gated: true}
			continue
		}
		one, known := of.byOrdinal[want.Ordinal]
		if !known {
			one = &ask{version: versionOf(sg), pods: want.Pods()}
			of.byOrdinal[want.Ordinal], changed = one, true
		}
		answers[want.Ordinal] = Answer{New: !known, Gated: one.gated, Attempt: one.attempt, Pods: one.pods}
	}
	if len(of.byOrdinal) == 0 {
		delete(a.groups, client.ObjectKeyFromObject(sg))
	}
	a.mu.Unlock()
	if changed {
		a.look(of.graph)
	}
	return answers
}

func (of *asksOfGroup) key(ordinal int32) gang.Key {
	return gang.Key{Component: of.component, Ordinal: int(ordinal)}
}

// of returns the asks of a group. If there are none, it returns nil or, if create is set, adds and returns an empty entry. It drops the
// asks of an earlier group with the same name. The caller holds the lock.
func (a *Asks) of(sg *trellisv1alpha1.ScalingGroup, create bool) *asksOfGroup {
	name := client.ObjectKeyFromObject(sg)
	of := a.groups[name]
	if of != nil && of.uid == sg.UID {
		return of
	}
	if delete(a.groups, name); !create {
		return nil
	}
	of = &asksOfGroup{
		uid: sg.UID, graph: types.NamespacedName{Namespace: sg.Namespace, Name: sg.Spec.Graph}, component: sg.Spec.Component,
		byOrdinal: map[int32]*ask{},
	}
	a.groups[name] = of
	return of
}

// versionOf identifies the inputs from which replicas of a group are created now.
func versionOf(sg *trellisv1alpha1.ScalingGroup) string {
	restart := ""
	if sg.Spec.Restart != nil {
		restart = sg.Spec.Restart.ID
	}
	return fmt.Sprintf("%s/%s/%d/%s", sg.Spec.Revision, restart, render.PodsPerReplica(sg), render.LevelKeys(sg.Spec.Topology))
}

// Begin reports whether a replica may still be created at an attempt. If so, it marks the ask as begun.
func (a *Asks) Begin(sg *trellisv1alpha1.ScalingGroup, ordinal, attempt int32) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	of := a.of(sg, false)
	if of == nil || of.byOrdinal[ordinal] == nil || of.byOrdinal[ordinal].attempt != attempt {
		return false
	}
	of.byOrdinal[ordinal].begun = true
	return true
}

// Answered returns the attempts that the loop has given as answers to a group, by ordinal. begun has the sorted ordinals of the replicas
// that the controller has begun to create.
func (a *Asks) Answered(sg *trellisv1alpha1.ScalingGroup) (attempts map[int32]int32, begun []int32) {
	attempts = map[int32]int32{}
	if a == nil {
		return attempts, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	of := a.of(sg, false)
	if of == nil {
		return attempts, nil
	}
	for ordinal, one := range of.byOrdinal {
		if one.attempt > 0 {
			attempts[ordinal] = one.attempt
		}
		if one.begun {
			begun = append(begun, ordinal)
		}
	}
	slices.Sort(begun)
	return attempts, begun
}

// Refuse requests the eviction of a gang whose pods cannot all be created. From now on the members of the gang are created gated. If the
// gang is the base gang, Refuse drops all asks of the graph, because the other gangs follow the base gang. The groups then ask again for
// the replicas that are not created yet.
func (a *Asks) Refuse(sg *trellisv1alpha1.ScalingGroup, name string, members []gang.Key, base bool) {
	a.refuse(types.NamespacedName{Namespace: sg.Namespace, Name: sg.Spec.Graph}, name, members, base)
}

func (a *Asks) refuse(graph types.NamespacedName, name string, members []gang.Key, base bool) {
	a.mu.Lock()
	if a.refused[graph] == nil {
		a.refused[graph] = map[string]bool{}
	}
	if a.gated[graph] == nil {
		a.gated[graph] = map[gang.Key]bool{}
	}
	if _, known := a.refused[graph][name]; !known {
		a.refused[graph][name] = false
	}
	for _, key := range members {
		a.gated[graph][key] = true
	}
	var tell []types.NamespacedName
	for group, of := range a.groups {
		if of.graph != graph {
			continue
		}
		maps.DeleteFunc(of.byOrdinal, func(ordinal int32, _ *ask) bool { return base || a.gated[graph][of.key(ordinal)] })
		tell = append(tell, group)
	}
	a.mu.Unlock()
	a.tellAll(tell)
	a.look(graph)
}

func (a *Asks) tellAll(groups []types.NamespacedName) {
	slices.SortFunc(groups, func(a, b types.NamespacedName) int { return cmp.Compare(a.String(), b.String()) })
	for _, group := range slices.Compact(groups) {
		a.tell(group)
	}
}

// End records that a pod of a group was deleted, so that the pod's replica is not created again at the pod's attempt.
func (a *Asks) End(sg *trellisv1alpha1.ScalingGroup, pod *corev1.Pod) {
	attempt := render.AttemptOf(pod)
	if a == nil || attempt == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	graph := types.NamespacedName{Namespace: sg.Namespace, Name: sg.Spec.Graph}
	if a.ended[graph] == nil {
		a.ended[graph] = map[gang.Key]int32{}
	}
	ordinal, _, _ := render.ReplicaOf(pod)
	key := gang.Key{Component: sg.Spec.Component, Ordinal: int(ordinal)}
	a.ended[graph][key] = max(a.ended[graph][key], attempt)
}

// Ungate allows a replica to be created in place again later. The controller calls it once all pods of the replica exist and are gated.
func (a *Asks) Ungate(sg *trellisv1alpha1.ScalingGroup, ordinal int32) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	graph := types.NamespacedName{Namespace: sg.Namespace, Name: sg.Spec.Graph}
	if delete(a.gated[graph], gang.Key{Component: sg.Spec.Component, Ordinal: int(ordinal)}); len(a.gated[graph]) == 0 {
		delete(a.gated, graph)
	}
}

// Forget drops the asks of a group that is gone, or whose replicas are not created in place.
func (a *Asks) Forget(group types.NamespacedName) {
	if a == nil {
		return
	}
	a.mu.Lock()
	of := a.groups[group]
	delete(a.groups, group)
	a.mu.Unlock()
	if of != nil && len(of.byOrdinal) > 0 {
		a.look(of.graph)
	}
}
