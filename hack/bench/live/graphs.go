// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/hack/bench/hall"
	"github.com/trellis-k8s/trellis/internal/render"
)

// Graphs are identical graphs: a worker with one replica, a gang in one rack, and frontends without GPUs, all in one zone.
type Graphs struct {
	Count, Workers, Frontends int
	// GPUs of one worker pod.
	GPUs int
}

// Pods returns the number of pods of all graphs.
func (g Graphs) Pods() int { return g.Count * (g.Workers + g.Frontends) }

const frontendService = "frontend"

func (g Graphs) objects() []client.Object {
	batches := deployments(g.Count, multinode(1, g.Workers, hall.Rack))
	for _, o := range batches[0] {
		dgd := o.(*nvidiav1beta1.DynamoGraphDeployment)
		dgd.Spec.TopologyConstraint.PackDomain = hall.Zone.Name()
		dgd.Spec.Components[0].PodTemplate = template(g.GPUs)
		dgd.Spec.Components = append(dgd.Spec.Components, nvidiav1beta1.ComponentSpec{
			Name: frontendService, Type: nvidiav1beta1.ComponentTypeFrontend, Replicas: ptr.To(int32(g.Frontends)), PodTemplate: template(0),
		})
	}
	return batches[0]
}

// judge checks the hosts of the gangs of all graphs.
func (g Graphs) judge(shape hall.Shape, p *pods) error {
	if len(p.byName) != g.Pods() {
		return fmt.Errorf("there are %d pods, %d were asked for", len(p.byName), g.Pods())
	}
	ask := hall.Ask{Name: "graphs", Whole: hall.Cluster, Each: hall.Rack, Gangs: g.Count, Pods: g.Workers, GPUs: g.GPUs}
	return judgeGangs(shape, p, ask, func(pod *corev1.Pod) string {
		if gpus := pod.Spec.Containers[0].Resources.Limits[hall.GPU]; gpus.IsZero() {
			return ""
		}
		return pod.Labels[render.LabelGraph]
	})
}

// readiness records when the last pod and the last graph became Ready, as seen by one client.
type readiness struct {
	pods   *pods
	graphs watch.Interface
	// readyPods and readyGraphs are those that are Ready now.
	readyPods, readyGraphs map[string]bool
	lastPod, lastGraph     time.Time
}

// followGraphs opens the watches of an empty namespace. It reads graphs in the storage version, which needs no conversion.
func (c *Cluster) followGraphs(ctx context.Context) (*readiness, error) {
	p, err := c.follow(ctx)
	if err != nil {
		return nil, err
	}
	if len(p.byName) > 0 {
		return nil, fmt.Errorf("%d pods are left from before", len(p.byName))
	}
	list := &nvidiav1beta1.DynamoGraphDeploymentList{}
	if err := c.c.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	graphs, err := watchtools.NewRetryWatcherWithContext(ctx, list.ResourceVersion, graphWatcher{c.c})
	return &readiness{pods: p, graphs: graphs, readyPods: map[string]bool{}, readyGraphs: map[string]bool{}}, err
}

// graphWatcher opens watches of graphs for a RetryWatcher.
type graphWatcher struct{ c client.WithWatch }

// WatchWithContext implements [cache.WatcherWithContext].
func (w graphWatcher) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return w.c.Watch(ctx, &nvidiav1beta1.DynamoGraphDeploymentList{}, client.InNamespace(namespace), &client.ListOptions{Raw: &options})
}

func (p *readiness) stop() {
	p.pods.events.Stop()
	p.graphs.Stop()
}

// until reads both watches until the given numbers of pods and graphs are Ready at the same time.
func (p *readiness) until(ctx context.Context, pods, graphs int, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for len(p.readyPods) < pods || len(p.readyGraphs) < graphs {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting until %d pods and %d graphs are Ready (%d and %d are): %w",
				pods, graphs, len(p.readyPods), len(p.readyGraphs), context.Cause(ctx))
		case event, open := <-p.pods.events.ResultChan():
			if err := p.pods.take(event, open); err != nil {
				return err
			}
			pod := event.Object.(*corev1.Pod)
			note(p.readyPods, pod.Name, event.Type != watch.Deleted && render.PodReady(pod), &p.lastPod)
		case event, open := <-p.graphs.ResultChan():
			dgd, ok := event.Object.(*nvidiav1beta1.DynamoGraphDeployment)
			if !open || !ok {
				return errors.New("the watch of graphs has ended")
			}
			ready := event.Type != watch.Deleted && meta.IsStatusConditionTrue(dgd.Status.Conditions, nvidiav1beta1.ConditionReady)
			note(p.readyGraphs, dgd.Name, ready, &p.lastGraph)
		}
	}
	return nil
}

// note records whether an object is Ready, and when the last one became Ready.
func note(are map[string]bool, name string, ready bool, last *time.Time) {
	switch {
	case !ready:
		delete(are, name)
	case !are[name]:
		are[name], *last = true, time.Now()
	}
}
