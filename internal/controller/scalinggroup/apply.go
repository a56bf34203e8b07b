// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/controller/creationturns"
	"github.com/trellis-k8s/trellis/internal/render"
)

// parallel is the maximum number of pods of one group that are written concurrently.
const parallel = 16

// apply deletes and creates the pods of the steps, several at once, and returns all errors. It creates pods in rounds of parallel creates,
// and starts no further round after a failed create.
func (p *pass) apply(ctx context.Context) error {
	sg, s := p.sg, &p.steps
	var todo []func() error
	for _, d := range s.delete {
		p.Asks.End(sg, d.pod)
		todo = append(todo, func() error { return p.deletePod(ctx, d) })
	}
	for _, gone := range s.unmake {
		todo = append(todo, func() error { return p.unmake(ctx, sg, gone) })
	}
	down := inParallel(todo)
	if len(s.make)+len(s.create)+len(s.inPlace) == 0 && s.taken == nil {
		return down
	}
	up := errors.Join(p.createInPlace(ctx), p.makeAll(ctx))
	if !s.inTurn {
		p.refusals.note(sg, creationturns.Rests{Others: true}, up)
		if refused(up) {
			p.noteTurn(ctx, nil, creationturns.All)
		}
	}
	return errors.Join(down, up)
}

// makeAll creates the sets (such as LeaderWorkerSets) and the pods of the steps in rounds. The first round has one create if the last
// create was refused, and otherwise up to [parallel] creates. Each later round has twice as many creates, up to [parallel].
func (p *pass) makeAll(ctx context.Context) error {
	if p.steps.inTurn {
		return p.makeInTurn(ctx)
	}
	if err := p.makeSets(ctx, p.sg, p.steps.make); err != nil {
		return err
	}
	_, err := p.createAll(ctx, p.sg, p.steps.create, p.firstRound(p.sg))
	return err
}

func (r *Reconciler) firstRound(sg *trellisv1alpha1.ScalingGroup) int {
	if r.refusals.has(sg) {
		return 1
	}
	return parallel
}

// makeSets creates the sets of the replicas with these ordinals, in rounds.
func (r *Reconciler) makeSets(ctx context.Context, sg *trellisv1alpha1.ScalingGroup, left []int32) error {
	for round := r.firstRound(sg); len(left) > 0; round = min(2*round, parallel) {
		now := left[:min(round, len(left))]
		if err := r.make(ctx, sg, now); err != nil {
			return err
		}
		left = left[len(now):]
	}
	return nil
}

// createAll creates pods in rounds, and returns the size of the next round.
func (r *Reconciler) createAll(ctx context.Context, sg *trellisv1alpha1.ScalingGroup, left []*corev1.Pod, round int) (int, error) {
	for ; len(left) > 0; round = min(2*round, parallel) {
		now := left[:min(round, len(left))]
		todo := make([]func() error, 0, len(now))
		for _, pod := range now {
			todo = append(todo, func() error { return r.createPod(ctx, sg, pod) })
		}
		if err := inParallel(todo); err != nil {
			return round, err
		}
		left = left[len(now):]
	}
	return round, nil
}

// inParallel runs all functions, at most [parallel] at once, and returns all errors.
func inParallel(todo []func() error) error {
	failures := make([]error, len(todo))
	slots := make(chan struct{}, parallel)
	var wait sync.WaitGroup
	for i, do := range todo {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			failures[i] = do()
		})
	}
	wait.Wait()
	return errors.Join(failures...)
}

// allow removes from the steps the creates that must not run now: creates of gangs that wait for their turn, creates during the delay after
// a refused create, and all creates of a graph that exceeds its pod limit.
func (p *pass) allow(ctx context.Context) error {
	waits, err := p.takeTurn(ctx)
	if err != nil {
		return err
	}
	rests, err := p.mayMake(ctx)
	p.allowed = allowance{again: earliest(rests.again, waits.again), refused: cmp.Or(rests.refused, waits.refused)}
	if waitsForSuccessors(p.sg) {
		_, in := p.lacks.counts(client.ObjectKeyFromObject(p.sg), p.refusals.clock())
		p.allowed.again = earliest(p.allowed.again, in)
	}
	return err
}

// mayMake removes all creates from the steps while the group waits after a refused create, or while the graph exceeds its pod limit. It
// returns the remaining wait and the refusal.
func (p *pass) mayMake(ctx context.Context) (allowance, error) {
	s := &p.steps
	if len(s.create)+len(s.make) == 0 {
		return allowance{}, nil
	}
	if a := p.refusals.wait(p.sg); a.again > 0 && !s.inTurn { // in turn, takeTurn has left out the gangs that rest
		s.create, s.make, s.rests = nil, nil, true
		return a, nil
	}
	switch within, err := p.withinLimit(ctx); {
	case err != nil:
		return allowance{}, err
	case !within: // the graph controller will bound the groups, whose events trigger a reconcile
		s.create, s.make, s.overLimit = nil, nil, true
	}
	return allowance{}, nil
}

// isGoneBefore reports, before pods are created, whether the group or its owner is gone. If the steps create nothing, it reads nothing and
// returns false.
func (p *pass) isGoneBefore(ctx context.Context) (bool, error) {
	if len(p.steps.create)+len(p.steps.make)+len(p.steps.inPlace) == 0 {
		return false, nil
	}
	return isGone(ctx, p.Live, p.sg)
}

// withinLimit reports whether all groups of the graph together request at most MaxPods pods.
func (p *pass) withinLimit(ctx context.Context) (bool, error) {
	if p.MaxPods == 0 || metav1.GetControllerOfNoCopy(p.sg) == nil {
		return true, nil
	}
	groups, err := groupsOf(ctx, p.Client, p.sg)
	if err != nil {
		return false, err
	}
	left := p.MaxPods
	for _, one := range groups {
		left -= int64(one.Spec.Replicas) * int64(render.PodsPerReplica(one))
		if left < 0 {
			return false, nil
		}
	}
	return true, nil
}

// isGone reports, according to the API server, whether the group, or the deployment that owns it, was deleted or is being deleted.
func isGone(ctx context.Context, live client.Reader, sg *trellisv1alpha1.ScalingGroup) (bool, error) {
	gone, err := goneLive(ctx, live, trellisv1alpha1.GroupVersion.WithKind("ScalingGroup"), client.ObjectKeyFromObject(sg), sg.UID)
	owner := metav1.GetControllerOf(sg)
	if gone || err != nil || owner == nil {
		return gone, err
	}
	return goneLive(ctx, live, schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind), client.ObjectKey{Namespace: sg.Namespace,
		Name: owner.Name}, owner.UID)
}

func goneLive(ctx context.Context, live client.Reader, kind schema.GroupVersionKind, key client.ObjectKey, uid types.UID) (bool, error) {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(kind)
	err := live.Get(ctx, key, object)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading %s %s before pods are created: %w", kind.Kind, key.Name, err)
	}
	return object.UID != uid || object.DeletionTimestamp != nil, nil
}
