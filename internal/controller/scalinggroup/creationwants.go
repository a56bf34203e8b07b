// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/controller/creationturns"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/rollout"
)

// view is the group's input for package creationturns: the gangs of its replicas, and the pods that each gang lacks.
type view struct {
	o     observed
	graph types.UID
	// gated reports whether the group's pods are created with Trellis' scheduling gate. The scheduler places a gated replica only once all
	// its pods exist.
	gated bool
	// charges are the quota charges of the group's pods, by role.
	charges map[string]storedPod
	// ordinals are the ordinals of the replicas that exist or are to be created. base marks the members of the graph's base gang, which
	// start together. first marks the first replicas of the component, if these start together.
	ordinals    []int32
	base, first map[int32]bool
	// members are the scaling groups of the base gang.
	members []string
	wants   []creationturns.Want
}

// view returns the gangs of the group's replicas, with the pods that each gang lacks.
func (p *pass) view(ctx context.Context) (*view, error) {
	o := p.observed
	v := &view{o: o, graph: o.sg.UID, gated: p.Asks == nil || !gang.InPlace(o.sg), base: map[int32]bool{}, first: map[int32]bool{}}
	if owner := metav1.GetControllerOfNoCopy(o.sg); owner != nil {
		v.graph = owner.UID
	}
	for _, ordinal := range rollout.For(o.sg).Ordinals(summaries(o.sg, o.replicas), o.attempts.recorded.Ordinals(), batch+1) {
		v.ordinals = append(v.ordinals, int32(ordinal))
	}
	if err := p.addTogether(ctx, v); err != nil {
		return nil, err
	}
	v.charges = p.stored.of(o)
	creatable := map[int32]bool{}
	for _, ordinal := range p.steps.make {
		creatable[ordinal] = true
	}
	for _, pod := range p.steps.create {
		ordinal, _, _ := render.ReplicaOf(pod)
		creatable[ordinal] = true
	}
	removed := map[int32]bool{}
	for _, gone := range p.next.Remove {
		removed[int32(gone.Ordinal)] = true
	}
	for _, ordinal := range v.ordinals {
		v.addWant(ordinal, creatable[ordinal], removed[ordinal])
	}
	return v, nil
}

// addTogether finds the replicas that start together. If the graph is packed into one domain, they are the replicas of the base gang, until
// a pod of the graph is released. Otherwise they are the first replicas of the component, until a pod of the component is released.
func (p *pass) addTogether(ctx context.Context, v *view) error {
	sg := p.sg
	if !render.Gated(sg) || p.sits() {
		return nil
	}
	together := v.ordinals[:min(len(v.ordinals), int(render.MinAvailable(sg)))]
	if sg.Spec.Topology == nil || sg.Spec.Topology.GraphPackDomain == "" {
		for _, ordinal := range together {
			v.first[ordinal] = len(together) > 1
		}
		return nil
	}
	groups, err := groupsOf(ctx, p.Client, sg)
	if err != nil {
		return err
	}
	for _, one := range groups {
		if !render.Gated(one) || one.Spec.Replicas == 0 {
			continue
		}
		if begun, err := p.begun(ctx, one); begun || err != nil {
			v.members = nil
			return err
		}
		v.members = append(v.members, one.Name)
	}
	for _, ordinal := range together {
		v.base[ordinal] = true
	}
	return nil
}

// begun reports whether a pod of a group is released.
func (r *Reconciler) begun(ctx context.Context, sg *trellisv1alpha1.ScalingGroup) (bool, error) {
	pods, err := r.podsOf(ctx, client.ObjectKeyFromObject(sg), sg)
	return slices.ContainsFunc(pods.own, func(pod *corev1.Pod) bool { return !gang.Leaving(pod) && podReleased(pod) }), err
}

// sits reports whether a replica of the group is released.
func (o *observed) sits() bool {
	for _, r := range o.replicas {
		if r.released() {
			return true
		}
	}
	return false
}

// keyOf returns the key of a replica's gang.
func (v *view) keyOf(ordinal int32) creationturns.Key {
	key := creationturns.Key{Graph: v.graph, GraphName: v.o.sg.Spec.Graph, Group: v.o.sg.Name, Ordinal: ordinal}
	switch {
	case v.base[ordinal]:
		key.Group, key.Ordinal = "", creationturns.First
	case v.first[ordinal]:
		key.Ordinal = creationturns.First
	}
	return key
}

func (v *view) nameOf(ordinal int32) string {
	sg := v.o.sg
	switch {
	case v.base[ordinal]:
		return "the base gang of " + sg.Spec.Graph
	case v.first[ordinal]:
		return fmt.Sprintf("the first replicas of %s of %s", sg.Spec.Component, sg.Spec.Graph)
	}
	return fmt.Sprintf("%s-%d of %s", sg.Spec.Component, ordinal, sg.Spec.Graph)
}

// addWant adds the pods that a replica lacks to the want of its gang.
func (v *view) addWant(ordinal int32, creatable, removed bool) {
	one, together := v.o.replicas[ordinal], v.base[ordinal] || v.first[ordinal]
	want := v.wantOf(ordinal, creatable, removed)
	if want.Missing = v.missing(one, removed); len(want.Missing) == 0 && !together {
		return
	}
	if !want.Exists && !want.Ready && !want.Succeeds && !together {
		return
	}
	want.Ready = want.Ready || len(want.Missing) == 0
	v.join(want, together)
}

// wantOf returns the want of a replica, without the list of missing pods.
func (v *view) wantOf(ordinal int32, creatable, removed bool) creationturns.Want {
	want := creationturns.Want{
		Key: v.keyOf(ordinal), Name: v.nameOf(ordinal), Ready: creatable, Succeeds: v.served(ordinal), Others: render.InSets(v.o.sg),
	}
	if one := v.o.replicas[ordinal]; one != nil {
		want.Succeeds = want.Succeeds || one.wasBound()
		want.Exists = !removed && one.there() && !one.released()
		want.Ready = want.Ready || render.InSets(v.o.sg) && one.set != nil
	}
	return want
}

// served reports whether all pods of a replica once existed together, according to the GraphPlacement. This is true if the replica was
// bound. It is also true if a gated replica got a place, because the scheduler gives a gated replica its place only once all its pods
// exist.
func (v *view) served(ordinal int32) bool {
	recorded := v.o.attempts.recorded
	_, _, assigned := recorded.Assigned(ordinal)
	return recorded.WasBound(ordinal) || v.gated && (assigned || recorded.Ran(ordinal))
}

// join adds a want. It merges the wants of replicas that start together into one want for their gang.
func (v *view) join(want creationturns.Want, together bool) {
	at := slices.IndexFunc(v.wants, func(of creationturns.Want) bool { return together && of.Key == want.Key })
	if at < 0 {
		v.wants = append(v.wants, want)
		return
	}
	of := &v.wants[at]
	of.Missing, of.Exists = append(of.Missing, want.Missing...), of.Exists || want.Exists
	of.Ready, of.Succeeds, of.Others = of.Ready && want.Ready, of.Succeeds || want.Succeeds, of.Others || want.Others
}

// missing returns the pods that a replica lacks, by role.
func (v *view) missing(one *replica, removed bool) []creationturns.Pods {
	counts := map[string]int64{}
	for index := range render.PodsPerReplica(v.o.sg) {
		if one == nil || removed || one.pods[index] == nil {
			counts[render.RoleOf(v.o.sg, index).Name]++
		}
	}
	if one != nil && !removed && len(one.pods) >= one.size {
		return nil
	}
	var out []creationturns.Pods
	for i := range v.o.sg.Spec.Roles {
		if role := v.o.sg.Spec.Roles[i].Name; counts[role] > 0 {
			out = append(out, creationturns.Pods{Charge: v.charges[role].charge, Count: counts[role]})
		}
	}
	return out
}

func (v *view) part() creationturns.Part {
	return creationturns.Part{
		Group: client.ObjectKeyFromObject(v.o.sg), Created: v.o.sg.CreationTimestamp.Time, Members: v.members, Wants: v.wants,
	}
}

// begunSet selects one of the gangs that the decisions allow. It prefers a gang whose sets exist, because the LeaderWorkerSet controller is
// still creating the pods of these sets. It returns false if the decisions allow no gang, or if Trellis creates the pods itself.
func (v *view) begunSet(decisions map[creationturns.Key]creationturns.Decision) (key creationturns.Key, is bool) {
	if !render.InSets(v.o.sg) {
		return key, false
	}
	for _, existing := range []bool{true, false} {
		for _, want := range v.wants {
			if decisions[want.Key].Create && want.Exists == existing {
				return want.Key, true
			}
		}
	}
	return key, false
}

// wasBound reports whether all pods of the replica have or had a node, which the GraphPlacement may record only later. If pods are gone,
// wasBound assumes that they had a node if another pod of the replica is or was Ready.
func (r *replica) wasBound() bool {
	pods := slices.Concat(r.active(), r.leaving, r.lost)
	if len(pods) < r.size {
		return slices.ContainsFunc(pods, render.PodReady)
	}
	return !slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return !podBound(pod) })
}

// giveBack adds to the steps the deletion of the pods of incomplete gangs, where the decisions require it.
func (s *steps) giveBack(o observed, keyOf func(int32) creationturns.Key, decisions map[creationturns.Key]creationturns.Decision) {
	for _, ordinal := range sortedOrdinals(o.replicas) {
		one := o.replicas[ordinal]
		if decisions[keyOf(ordinal)].GiveBack && one.there() && !one.released() {
			s.replace(o.sg, one, notWhole)
		}
	}
}
