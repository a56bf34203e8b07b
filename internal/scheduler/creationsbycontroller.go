// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// This file is the scaling group controller's side of Creations while it creates the pods of an offer.

// Begin reports whether the pods of an offer are being created. It returns false when the offer stands no longer.
func (b *Creations) Begin(o *Offer) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	one := b.byName[o.Creation]
	if one == nil || one.state != creationOffered {
		return false
	}
	one.state = creationBegun
	return true
}

// Begun are the replicas of a group whose pods this operator has begun to create in place and that the loop has not all seen, in order.
func (b *Creations) Begun(sg *trellisv1alpha1.ScalingGroup) (ordinals []int32) {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	of := b.groups[client.ObjectKeyFromObject(sg)]
	if of == nil || of.uid != sg.UID {
		return nil
	}
	for ordinal, one := range of.byOrdinal {
		if one.state >= creationBegun {
			ordinals = append(ordinals, ordinal)
		}
	}
	slices.Sort(ordinals)
	return ordinals
}

// Attempts returns the recorded attempts of the replicas of a group that have an offer, by ordinal.
func (b *Creations) Attempts(sg *trellisv1alpha1.ScalingGroup) map[int32]int32 {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	of := b.groups[client.ObjectKeyFromObject(sg)]
	if of == nil || of.uid != sg.UID {
		return nil
	}
	out := map[int32]int32{}
	for ordinal, one := range of.byOrdinal {
		if one.attempt > 0 {
			out[ordinal] = one.attempt
		}
	}
	return out
}

// Stands reports whether an offer, or what is being created of it, has not ended.
func (b *Creations) Stands(o *Offer) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.byName[o.Creation] != nil
}

// Created takes in a pod that was created, and returns whether its gang is still being created. Otherwise the pod is to be deleted again.
func (b *Creations) Created(o *Offer, pod *corev1.Pod) (stands bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	one := b.byName[o.Creation]
	if one == nil || one.gang == nil {
		return false
	}
	of := one.gang
	of.created = append(of.created, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}})
	return true
}

// Made notes that all pods of an offer are created. What waits for a base gang, or for the first replica of a
// component, is looked at when all of that is.
func (b *Creations) Made(o *Offer) {
	b.mu.Lock()
	one := b.byName[o.Creation]
	whole := false
	if one != nil {
		one.state = creationMade
		whole = one.base && one.gang.made()
		b.settleMade(one)
	}
	b.mu.Unlock()
	if whole {
		b.look(one.graph)
	}
}

// Fail ends an offer and all that is created together with it, and returns the pods that are known to exist of that. They are created gated
// from now on.
func (b *Creations) Fail(o *Offer) (created []*corev1.Pod) {
	b.mu.Lock()
	one := b.byName[o.Creation]
	if one == nil || one.gang == nil {
		b.mu.Unlock()
		return nil
	}
	created = one.gang.created
	tell := b.fail(one.gang)
	b.mu.Unlock()
	b.tellAll(tell)
	b.look(one.graph)
	return created
}

// Failed reports whether not all of a gang of a group could be created. Its pods are to be deleted.
func (b *Creations) Failed(sg *trellisv1alpha1.ScalingGroup, gangName string) bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	of := b.groups[client.ObjectKeyFromObject(sg)]
	if of == nil || of.uid != sg.UID {
		return false
	}
	_, failed := of.failed[gangName]
	return failed
}
