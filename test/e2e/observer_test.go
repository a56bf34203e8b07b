// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/assignment"
	"github.com/trellis-k8s/trellis/internal/leaving"
	"github.com/trellis-k8s/trellis/internal/render"
)

// observer sees every state that a world's pods are ever in, in order, and notes what must never be: an update below its floor or above
// its ceiling, a gang released in two racks, a host over its capacity, a foreign pod gone.
type observer struct {
	w   *world
	end func()

	mu     sync.Mutex
	pods   map[types.UID]*corev1.Pod
	limits map[string]limits
	// oneZone: all pods of one graph that are released, of all components, share a zone.
	oneZone bool
	// graphOf identifies the graph of a pod; "" while that is not known. By default it is the graph's name.
	graphOf func(*corev1.Pod) string
	// hosts by the names of their nodes: where a bound pod is, and how many GPUs its node has. Without them a pod is where it was released.
	hosts map[string]host
	// also is called with each pod that changed.
	also func(*corev1.Pod)
	// graphs by their names, and the deployment of a pod; nil while it is not known.
	graphs     map[string]*nvidiav1beta1.DynamoGraphDeployment
	deployment func(*corev1.Pod) *nvidiav1beta1.DynamoGraphDeployment
	// noMoves: no one asks for a replica to move, or for the eviction of a pod.
	noMoves bool
	// parts are the gangs that exist in part, by their names.
	parts map[string]inPart
	// own are the world's foreign pods that it deletes itself.
	own      map[types.UID]bool
	failures []string
}

type limits struct{ floor, ceiling int }

func (w *world) follow() *observer {
	w.t.Helper()
	o := w.newObserver()
	follow(w.t, &mirror[*nvidiav1beta1.DynamoGraphDeployment]{
		c: w.c, list: &nvidiav1beta1.DynamoGraphDeploymentList{}, options: []client.ListOption{client.InNamespace(w.name)}, see: o.seeGraph,
	})
	o.start(w.c)
	return o
}

func (w *world) newObserver() *observer {
	o := &observer{
		w: w, pods: map[types.UID]*corev1.Pod{}, limits: map[string]limits{}, parts: map[string]inPart{}, own: map[types.UID]bool{},
		graphs: map[string]*nvidiav1beta1.DynamoGraphDeployment{}, also: func(*corev1.Pod) {},
		graphOf: func(pod *corev1.Pod) string { return pod.Labels[render.LabelGraph] },
	}
	o.deployment = func(pod *corev1.Pod) *nvidiav1beta1.DynamoGraphDeployment {
		return o.graphs[pod.Labels[render.LabelGraph]]
	}
	return o
}

func (o *observer) start(c client.WithWatch) {
	o.w.t.Helper()
	var err error
	o.end, err = (&mirror[*corev1.Pod]{c: c, list: &corev1.PodList{}, options: []client.ListOption{client.InNamespace(o.w.name)}, see: o.see}).start()
	if err != nil {
		o.w.t.Fatal(err)
	}
	o.w.t.Cleanup(o.stop)
}

func (o *observer) see(event watch.EventType, pod *corev1.Pod) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if event == watch.Deleted {
		delete(o.pods, pod.UID)
		if pod.Labels[render.LabelGraph] == "" && !o.own[pod.UID] {
			o.failures = append(o.failures, "a foreign pod is gone: "+pod.Name)
		}
	} else {
		o.pods[pod.UID] = pod
	}
	o.check(pod)
	o.also(pod)
}

// seeMoves notes the moves that a scaling group lists, where none may be.
func (o *observer) seeMoves(_ watch.EventType, sg *trellisv1alpha1.ScalingGroup) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if moves := sg.Status.Moves; o.noMoves && len(moves) > 0 {
		o.failures = append(o.failures, fmt.Sprintf("replica %s-%d moves, and no one has asked for it: %s", sg.Name, moves[0].Replica, moves[0].Why))
	}
}

// expectNoMoves notes from now on every move of a replica, and every eviction that Trellis refuses, as a failure.
func (o *observer) expectNoMoves() {
	o.w.t.Helper()
	o.mu.Lock()
	o.noMoves = true
	o.mu.Unlock()
	follow(o.w.t, &mirror[*trellisv1alpha1.ScalingGroup]{
		c: o.w.c, list: &trellisv1alpha1.ScalingGroupList{}, options: []client.ListOption{client.InNamespace(o.w.name)}, see: o.seeMoves,
	})
}

// expect sets from now on how many replicas of a component have to serve, and how many may live at once.
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

// ignore ends what is expected of all components.
func (o *observer) ignore() {
	o.mu.Lock()
	defer o.mu.Unlock()
	clear(o.limits)
}

// ready reports whether the pod was ready when it was last seen.
func (o *observer) ready(uid types.UID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.pods[uid] != nil && serves(o.pods[uid])
}

// stop ends the watch and reports. Called again it reports nothing.
func (o *observer) stop() {
	o.end()
	o.overdue(time.Now())
	failures := o.failures
	o.failures = nil
	clear(o.parts) // a second call would compare them with a later time
	if len(failures) > 0 {
		o.w.t.Error(strings.Join(failures, "\n"))
	}
}

// failed are the failures so far.
func (o *observer) failed() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.overdue(time.Now())
	return slices.Clone(o.failures)
}

// check looks at the node, the graph and the component of the pod that changed.
func (o *observer) check(changed *corev1.Pod) {
	o.checkNode(changed.Spec.NodeName)
	service := changed.Labels[render.LabelComponent]
	if service == "" {
		return
	}
	o.checkParts(changed, time.Now())
	if request, asked := changed.Annotations[leaving.AnnotationEviction]; asked && o.noMoves { // before the webhook refuses an eviction
		o.failures = append(o.failures, fmt.Sprintf("pod %s is requested to leave, and no one has asked for it: %s", changed.Name, request))
	}
	released := o.released(changed)
	if o.oneZone && o.w.operators > 1 && len(o.zones(released)) > 1 {
		released = slices.DeleteFunc(released, o.overtaken(changed))
	}
	if zones := o.zones(released); o.oneZone && len(zones) > 1 {
		o.failures = append(o.failures, fmt.Sprintf("graph %s is released in zones %v; %s changed last; released: %s",
			changed.Labels[render.LabelGraph], zones, changed.Name, o.described(released)))
	}
	replicas := o.replicas(changed)
	serving := o.serving(changed)
	for ordinal, pods := range replicas {
		if racks := o.racks(pods); len(pods) > 1 && len(racks) > 1 {
			o.failures = append(o.failures, fmt.Sprintf("replica %s-%d is released in %v", changed.Labels[render.LabelScalingGroup], ordinal, racks))
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

// replicas are those of the component of a pod, without pods that terminate.
func (o *observer) replicas(of *corev1.Pod) map[int32][]*corev1.Pod {
	replicas := map[int32][]*corev1.Pod{}
	for _, pod := range o.pods {
		if ordinal, _, ok := render.ReplicaOf(pod); ok && sameService(pod, of) && pod.DeletionTimestamp == nil {
			replicas[ordinal] = append(replicas[ordinal], pod)
		}
	}
	return replicas
}

// serving counts the replicas of the component of a pod that serve.
func (o *observer) serving(of *corev1.Pod) (n int) {
	for _, pods := range o.replicas(of) {
		if size, _ := strconv.Atoi(pods[0].Labels[render.LabelReplicaSize]); len(pods) == size && !slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return !serves(p) }) {
			n++
		}
	}
	return n
}

// checkNode compares the GPUs of a node's pods, those that terminate included, with the node's.
func (o *observer) checkNode(name string) {
	h, known := o.hosts[name]
	if !known {
		return
	}
	taken := 0
	for _, pod := range o.pods {
		if pod.Spec.NodeName == name {
			taken += gpusOf(pod)
		}
	}
	if taken > h.gpus {
		o.failures = append(o.failures, fmt.Sprintf("the pods of node %s have %d GPUs, and it has %d", name, taken, h.gpus))
	}
}

// gpusOf are the GPUs that a pod takes from its node.
func gpusOf(pod *corev1.Pod) (n int) {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return 0
	}
	for _, container := range pod.Spec.Containers {
		amount := container.Resources.Limits[gpu]
		n += int(amount.Value())
	}
	return n
}

const gpu corev1.ResourceName = "nvidia.com/gpu"

// sameService: both pods are of one component of one graph, and of the same object of that name.
func sameService(a, b *corev1.Pod) bool {
	return a.Labels[render.LabelScalingGroup] == b.Labels[render.LabelScalingGroup] && a.Labels[render.LabelComponent] == b.Labels[render.LabelComponent] && ownerOf(a) == ownerOf(b)
}

func ownerOf(o metav1.Object) types.UID {
	if owner := metav1.GetControllerOf(o); owner != nil {
		return owner.UID
	}
	return ""
}

// released are the released pods of a pod's graph, without those that terminate.
func (o *observer) released(of *corev1.Pod) (out []*corev1.Pod) {
	name := o.graphOf(of)
	for _, pod := range o.pods {
		if zone, _ := o.place(pod); zone != "" && pod.DeletionTimestamp == nil && name != "" && o.graphOf(pod) == name {
			out = append(out, pod)
		}
	}
	return out
}

// zones are those in which the pods were released.
func (o *observer) zones(pods []*corev1.Pod) []string {
	found := map[string]bool{}
	for _, pod := range pods {
		zone, _ := o.place(pod)
		found[zone] = true
	}
	return slices.Sorted(maps.Keys(found))
}

// described are the places and attempts of released pods.
func (o *observer) described(pods []*corev1.Pod) string {
	var out []string
	for _, pod := range pods {
		zone, rack := o.place(pod)
		out = append(out, fmt.Sprintf("%s in %s/%s, attempt %d", pod.Name, zone, rack, render.AttemptOf(pod)))
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}

// overtaken reports whether a pod of the graph has an attempt that does not count any more by the GraphPlacement as it is stored: of two operators, one has
// placed the replica again while a request of the other was on its way. Such a pod is deleted with its replica.
func (o *observer) overtaken(of *corev1.Pod) func(*corev1.Pod) bool {
	stored := &trellisv1alpha1.GraphPlacement{}
	if err := o.w.c.Get(o.w.t.Context(), key(of.Namespace, of.Labels[render.LabelGraph]), stored); err != nil {
		return func(*corev1.Pod) bool { return false }
	}
	record := assignment.Decode(&stored.Spec)
	return func(pod *corev1.Pod) bool {
		ordinal, _, ok := render.ReplicaOf(pod)
		return ok && render.AttemptOf(pod) < record.LowestAttempt(assignment.Key{Component: pod.Labels[render.LabelComponent], Ordinal: int(ordinal)})
	}
}

// racks are those in which the pods were released.
func (o *observer) racks(pods []*corev1.Pod) []string {
	found := map[string]bool{}
	for _, pod := range pods {
		if zone, rack := o.place(pod); rack != "" {
			found[zone+"/"+rack] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// place is where a pod is bound, where that is known, or else where it was released.
func (o *observer) place(pod *corev1.Pod) (zone, rack string) {
	if h, known := o.hosts[pod.Spec.NodeName]; known {
		return h.zone, h.rack
	}
	if render.GateClosed(pod) {
		return "", ""
	}
	return pod.Spec.NodeSelector[zoneKey], pod.Spec.NodeSelector[rackKey]
}

func serves(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
