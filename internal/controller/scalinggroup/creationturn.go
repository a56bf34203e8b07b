// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/trellis-k8s/trellis/internal/bools"
	"github.com/trellis-k8s/trellis/internal/controller/creationturns"
	"github.com/trellis-k8s/trellis/internal/listing"
	"github.com/trellis-k8s/trellis/internal/render"
)

// This file creates the gangs of a namespace one after another, in turn, if existing pods may cause the API server to refuse a create.
// Package creationturns decides which gang has the turn.

// turnAgain is the requeue delay of a group that has the turn. The requeue is needed because pod events can be lost, and because another
// controller may create the group's pods.
const turnAgain = 10 * time.Second

// notWhole is the reason for deleting the pods of an incomplete gang.
const notWhole = "its gang is not complete, and it is not its turn: pods of it would use quota that only a complete gang can use"

// inTurn reports whether the gangs of a namespace are created in turn, and returns the ResourceQuotas of the namespace that count pods.
func (r *Reconciler) inTurn(ctx context.Context, namespace string) (quotas []corev1.ResourceQuota, in bool, err error) {
	quotas, err = quotasOfPods(ctx, r.Client, namespace)
	return quotas, len(quotas) > 0 || r.turns.Refused(namespace), err
}

// takeTurn removes from the steps the creates of gangs that may not be created now. It adds the deletion of the pods that incomplete gangs
// have to give back.
func (p *pass) takeTurn(ctx context.Context) (allowance, error) {
	name := client.ObjectKeyFromObject(p.sg)
	quotas, in, err := p.inTurn(ctx, p.sg.Namespace)
	if err != nil || !in {
		p.turns.Forget(name)
		p.lacks.note(name, false, p.refusals.clock())
		return allowance{}, err
	}
	v, err := p.view(ctx)
	if err != nil {
		return allowance{}, err
	}
	part := v.part()
	rests, until := p.refusals.rests(p.sg)
	part.Rests = rests
	if part.Priority, err = p.stored.priorityOf(ctx, p.Live, v.charges); err != nil {
		return allowance{}, err
	}
	decisions := p.turns.Sync(part, quotas)
	if p.steps.createsOf(v.keyOf, decisions) && len(quotas) > 0 { // the API server decides by the current usage
		if quotas, err = quotasOfPods(ctx, p.Live, p.sg.Namespace); err != nil {
			return allowance{}, err
		}
		decisions = p.turns.Sync(part, quotas)
	}
	p.lacks.note(name, v.lacksQuota(decisions), p.refusals.clock())
	p.steps.inTurn, p.steps.keyOf, p.steps.decisions = true, v.keyOf, decisions
	return p.follow(ctx, v, until)
}

// follow applies the decisions about the gangs to the steps. It removes the creates that the decisions do not allow, and adds the deletion
// of the pods that incomplete gangs have to give back. allowed is the group's wait after refused creates.
func (p *pass) follow(ctx context.Context, v *view, allowed allowance) (allowance, error) {
	s, decisions := &p.steps, p.steps.decisions
	may := func(ordinal int32) bool { return decisions[v.keyOf(ordinal)].Create }
	s.create = slices.DeleteFunc(s.create, func(pod *corev1.Pod) bool { ordinal, _, _ := render.ReplicaOf(pod); return !may(ordinal) })
	s.make = slices.DeleteFunc(s.make, func(ordinal int32) bool { return !may(ordinal) })
	if begun, is := v.begunSet(decisions); is { // LeaderWorkerSet creates the pods of one gang before the next set is created
		s.make = slices.DeleteFunc(s.make, func(ordinal int32) bool { return v.keyOf(ordinal) != begun })
	}
	for _, want := range v.wants {
		switch d := decisions[want.Key]; {
		case d.Overdue:
			p.refusals.note(p.sg, creationturns.All, errNotCompleted)
			allowed = allowance{again: firstDelay, refused: errNotCompleted}
		case d.Lack != nil && want.Ready && allowed.refused == nil: // a successor is not Ready, and lacks quota, until its predecessor is gone
			allowed = allowance{again: earliest(allowed.again, maxDelay), refused: wrapped(d.Lack, "creating %s", want.Name)}
		case d.Create:
			allowed.again = earliest(allowed.again, turnAgain)
		default:
			allowed.again = earliest(allowed.again, maxDelay)
		}
	}
	s.giveBack(p.observed, v.keyOf, decisions)
	return allowed, p.leaveOutExisting(ctx)
}

// errNotCompleted means that a gang was not completed in its turn. Its pods are deleted.
var errNotCompleted = errors.New("not all pods of the gang could be created in its turn; its pods are deleted, and it tries again")

// leaveOutExisting removes the creates of pods whose names are taken, by pods of the group that the cache does not show or by pods of other
// owners. A create that the API server refuses because the pod exists still counts against a quota until the quota controller recalculates
// the usage, which takes minutes (kubernetes/kubernetes#61530).
func (p *pass) leaveOutExisting(ctx context.Context) error {
	sg, s := p.sg, &p.steps
	if len(s.create) == 0 {
		return nil
	}
	exists, empty := map[string]bool{}, &metav1.PartialObjectMetadataList{}
	empty.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	items := func(l *metav1.PartialObjectMetadataList) []metav1.PartialObjectMetadata { return l.Items }
	err := listing.Each(ctx, p.Live, empty, items, func(pod *metav1.PartialObjectMetadata) error {
		exists[pod.Name] = true
		return nil
	}, client.InNamespace(sg.Namespace), client.MatchingLabels(render.Selector(sg.Spec.Graph, sg.Name)))
	if err != nil {
		return fmt.Errorf("reading the pods of the group past the cache: %w", err)
	}
	var taken []*corev1.Pod
	s.create = slices.DeleteFunc(s.create, func(pod *corev1.Pod) bool {
		others := p.Client.Get(ctx, client.ObjectKeyFromObject(pod), &corev1.Pod{}) == nil
		if exists[pod.Name] || others {
			taken = append(taken, pod)
		}
		return exists[pod.Name] || others
	})
	s.unseen = s.unseen || len(taken) > 0
	failures := []error{}
	for _, pod := range taken {
		failures = append(failures, p.takenName(ctx, sg, pod))
	}
	s.taken = errors.Join(failures...)
	return nil
}

// gangToCreate has the pods to create for one gang. succeeds reports whether the gang is the successor of replicas that served.
type gangToCreate struct {
	key      creationturns.Key
	succeeds bool
	pods     []*corev1.Pod
}

// likeSets reports whether the sets to create belong to successors, to other gangs, or to both.
func (s *steps) likeSets() (out creationturns.Rests) {
	for _, ordinal := range s.make {
		out = out.Of(s.decisions[s.keyOf(ordinal)])
	}
	return out
}

// gangs returns the pods to create, gang by gang, successors first.
func (s *steps) gangs() (out []gangToCreate) {
	at := map[creationturns.Key]int{}
	for _, pod := range s.create {
		ordinal, _, _ := render.ReplicaOf(pod)
		key := s.keyOf(ordinal)
		if _, known := at[key]; !known {
			at[key] = len(out)
			out = append(out, gangToCreate{key: key, succeeds: s.decisions[key].Succeeds})
		}
		out[at[key]].pods = append(out[at[key]].pods, pod)
	}
	slices.SortStableFunc(out, func(a, b gangToCreate) int { return bools.Compare(b.succeeds, a.succeeds) })
	return out
}

// makeInTurn creates the gangs one after another, except that several gangs of a single pod are created at once. If a create fails, the new
// pods of the incomplete gang are deleted, and makeInTurn begins no further gang.
func (p *pass) makeInTurn(ctx context.Context) error {
	sg, s := p.sg, &p.steps
	created := map[creationturns.Key]bool{}
	tried, err := creationturns.All, s.taken
	if err == nil {
		tried, err = s.likeSets(), p.makeSets(ctx, sg, s.make)
	}
	for gangs, round := s.gangs(), p.firstRound(sg); err == nil && len(gangs) > 0; {
		now := alone(gangs, round)
		var pods []*corev1.Pod
		for _, one := range gangs[:now] {
			pods = append(pods, one.pods...)
		}
		tried = creationturns.Rests{Successors: gangs[0].succeeds, Others: !gangs[0].succeeds}
		if round, err = p.createAll(ctx, sg, pods, round); err != nil {
			err = errors.Join(err, p.giveBackCreated(ctx, gangs[:now]))
			break
		}
		for _, one := range gangs[:now] {
			created[one.key] = true
		}
		p.refusals.note(sg, tried, nil)
		if gangs = gangs[now:]; len(gangs) > 0 && !gangs[0].succeeds && p.turns.Yields(client.ObjectKeyFromObject(sg)) {
			break
		}
	}
	if err == nil {
		p.noteTurn(ctx, created, creationturns.Rests{})
		return nil
	}
	p.refusals.note(sg, tried, err)
	p.noteTurn(ctx, created, tried)
	return err
}

// alone returns the number of gangs to create together: one gang, or several gangs that have a single pod each. round is the maximum number
// of pods that are created at once.
func alone(gangs []gangToCreate, round int) int {
	n := 0
	for n < min(len(gangs), round) && len(gangs[n].pods) == 1 && gangs[n].key.Ordinal != creationturns.First &&
		gangs[n].succeeds == gangs[0].succeeds {
		n++
	}
	return max(n, 1)
}

// giveBackCreated deletes the pods that this reconcile created for incomplete gangs. The next reconcile deletes the older pods of these
// gangs.
func (r *Reconciler) giveBackCreated(ctx context.Context, gangs []gangToCreate) error {
	failures := []error{}
	for _, one := range gangs {
		for _, pod := range one.pods {
			if pod.UID != "" && (len(one.pods) > 1 || one.key.Ordinal == creationturns.First) {
				failures = append(failures, r.deletePod(ctx, deletion{pod: pod, why: notWhole}))
			}
		}
	}
	return errors.Join(failures...)
}

// noteTurn records the gangs that the group has created, and whether a create was refused for successors or for other gangs.
func (p *pass) noteTurn(ctx context.Context, created map[creationturns.Key]bool, refused creationturns.Rests) {
	quotas, unread := quotasOfPods(ctx, p.Client, p.sg.Namespace)
	if unread != nil {
		log.FromContext(ctx).Error(unread, "listing the quotas that the gangs of a namespace take turns by", "namespace", p.sg.Namespace)
	}
	p.turns.Created(client.ObjectKeyFromObject(p.sg), created, refused, quotas)
}

// refused reports whether the API server refused a create for a reason that may depend on existing pods.
func refused(err error) bool {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError && code != http.StatusNotFound &&
		code != http.StatusConflict && code != http.StatusTooManyRequests
}

// createsOf reports whether the steps have creates that the decisions allow.
func (s *steps) createsOf(keyOf func(int32) creationturns.Key, decisions map[creationturns.Key]creationturns.Decision) bool {
	return slices.ContainsFunc(s.make, func(ordinal int32) bool { return decisions[keyOf(ordinal)].Create }) ||
		slices.ContainsFunc(s.create, func(pod *corev1.Pod) bool {
			ordinal, _, _ := render.ReplicaOf(pod)
			return decisions[keyOf(ordinal)].Create
		})
}
