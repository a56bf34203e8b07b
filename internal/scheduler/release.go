// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/render"
)

// maxWrites is the maximum number of patches that are under way at once.
const maxWrites = 32

// gangsOf groups the releases of existing pods by gang.
func gangsOf(o gang.Observation, releases []gang.Release, placer provider.Placer) []*gangRelease {
	var out []*gangRelease
	byName := map[string]*gangRelease{}
	for _, r := range releases {
		if gang.Planned(r.Pod) {
			continue
		}
		g := byName[r.Pin.Gang]
		if g == nil {
			g = &gangRelease{placer: placer, gang: gang.Members{Name: r.Pin.Gang, Graph: o.DGD, Groups: o.Groups}}
			byName[r.Pin.Gang] = g
			out = append(out, g)
		}
		g.gang.Base = g.gang.Base || r.Base
		g.pods = append(g.pods, r)
		g.addPod(o, r.Pod)
	}
	return out
}

// without returns the releases of the gang except for the release of one pod.
func (g *gangRelease) without(pod *corev1.Pod) []gang.Release {
	return slices.DeleteFunc(slices.Clone(g.pods), func(r gang.Release) bool { return r.Pod.UID == pod.UID })
}

func (g *gangRelease) addPod(o gang.Observation, pod *corev1.Pod) {
	ordinal, _, _ := render.ReplicaOf(pod)
	for i := range g.gang.Replicas {
		replica := &g.gang.Replicas[i]
		if replica.Ordinal == ordinal && replica.Group.Name == pod.Labels[render.LabelScalingGroup] {
			replica.Pods = append(replica.Pods, pod)
			return
		}
	}
	for _, sg := range o.Groups {
		if sg.Name == pod.Labels[render.LabelScalingGroup] {
			g.gang.Replicas = append(g.gang.Replicas, gang.Member{Group: sg, Ordinal: ordinal, Pods: []*corev1.Pod{pod}})
			return
		}
	}
}

// writers release gangs, outside the planning goroutine.
type writers struct {
	// slots has one element for each patch under way.
	slots  chan struct{}
	ledger *ledger
	queue  *queue
	clock  clock.Clock
	// placements are the GraphPlacements.
	placements *graphPlacements
	// suspect triggers a check of whether providers still work.
	suspect func()
	// clear, if any, deletes placeholders; see [Options.Clear].
	clear func(ctx context.Context, graph types.UID, hosts []string)
	// asks get their answers once their places are recorded.
	asks *Asks
}

func newWriters(l *ledger, q *queue, p *graphPlacements, o Options, suspect func()) *writers {
	return &writers{
		slots: make(chan struct{}, maxWrites), ledger: l, queue: q, placements: p, clock: o.Clock, suspect: suspect,
		clear: o.Clear, asks: o.Asks,
	}
}

// finish waits for the writes under way, so that no write outlives the loop.
func (w *writers) finish() {
	for range maxWrites {
		w.slots <- struct{}{}
	}
}

// release forms the gangs of a plan and releases their pods, in the order of [inOrder]. It returns once all steps without a preceding step
// have a slot.
func (w *writers) release(ctx context.Context, gangs []*gangRelease) {
	if len(gangs) == 0 {
		return
	}
	for _, g := range gangs {
		g.begun = w.ledger.gangContinues(g.pods)
		g.left.Store(int32(len(g.pods)))
	}
	steps := inOrder(gangs)
	w.ledger.decides(client.ObjectKeyFromObject(gangs[0].gang.Graph), deciders(steps))
	for _, s := range steps {
		if !w.slot(ctx) { // the loop has ended
			return
		}
		go w.run(ctx, s)
	}
}

// slot waits for a slot and takes it; it returns false when the loop has ended.
func (w *writers) slot(ctx context.Context) bool {
	select {
	case w.slots <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// run releases the pod of a step. It frees the slot that the caller has taken, and then starts the next steps.
func (w *writers) run(ctx context.Context, s *releaseStep) {
	g, graph := s.gang, client.ObjectKeyFromObject(s.gang.gang.Graph)
	err := w.releasePod(ctx, s)
	<-w.slots
	if err != nil {
		w.abandon(s, err)
		if errors.Is(err, provider.ErrStale) {
			w.evictStale(ctx, g)
		}
		w.tryAgain(g, err)
		w.queue.wakeUp(w.ledger.decided(graph, deciders([]*releaseStep{s})))
		return
	}
	if s.first {
		g.begun = true
		w.ledger.gangBegun(g.without(s.release.Pod))
	}
	if s.decides {
		w.queue.wakeUp(w.ledger.decided(graph, 1))
	}
	if g.left.Add(-1) == 0 {
		w.queue.wakeUp(w.ledger.gangReleased(graph))
	}
	for _, next := range s.next {
		if !w.slot(ctx) { // the loop has ended
			return
		}
		go w.run(ctx, next)
	}
}

// errNotFollowed is the error for a pod that is not released because the pod before it in the release order is gone.
var errNotFollowed = errors.New("the pod that it was to follow is gone")

// abandon ends the release of a step's pod, and the releases of the pods in all steps that follow this step.
func (w *writers) abandon(s *releaseStep, err error) {
	w.ledger.notReleased(s.release, s.gang.begun, err)
	if errors.Is(err, provider.ErrPodGone) {
		err = errNotFollowed
	}
	for _, next := range s.next {
		w.abandon(next, err)
	}
}

// releasePod releases the pod of a step. Before the first pod of a gang, it forms the gang.
func (w *writers) releasePod(ctx context.Context, s *releaseStep) error {
	if s.first {
		if err := w.form(ctx, s.gang); err != nil {
			return err
		}
	}
	err := s.gang.placer.Release(ctx, s.release.Pod, s.release.Pin)
	if err != nil && !errors.Is(err, provider.ErrPodGone) && ctx.Err() == nil {
		logger(ctx, s.gang.gang.Graph).Error(err, "releasing a pod", "pod", s.release.Pod.Name, "gang", s.release.Pin.Gang)
	}
	return err // the event of a released pod ends its release
}

// tryAgain queues the graph of a gang for evaluation after a failed release. The pods released so far anchor the gang's other pods. Call
// tryAgain only after the capacity of the unreleased pods is given back, because pods that are being released also anchor their graph.
func (w *writers) tryAgain(g *gangRelease, err error) {
	name := client.ObjectKeyFromObject(g.gang.Graph)
	if overtaken(err) {
		w.queue.retry(name, w.clock.Now())
	} else {
		w.queue.wakeUp(w.ledger.releaseFailed(name, err))
	}
}

// form deletes the placeholders on the hosts of a gang, and then forms the gang.
func (w *writers) form(ctx context.Context, g *gangRelease) error {
	if w.clear != nil {
		w.clear(ctx, g.gang.Graph.UID, g.hosts)
	}
	err := g.placer.Form(ctx, g.gang)
	if err != nil && ctx.Err() == nil {
		logger(ctx, g.gang.Graph).Error(err, "forming a gang", "gang", g.gang.Name)
		w.suspect()
	}
	return err
}

// evictStale deletes the pods of a gang that the provider cannot form because of stale objects. New pods are created instead. The old pods
// can no longer be part of the gang.
func (w *writers) evictStale(ctx context.Context, g *gangRelease) {
	gangEvictions.WithLabelValues(ReasonStaleObjects).Inc()
	for _, r := range g.pods {
		if err := g.placer.Evict(ctx, r.Pod); err != nil {
			logger(ctx, g.gang.Graph).Error(err, "evicting a pod", "pod", r.Pod.Name)
		}
	}
}

// answer deletes the placeholders on the hosts of planned pods, and then answers the groups that asked for the places of these pods.
func (w *writers) answer(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, d *decision) {
	attempts, created := map[*corev1.Pod]int32{}, []gang.Release{}
	for _, r := range d.releases {
		if gang.Planned(r.Pod) {
			attempts[r.Pod] = r.Pin.Attempt
			created = append(created, r)
		}
	}
	answer := func() {
		if w.asks.answer(d.graph, attempts, d.gated); len(created) > 0 {
			w.queue.wakeUp(w.ledger.gangReleased(d.graph))
		}
	}
	if w.clear == nil || len(created) == 0 {
		answer()
		return
	}
	hosts := w.ledger.hostsOf(created)
	if !w.slot(ctx) {
		return
	}
	go func() {
		defer func() { <-w.slots }()
		w.clear(ctx, dgd.UID, hosts)
		answer()
	}()
}
