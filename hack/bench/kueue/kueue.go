// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kueue runs Kueue's topology-aware scheduling as a library, through its exported API.
//
// The calls are those of Kueue's scheduler: nodes and pods enter the cache as from its controllers, a snapshot is the state of a scheduling
// cycle, and a placed workload is added to the snapshot's usage like an admitted one. Feature gates have the release's defaults.
package kueue

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	schdcache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/resources"
	"sigs.k8s.io/kueue/pkg/workload"

	"github.com/trellis-k8s/trellis/hack/bench/hall"
)

// Name is Kueue's name and version in the table.
const Name = "Kueue v0.19.2"

const (
	topologyName = "hall"
	flavorName   = "gpu"
	queueName    = "all"
	podSetName   = "main"
)

// noClient returns empty lists to the two queries of a new queue: local queues and workloads.
type noClient struct{ client.Client }

func (noClient) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

// Cache is Kueue's cache of a hall.
type Cache struct {
	cache *schdcache.Cache
	ctx   context.Context
}

// New returns a cache with a hall's nodes and bound pods.
func New(nodes []*corev1.Node, bound []*corev1.Pod) (*Cache, error) {
	log := logr.Discard()
	c := &Cache{cache: schdcache.New(noClient{}), ctx: ctrl.LoggerInto(context.Background(), log)}
	topology := &kueue.Topology{ObjectMeta: metav1.ObjectMeta{Name: topologyName}}
	for _, l := range hall.Levels {
		topology.Spec.Levels = append(topology.Spec.Levels, kueue.TopologyLevel{NodeLabel: l.Key()})
	}
	topology.Spec.Levels = append(topology.Spec.Levels, kueue.TopologyLevel{NodeLabel: corev1.LabelHostname})
	c.cache.AddOrUpdateTopology(log, topology)
	c.cache.AddOrUpdateResourceFlavor(log, &kueue.ResourceFlavor{
		ObjectMeta: metav1.ObjectMeta{Name: flavorName},
		Spec:       kueue.ResourceFlavorSpec{TopologyName: ptr.To[kueue.TopologyReference](topologyName)},
	})
	if err := c.cache.AddClusterQueue(c.ctx, queue()); err != nil {
		return nil, fmt.Errorf("adding a queue: %w", err)
	}
	for _, n := range nodes {
		c.Node(n)
	}
	for _, p := range bound {
		c.Pod(p)
	}
	return c, nil
}

// Node adds a node.
func (c *Cache) Node(n *corev1.Node) { c.cache.TASCache().SyncNode(n) }

// Pod adds a bound pod of another client.
func (c *Cache) Pod(p *corev1.Pod) { c.cache.TASCache().Update(p, logr.Discard()) }

// queue returns a queue with more quota than any hall.
func queue() *kueue.ClusterQueue {
	quotas := kueue.FlavorQuotas{Name: flavorName}
	group := kueue.ResourceGroup{}
	for name, quantity := range hall.Requests(1 << 20) {
		group.CoveredResources = append(group.CoveredResources, name)
		quotas.Resources = append(quotas.Resources, kueue.ResourceQuota{Name: name, NominalQuota: quantity})
	}
	group.Flavors = []kueue.FlavorQuotas{quotas}
	return &kueue.ClusterQueue{
		ObjectMeta: metav1.ObjectMeta{Name: queueName},
		Spec:       kueue.ClusterQueueSpec{NamespaceSelector: &metav1.LabelSelector{}, ResourceGroups: []kueue.ResourceGroup{group}},
	}
}

// Snapshot is the state of one scheduling cycle.
type Snapshot struct {
	ctx    context.Context
	queue  *schdcache.ClusterQueueSnapshot
	flavor *schdcache.TASFlavorSnapshot
}

// Snapshot builds a snapshot, as every scheduling cycle does.
func (c *Cache) Snapshot() (*Snapshot, error) {
	snapshot, err := c.cache.Snapshot(c.ctx)
	if err != nil {
		return nil, err
	}
	q := snapshot.ClusterQueue(queueName)
	if q == nil || q.TASFlavors[flavorName] == nil {
		return nil, errors.New("the queue is not active")
	}
	return &Snapshot{ctx: c.ctx, queue: q, flavor: q.TASFlavors[flavorName]}, nil
}

// Request is an ask in Kueue's terms.
type Request struct {
	ask      hall.Ask
	requests schdcache.FlavorTASRequests
	workload *kueue.Workload
}

// NewRequest returns a workload with one pod set: required topology, and slices if several gangs share a domain.
func NewRequest(a hall.Ask) Request {
	t := &kueue.PodSetTopologyRequest{Required: ptr.To(a.Each.Key())}
	switch {
	case a.Each == hall.Cluster:
		t = &kueue.PodSetTopologyRequest{Unconstrained: ptr.To(true)}
	case a.Gangs > 1:
		t = &kueue.PodSetTopologyRequest{
			Required: ptr.To(a.Whole.Key()), PodSetSliceRequiredTopology: ptr.To(a.Each.Key()), PodSetSliceSize: ptr.To(int32(a.Pods)),
		}
	}
	count := int32(a.Gangs * a.Pods)
	ps := &kueue.PodSet{
		Name: podSetName, Count: count, TopologyRequest: t, Template: corev1.PodTemplateSpec{Spec: hall.Pod("", a.GPUs, "").Spec},
	}
	return Request{
		ask: a,
		requests: schdcache.FlavorTASRequests{{
			PodSet: ps, SinglePodRequests: resources.NewRequestsFromPodSpec(&ps.Template.Spec), Count: count, Flavor: flavorName,
		}},
		// One identity per pod shape lets Kueue reuse the list of matching nodes: its best case.
		workload: &kueue.Workload{ObjectMeta: metav1.ObjectMeta{Name: a.Name, UID: types.UID(fmt.Sprintf("pods-of-%d", a.GPUs))}},
	}
}

// Find returns an assignment, or why there is none.
func (s *Snapshot) Find(r Request) (found *Assignment, why string) {
	result := s.flavor.FindTopologyAssignmentsForFlavor(s.ctx, r.requests, schdcache.WithWorkload(r.workload))
	if f := result.Failure(); f != nil {
		return nil, f.Reason
	}
	usage := make(workload.TASFlavorUsage, 0, r.ask.Gangs*r.ask.Pods)
	for _, d := range result[podSetName].TopologyAssignment.Domains {
		usage = append(usage, workload.TopologyDomainRequests{
			Values: d.Values, SinglePodRequests: r.requests[0].SinglePodRequests, Count: d.Count,
		})
	}
	return &Assignment{ask: r.ask, usage: workload.Usage{TAS: workload.TASUsage{flavorName: usage}}}, ""
}

// Assignment is Kueue's answer.
type Assignment struct {
	ask   hall.Ask
	usage workload.Usage
}

// Add counts an assignment as used.
func (s *Snapshot) Add(a *Assignment) { s.queue.AddUsage(a.usage) }

// Remove releases an assignment.
func (s *Snapshot) Remove(a *Assignment) { s.queue.RemoveUsage(a.usage) }

// Answer converts an assignment into the common form. Kueue counts pods per host. The hosts are split into gangs in sorted order, so that a
// domain whose count is not a multiple of the gang size appears as a split gang.
func (a *Assignment) Answer() hall.Answer {
	var hosts []string
	for _, d := range a.usage.TAS[flavorName] {
		for range d.Count {
			hosts = append(hosts, d.Values[len(d.Values)-1])
		}
	}
	slices.Sort(hosts)
	return slices.Collect(slices.Chunk(hosts, a.ask.Pods))
}

// Place finds an assignment and counts it as used.
func (s *Snapshot) Place(a hall.Ask) (hall.Answer, error) {
	found, why := s.Find(NewRequest(a))
	if found == nil {
		return nil, hall.Refused(why)
	}
	s.Add(found)
	return found.Answer(), nil
}
