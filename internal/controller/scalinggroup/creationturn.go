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

	"github.com/trellis-k8s/trellis/internal/controller/creationturns"
	"github.com/trellis-k8s/trellis/internal/render"
)

// This file has gangs created in turn where a create may be refused for what exists already: package creationturns has the rules.

// turnAgain is when a group is requeued that has the turn, and pods that others create for it: their events may be lost.
const turnAgain = 10 * time.Second

// notWhole is why pods are given back.
const notWhole = "its gang is not complete, and it is not its turn: pods of it would use quota that only a complete gang can use"

// inTurn reports whether gangs of a namespace are created in turn, and by which quotas.
func (r *Reconciler) inTurn(ctx context.Context, namespace string) (quotas []corev1.ResourceQuota, in bool, err error) {
	quotas, err = quotasOfPods(ctx, r.Client, namespace)
	return quotas, len(quotas) > 0 || r.turns.Refused(namespace), err
}

// takeTurn leaves in the steps what the group may create now, gang by gang, and adds the pods that it gives back.
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
	part, rest := v.part(), p.refusals.wait(p.sg)
	part.Resting = rest.again > 0
	if part.Priority, err = p.stored.priorityOf(ctx, p.Live, v.charges); err != nil {
		return allowance{}, err
	}
	decisions := p.turns.Sync(part, quotas)
	if p.steps.createsOf(v.keyOf, decisions) && len(quotas) > 0 { // the API server goes by what is used now
		if quotas, err = quotasOfPods(ctx, p.Live, p.sg.Namespace); err != nil {
			return allowance{}, err
		}
		decisions = p.turns.Sync(part, quotas)
	}
	p.lacks.note(name, v.lacksQuota(decisions), p.refusals.clock())
	p.steps.inTurn, p.steps.keyOf = true, v.keyOf
	if part.Resting && len(part.Wants) > 0 {
		p.steps.giveBack(p.observed, v.keyOf, decisions)
		return rest, nil
	}
	return p.follow(ctx, v, decisions)
}

// follow keeps of the steps what the decisions allow.
func (p *pass) follow(ctx context.Context, v *view, decisions map[creationturns.Key]creationturns.Decision) (allowance, error) {
	s := &p.steps
	may := func(ordinal int32) bool { return decisions[v.keyOf(ordinal)].Create }
	s.create = slices.DeleteFunc(s.create, func(pod *corev1.Pod) bool { ordinal, _, _ := render.ReplicaOf(pod); return !may(ordinal) })
	s.make = slices.DeleteFunc(s.make, func(ordinal int32) bool { return !may(ordinal) })
	if begun, is := v.begunSet(decisions); is { // LeaderWorkerSet creates the pods of one gang before the next set is made
		s.make = slices.DeleteFunc(s.make, func(ordinal int32) bool { return v.keyOf(ordinal) != begun })
	}
	allowed := allowance{}
	for _, want := range v.wants {
		switch d := decisions[want.Key]; {
		case d.Overdue:
			p.refusals.note(p.sg, errNotCompleted)
			allowed = allowance{again: firstDelay, refused: errNotCompleted}
		case d.Lack != nil && want.Ready && allowed.refused == nil: // a successor lacks quota as long as its predecessor is leaving
			allowed = allowance{again: maxDelay, refused: wrapped(d.Lack, "creating %s", want.Name)}
		case d.Create && allowed.again == 0:
			allowed.again = turnAgain
		case allowed.again == 0:
			allowed.again = maxDelay
		}
	}
	s.giveBack(p.observed, v.keyOf, decisions)
	return allowed, p.leaveOutExisting(ctx)
}

// errNotCompleted is why a gang gives its pods back that had its turn.
var errNotCompleted = errors.New("not all pods of the gang could be created in its turn; its pods are deleted, and it tries again")

// leaveOutExisting leaves out pods that the API server has: those of the group that the cache does not show, and those of others. A quota
// counts a create that is refused because the pod exists, until the quota controller counts again, which takes minutes
// (kubernetes/kubernetes#61530).
func (p *pass) leaveOutExisting(ctx context.Context) error {
	sg, s := p.sg, &p.steps
	if len(s.create) == 0 {
		return nil
	}
	pods := &metav1.PartialObjectMetadataList{}
	pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	of := client.MatchingLabels(render.Selector(sg.Spec.Graph, sg.Name))
	if err := p.Live.List(ctx, pods, client.InNamespace(sg.Namespace), of); err != nil {
		return fmt.Errorf("reading the pods of the group past the cache: %w", err)
	}
	exists := map[string]bool{}
	for i := range pods.Items {
		exists[pods.Items[i].Name] = true
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

// gangToCreate is a gang of which pods are to be created.
type gangToCreate struct {
	key  creationturns.Key
	pods []*corev1.Pod
}

// gangs are the pods to create, gang by gang.
func (s *steps) gangs() (out []gangToCreate) {
	at := map[creationturns.Key]int{}
	for _, pod := range s.create {
		ordinal, _, _ := render.ReplicaOf(pod)
		key := s.keyOf(ordinal)
		if _, known := at[key]; !known {
			at[key] = len(out)
			out = append(out, gangToCreate{key: key})
		}
		out[at[key]].pods = append(out[at[key]].pods, pod)
	}
	return out
}

// makeInTurn creates gang after gang, and those of a single pod several at a time. When a create fails, its gang gives its pods back, and
// no further one is begun.
func (p *pass) makeInTurn(ctx context.Context) error {
	sg, s := p.sg, &p.steps
	created := map[creationturns.Key]bool{}
	err := s.taken
	if err == nil {
		err = p.makeSets(ctx, sg, s.make)
	}
	for gangs, round := s.gangs(), p.firstRound(sg); err == nil && len(gangs) > 0; {
		now := alone(gangs, round)
		var pods []*corev1.Pod
		for _, one := range gangs[:now] {
			pods = append(pods, one.pods...)
		}
		if round, err = p.createAll(ctx, sg, pods, round); err != nil {
			err = errors.Join(err, p.giveBackCreated(ctx, gangs[:now]))
			break
		}
		for _, one := range gangs[:now] {
			created[one.key] = true
		}
		gangs = gangs[now:]
	}
	p.noteTurn(ctx, created, err)
	return err
}

// alone is how many gangs are created together: one, or as many of a single pod as a round has.
func alone(gangs []gangToCreate, round int) int {
	n := 0
	for n < min(len(gangs), round) && len(gangs[n].pods) == 1 && gangs[n].key.Ordinal != creationturns.First {
		n++
	}
	return max(n, 1)
}

// giveBackCreated deletes what was created of a gang just now. What existed of it before is deleted in the next reconcile.
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

// noteTurn notes what a group has created, and whether a create of it was refused.
func (p *pass) noteTurn(ctx context.Context, created map[creationturns.Key]bool, err error) {
	quotas, unread := quotasOfPods(ctx, p.Client, p.sg.Namespace)
	if unread != nil {
		log.FromContext(ctx).Error(unread, "listing the quotas that the gangs of a namespace take turns by", "namespace", p.sg.Namespace)
	}
	p.turns.Created(client.ObjectKeyFromObject(p.sg), created, err != nil, quotas)
}

// refused reports whether the API server refused a create for a reason that may depend on what exists already.
func refused(err error) bool {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError && code != http.StatusNotFound &&
		code != http.StatusConflict && code != http.StatusTooManyRequests
}

// createsOf reports whether the steps create something that decisions allow.
func (s *steps) createsOf(keyOf func(int32) creationturns.Key, decisions map[creationturns.Key]creationturns.Decision) bool {
	return slices.ContainsFunc(s.make, func(ordinal int32) bool { return decisions[keyOf(ordinal)].Create }) ||
		slices.ContainsFunc(s.create, func(pod *corev1.Pod) bool {
			ordinal, _, _ := render.ReplicaOf(pod)
			return decisions[keyOf(ordinal)].Create
		})
}
