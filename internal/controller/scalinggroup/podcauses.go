// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/render"
)

// The controller reads the events of bound pods that are not Ready and whose status names no cause. The API server has no index of events
// by pod, so each read scans all events of the namespace. To limit this load, the first read is delayed, the interval between the reads of
// a pod doubles up to eventsEvery, and all pods share a rate limit.
const (
	eventsAfter      = 10 * time.Second
	probeEventsAfter = time.Minute
	eventsEvery      = time.Minute
	eventReads       = rate.Limit(1)
	eventBurst       = 10
	// The events of a pod are read in at most eventPages pages of eventPage events, because a client that may create events may create any
	// number for a pod.
	eventPage  = 32
	eventPages = 16
)

// podCause explains why a pod is not Ready, or why it ended, if the pod's status does not explain it.
type podCause struct {
	text string
	// starts reports whether all containers of the pod run. It is also true if the pod's node is not ready.
	starts bool
}

// podCauses stores the causes that were read from the events of pods. The zero value is ready to use.
type podCauses struct {
	mu      sync.Mutex
	byGroup map[types.NamespacedName]map[types.UID]lastRead
	limiter *rate.Limiter
}

// lastRead is the cause according to a pod's events, and the time of the read.
type lastRead struct {
	at    time.Time
	cause podCause
}

// of returns the last event read of each pod of a group, by pod UID.
func (p *podCauses) of(group types.NamespacedName) map[types.UID]lastRead {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.byGroup[group]
}

// keep replaces the stored event reads of a group's pods.
func (p *podCauses) keep(group types.NamespacedName, reads map[types.UID]lastRead) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(reads) == 0 {
		delete(p.byGroup, group)
		return
	}
	if p.byGroup == nil {
		p.byGroup = map[types.NamespacedName]map[types.UID]lastRead{}
	}
	p.byGroup[group] = reads
}

// allow reports whether the rate limit allows another read.
func (p *podCauses) allow(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.limiter == nil {
		p.limiter = rate.NewLimiter(eventReads, eventBurst)
	}
	return p.limiter.AllowN(now, 1)
}

// lookForCauses finds why bound pods are not Ready if their status does not name the cause. Either the pod's node is not ready, or an event
// of the pod names the cause.
func (p *pass) lookForCauses(ctx context.Context) {
	group, now := client.ObjectKeyFromObject(p.sg), p.refusals.clock()
	known, kept := p.causes.of(group), map[types.UID]lastRead{}
	for _, ordinal := range sortedOrdinals(p.replicas) {
		one := p.replicas[ordinal]
		one.causes = map[types.UID]podCause{}
		p.lookForRemoval(ctx, one, now)
		for _, pod := range one.active() {
			switch {
			case pod.Spec.NodeName == "" || render.PodReady(pod) || whyNotStarting(pod) != "":
				continue
			case !p.nodes().ready(ctx, pod.Spec.NodeName):
				one.causes[pod.UID] = podCause{"its node " + pod.Spec.NodeName + " is not ready", true}
				continue
			}
			last := known[pod.UID]
			left := last.dueIn(pod, now)
			if left <= 0 {
				last, left = p.causes.read(ctx, p.Live, pod, last, now)
			}
			if last.cause.text != "" {
				one.causes[pod.UID] = last.cause
			}
			kept[pod.UID] = last
			p.reads = earliest(p.reads, left)
		}
	}
	p.causes.keep(group, kept)
}

// dueIn returns the time until the events of a pod have to be read; negative if the read is overdue.
func (l lastRead) dueIn(pod *corev1.Pod, now time.Time) time.Duration {
	since := unreadySince(pod)
	if l.at.IsZero() || l.at.Before(since) {
		after := eventsAfter
		if started(pod) {
			after = probeEventsAfter
		}
		return since.Add(after).Sub(now)
	}
	every := min(max(l.at.Sub(since), eventsAfter), eventsEvery)
	return l.at.Add(every).Sub(now)
}

// read reads the events of a pod, unless the rate limit is exceeded, and returns the time until the next read.
func (p *podCauses) read(
	ctx context.Context, live client.Reader, pod *corev1.Pod, last lastRead, now time.Time,
) (lastRead, time.Duration) {
	if !p.allow(now) {
		return last, time.Second
	}
	read := lastRead{at: now}
	event, err := lastEvent(ctx, live, pod, func(events []corev1.Event) *corev1.Event { return lastIn(events, started(pod)) })
	if err == nil {
		read.cause = causeOf(event, started(pod))
	} else { // the reconcile continues with the known cause
		log.FromContext(ctx).Error(err, "reading the events of a pod", "pod", pod.Name)
		read.cause = last.cause
	}
	return read, read.dueIn(pod, now)
}

// lastEvent reads the events of a pod, page by page, and returns the event that pick chooses from all of them; nil for none.
func lastEvent(ctx context.Context, live client.Reader, pod *corev1.Pod,
	pick func([]corev1.Event) *corev1.Event) (last *corev1.Event, err error) {
	of, next := client.MatchingFields{"involvedObject.uid": string(pod.UID)}, ""
	for range eventPages {
		page := &corev1.EventList{}
		err := live.List(ctx, page, client.InNamespace(pod.Namespace), of, client.Limit(eventPage), client.Continue(next))
		if err != nil {
			return nil, err
		}
		if last != nil {
			page.Items = append(page.Items, *last)
		}
		if last = pick(page.Items).DeepCopy(); page.Continue == "" {
			break
		}
		next = page.Continue
	}
	return last, nil
}

// unreadySince returns the time at which the pod was last bound or last stopped being Ready, whichever is later.
func unreadySince(pod *corev1.Pod) time.Time {
	since := pod.CreationTimestamp.Time
	for _, c := range pod.Status.Conditions {
		if (c.Type == corev1.PodReady || c.Type == corev1.PodScheduled) && c.LastTransitionTime.After(since) {
			since = c.LastTransitionTime.Time
		}
	}
	return since
}

// started reports whether all containers of the pod run.
func started(pod *corev1.Pod) bool {
	return len(pod.Status.ContainerStatuses) > 0 && !slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.State.Running == nil
	})
}

// tellers are the components whose events describe the state of a pod on its node.
var tellers = []string{"kubelet", "attachdetach-controller"}

// probeReason is the reason of events about failing probes. The kubelet sends no event about a successful probe.
const probeReason = "Unhealthy"

// lastIn returns the last event about the state of a pod on its node; nil for none. For a pod with running containers it considers only
// failing probes, since nothing else prevents the pod from being Ready.
func lastIn(events []corev1.Event, running bool) (last *corev1.Event) {
	for i := range events {
		e := &events[i]
		probe := e.Reason == probeReason
		switch {
		case !slices.Contains(tellers, teller(e)), probe != running:
		case last == nil, toldAt(e).After(toldAt(last)), toldAt(e).Equal(toldAt(last)) && e.Type == corev1.EventTypeWarning:
			last = e
		}
	}
	return last
}

// causeOf returns the cause according to the last event of a pod. If this event is not a warning, the kubelet has made progress, and there
// is no cause.
func causeOf(last *corev1.Event, running bool) podCause {
	if last == nil || last.Type != corev1.EventTypeWarning {
		return podCause{}
	}
	text := strings.TrimSpace(last.Message)
	if container := containerOf(last); running && container != "" {
		text = "container " + container + ": " + text
	}
	if !running {
		text = last.Reason + ": " + text
	}
	return podCause{limit.Middle(text, maxCause), running}
}

// containerOf returns the container that an event concerns, from a field path such as "spec.containers{main}"; "" for none.
func containerOf(e *corev1.Event) string {
	_, name, found := strings.Cut(e.InvolvedObject.FieldPath, "{")
	if !found {
		return ""
	}
	return strings.TrimSuffix(name, "}")
}

func teller(e *corev1.Event) string {
	if e.ReportingController != "" {
		return e.ReportingController
	}
	return e.Source.Component
}

// toldAt returns the time at which an event last happened.
func toldAt(e *corev1.Event) time.Time {
	switch {
	case e.Series != nil:
		return e.Series.LastObservedTime.Time
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.Time
	}
	return e.EventTime.Time
}
