// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// patience is the maximum time of one measurement.
const patience = 10 * time.Minute

// namespace of all pods.
const namespace = metav1.NamespaceDefault

// pods are the namespace's pods, kept up to date by a watch.
type pods struct {
	events watch.Interface
	byName map[string]*corev1.Pod
}

// boundOnly selects the pods that have a node. Watching the others, too, would take API server time from the measured ways.
var boundOnly = client.MatchingFieldsSelector{Selector: fields.OneTermNotEqualSelector("spec.nodeName", "")}

// follow opens the watch of all pods, or of the selected ones.
func (c *Cluster) follow(ctx context.Context, which ...client.ListOption) (*pods, error) {
	list := &corev1.PodList{}
	if err := c.c.List(ctx, list, append(which, client.InNamespace(namespace))...); err != nil {
		return nil, err
	}
	p := &pods{byName: map[string]*corev1.Pod{}}
	for i := range list.Items {
		p.byName[list.Items[i].Name] = &list.Items[i]
	}
	events, err := watchtools.NewRetryWatcherWithContext(ctx, list.ResourceVersion, podWatcher{c.c, which})
	p.events = events
	return p, err
}

// podWatcher opens watches for a RetryWatcher, because the API server closes watches that are not read for a while.
type podWatcher struct {
	c     client.WithWatch
	which []client.ListOption
}

// WatchWithContext implements [cache.WatcherWithContext].
func (w podWatcher) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return w.c.Watch(ctx, &corev1.PodList{}, append(slices.Clone(w.which), client.InNamespace(namespace),
		&client.ListOptions{Raw: &options})...)
}

// until reads the watch until holds returns true.
func (p *pods) until(ctx context.Context, what string, holds func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for !holds() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting until %s (%d pods, %d bound): %w", what, len(p.byName), p.bound(), context.Cause(ctx))
		case event, open := <-p.events.ResultChan():
			if err := p.take(event, open); err != nil {
				return err
			}
		}
	}
	return nil
}

// take processes an event of the watch.
func (p *pods) take(event watch.Event, open bool) error {
	if !open {
		return errors.New("the watch of pods has ended")
	}
	pod, ok := event.Object.(*corev1.Pod)
	switch {
	case !ok:
		return fmt.Errorf("watching pods: %v", event.Object)
	case event.Type == watch.Deleted:
		delete(p.byName, pod.Name)
	default:
		p.byName[pod.Name] = pod
	}
	return nil
}

// untilNone waits until there is no object of a kind: a PodGroup exists after its deletion until its pods are gone.
func (c *Cluster) untilNone(ctx context.Context, list client.ObjectList, which ...client.ListOption) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		if err := c.c.List(ctx, list, append(which, client.InNamespace(namespace))...); err != nil || meta.LenList(list) == 0 {
			return err
		}
		events, err := c.c.Watch(ctx, list, append(which, client.InNamespace(namespace), &client.ListOptions{
			Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()},
		})...)
		if err != nil {
			return err
		}
		for left := meta.LenList(list); left > 0; {
			event, open := <-events.ResultChan()
			if !open {
				break // list again
			}
			if event.Type == watch.Deleted {
				left--
			}
		}
		events.Stop()
	}
}

// bound counts pods that have a node.
func (p *pods) bound() int {
	n := 0
	for _, pod := range p.byName {
		if pod.Spec.NodeName != "" {
			n++
		}
	}
	return n
}
