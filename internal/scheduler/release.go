// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/render"
)

// maxWrites is how many patches are under way at once.
const maxWrites = 32

// gangsOf sorts releases by gang.
func gangsOf(o gang.Observation, releases []gang.Release, placer provider.Placer) []*gangRelease {
	var out []*gangRelease
	byName := map[string]*gangRelease{}
	for _, r := range releases {
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
	// slots are taken by the patches under way.
	slots  chan struct{}
	ledger *ledger
	queue  *queue
	clock  clock.Clock
	// suspect triggers a check of whether providers still work.
	suspect func()
}

func newWriters(l *ledger, q *queue, c clock.Clock, suspect func()) *writers {
	return &writers{slots: make(chan struct{}, maxWrites), ledger: l, queue: q, clock: c, suspect: suspect}
}

// finish waits for the writes under way, so that no write outlives the loop.
func (w *writers) finish() {
	for range maxWrites {
		w.slots <- struct{}{}
	}
}

// release forms a gang and then releases its pods. It returns when the gang has its turn.
//
// The oldest pod goes first and alone: the leader that removes its gate decides where the gang goes. A leader that was replaced and
// continues, with a plan of its own, finds it open and leaves the rest to the other. It is the oldest pod, since a released pod that
// one of them still considers gated is older than those recreated alongside it. Among pods of the same second the name decides, since both
// leaders have to begin with the same pod.
func (w *writers) release(ctx context.Context, g *gangRelease) {
	slices.SortFunc(g.pods, func(a, b gang.Release) int {
		return cmp.Or(a.Pod.CreationTimestamp.Compare(b.Pod.CreationTimestamp.Time), cmp.Compare(a.Pod.Name, b.Pod.Name))
	})
	g.begun = w.ledger.gangContinues(g.pods)
	w.slots <- struct{}{}
	go func() {
		if g.clear != nil {
			g.clear(ctx, g.gang.Graph.UID, g.hosts)
		}
		err := g.placer.Form(ctx, g.gang)
		if err != nil {
			<-w.slots
			w.formFailed(ctx, g, err)
			return
		}
		err = w.releasePod(ctx, g, g.pods[0])
		<-w.slots
		if err != nil {
			for _, r := range g.pods[1:] {
				w.ledger.notReleased(r.Pod, g.begun, err)
			}
			return
		}
		g.begun = true
		w.ledger.gangBegun(g.pods[1:])
		w.releaseRest(ctx, g)
	}()
}

func (w *writers) releaseRest(ctx context.Context, g *gangRelease) {
	var rest sync.WaitGroup
	failed := atomic.Bool{}
	for _, r := range g.pods[1:] {
		select {
		case w.slots <- struct{}{}:
		case <-ctx.Done():
			return // the loop has ended
		}
		rest.Go(func() {
			defer func() { <-w.slots }()
			if w.releasePod(ctx, g, r) != nil {
				failed.Store(true)
			}
		})
	}
	if rest.Wait(); !failed.Load() {
		w.queue.wakeUp(w.ledger.gangReleased(client.ObjectKeyFromObject(g.gang.Graph)))
	}
}

// releasePod releases one pod. When it fails the graph is evaluated again: what was released of the gang by then anchors the rest.
func (w *writers) releasePod(ctx context.Context, g *gangRelease, r gang.Release) error {
	err := g.placer.Release(ctx, r.Pod, r.Pin)
	if err == nil {
		return nil // the pod's own event ends the release
	}
	if !errors.Is(err, provider.ErrPodGone) && ctx.Err() == nil {
		logger(ctx, g.gang.Graph).Error(err, "releasing a pod", "pod", r.Pod.Name, "gang", r.Pin.Gang)
	}
	w.ledger.notReleased(r.Pod, g.begun, err)
	w.tryAgain(g, err)
	return err
}

// tryAgain has a gang evaluated again after its release failed.
func (w *writers) tryAgain(g *gangRelease, err error) {
	name := client.ObjectKeyFromObject(g.gang.Graph)
	if overtaken(err) {
		w.queue.retry(name, w.clock.Now())
	} else {
		w.queue.wakeUp(w.ledger.releaseFailed(name, err))
	}
}

// formFailed gives the capacity of a gang that has not begun back and has the graph evaluated again. Pods that cannot be of the gang any
// more (stale objects block it) are deleted, to be recreated.
func (w *writers) formFailed(ctx context.Context, g *gangRelease, err error) {
	stale := errors.Is(err, provider.ErrStale)
	if ctx.Err() == nil {
		logger(ctx, g.gang.Graph).Error(err, "forming a gang", "gang", g.gang.Name)
		w.suspect()
	}
	if stale {
		gangEvictions.WithLabelValues(ReasonStaleObjects).Inc()
	}
	for _, r := range g.pods {
		w.ledger.notReleased(r.Pod, g.begun, err)
		if !stale {
			continue
		}
		if err := g.placer.Evict(ctx, r.Pod); err != nil {
			logger(ctx, g.gang.Graph).Error(err, "evicting a pod", "pod", r.Pod.Name)
		}
	}
	w.tryAgain(g, err)
}

// offer publishes the places of gangs that are to be created in place, after the placeholders on their hosts are deleted.
func (w *writers) offer(
	ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, creations *Creations, placed []plannedCreation,
	clear func(context.Context, types.UID, []string),
) {
	graph := client.ObjectKeyFromObject(dgd)
	byGang := map[string][]gang.Release{}
	for _, one := range placed {
		byGang[one.gang] = append(byGang[one.gang], one.releases...)
	}
	for name, releases := range byGang {
		if clear == nil {
			creations.offer(graph, name)
			continue
		}
		hosts := w.ledger.hostsOf(releases)
		w.slots <- struct{}{}
		go func() {
			defer func() { <-w.slots }()
			clear(ctx, dgd.UID, hosts)
			creations.offer(graph, name)
		}()
	}
}
