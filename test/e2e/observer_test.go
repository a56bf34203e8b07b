// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/graph"
)

// observer sees every state that a world's pods are ever in, in order, and notes what must never be: an update below its floor or above
// its ceiling, a gang released in two racks, a foreign pod gone.
type observer struct {
	w       *world
	watcher watch.Interface
	done    chan struct{}

	mu     sync.Mutex
	pods   map[types.UID]*corev1.Pod
	limits map[string]limits
	// oneZone: all pods that are released, of all services, share a zone.
	oneZone bool
	// own are the world's foreign pods that it deletes itself.
	own      map[types.UID]bool
	failures []string
}

type limits struct{ floor, ceiling int }

func (w *world) follow() *observer {
	w.t.Helper()
	list := &corev1.PodList{}
	if err := w.c.List(w.t.Context(), list, client.InNamespace(w.name)); err != nil {
		w.t.Fatal(err)
	}
	watcher, err := w.c.Watch(w.t.Context(), &corev1.PodList{}, client.InNamespace(w.name), &client.ListOptions{Raw: fromVersion(list.ResourceVersion)})
	if err != nil {
		w.t.Fatal(err)
	}
	o := &observer{w: w, watcher: watcher, done: make(chan struct{}), pods: map[types.UID]*corev1.Pod{}, limits: map[string]limits{}, own: map[types.UID]bool{}}
	for i := range list.Items {
		o.pods[list.Items[i].UID] = &list.Items[i]
	}
	go o.run()
	w.t.Cleanup(o.stop)
	return o
}

func (o *observer) run() {
	defer close(o.done)
	for e := range o.watcher.ResultChan() {
		pod, ok := e.Object.(*corev1.Pod)
		if !ok {
			continue
		}
		o.mu.Lock()
		if e.Type == watch.Deleted {
			delete(o.pods, pod.UID)
			if pod.Labels[graph.LabelGraph] == "" && !o.own[pod.UID] {
				o.failures = append(o.failures, "a foreign pod is gone: "+pod.Name)
			}
		} else {
			o.pods[pod.UID] = pod
		}
		o.check(pod)
		o.mu.Unlock()
	}
}

// expect sets from now on how many replicas of a service have to serve, and how many may live at once.
func (o *observer) expect(service string, floor, ceiling int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.limits[service] = limits{floor, ceiling}
}

// allow says that the test deletes this foreign pod itself.
func (o *observer) allow(pod *corev1.Pod) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.own[pod.UID] = true
}

// ignore ends what is expected of all services.
func (o *observer) ignore() {
	o.mu.Lock()
	defer o.mu.Unlock()
	clear(o.limits)
}

// ready says that the pod was ready when it was last seen.
func (o *observer) ready(uid types.UID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.pods[uid] != nil && serves(o.pods[uid])
}

// stop ends the watch and reports.
func (o *observer) stop() {
	o.watcher.Stop()
	<-o.done
	for _, failure := range o.failures {
		o.w.t.Error(failure)
	}
	o.failures = nil
}

// failed are the failures so far.
func (o *observer) failed() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.failures)
}

// check looks at the service of the pod that changed.
func (o *observer) check(changed *corev1.Pod) {
	service := changed.Labels[graph.LabelComponent]
	if service == "" {
		return
	}
	if zones := o.zones(); o.oneZone && len(zones) > 1 {
		o.failures = append(o.failures, fmt.Sprintf("the graph is released in zones %v; %s changed last", zones, changed.Name))
	}
	replicas := map[int32][]*corev1.Pod{}
	for _, pod := range o.pods {
		if ordinal, _, ok := graph.ReplicaOf(pod); ok && pod.Labels[graph.LabelComponent] == service && pod.DeletionTimestamp == nil {
			replicas[ordinal] = append(replicas[ordinal], pod)
		}
	}
	serving := 0
	for ordinal, pods := range replicas {
		if size, _ := strconv.Atoi(pods[0].Labels[graph.LabelReplicaSize]); len(pods) == size && !slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return !serves(p) }) {
			serving++
		}
		if racks := pinnedRacks(pods); len(pods) > 1 && len(racks) > 1 {
			o.failures = append(o.failures, fmt.Sprintf("replica %s-%d is released in %v", service, ordinal, racks))
		}
	}
	limit, limited := o.limits[service]
	if !limited {
		return
	}
	if serving < limit.floor {
		o.failures = append(o.failures, fmt.Sprintf("%d replicas of %s serve, %d have to; %s changed last", serving, service, limit.floor, changed.Name))
	}
	if len(replicas) > limit.ceiling {
		o.failures = append(o.failures, fmt.Sprintf("%d replicas of %s live, %d may; %s changed last", len(replicas), service, limit.ceiling, changed.Name))
	}
}

// zones are those in which living pods of the graph were released.
func (o *observer) zones() []string {
	found := map[string]bool{}
	for _, pod := range o.pods {
		if zone := pod.Spec.NodeSelector[zoneKey]; zone != "" && !graph.GateClosed(pod) && pod.DeletionTimestamp == nil {
			found[zone] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func serves(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// pinnedRacks are the racks in which the replica's pods were released.
func pinnedRacks(pods []*corev1.Pod) []string {
	found := map[string]bool{}
	for _, pod := range pods {
		if rack := pod.Spec.NodeSelector[rackKey]; rack != "" && !graph.GateClosed(pod) {
			found[pod.Spec.NodeSelector[zoneKey]+"/"+rack] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}
