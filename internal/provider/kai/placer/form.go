// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placer

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/provider/external"
	"github.com/trellis-k8s/trellis/internal/provider/kai"
	"github.com/trellis-k8s/trellis/internal/render"
)

// forming holds the pods of gangs that Form is adding or has added to a PodGroup. These pods may still be gated. Two gangs of a graph may
// be released at the same time, and the PodGroup written for one gang must include the other gang.
type forming struct {
	// writing is held while a PodGroup is written. mu is held only briefly, because the planning loop waits for it.
	writing, mu sync.Mutex
	pods        map[types.NamespacedName]map[types.UID]bool // by deployment
}

func newForming() *forming {
	return &forming{pods: map[types.NamespacedName]map[types.UID]bool{}}
}

// of returns the forming pods of a graph. Callers must not change the map.
func (f *forming) of(graph client.Object) map[types.UID]bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pods[client.ObjectKeyFromObject(graph)]
}

func (f *forming) set(graph client.Object, pods map[types.UID]bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pods[client.ObjectKeyFromObject(graph)] = pods
}

// Forget implements provider.Forgetter.
func (p Placer) Forget(graph types.NamespacedName) {
	p.forming.mu.Lock()
	defer p.forming.mu.Unlock()
	delete(p.forming.pods, graph)
}

// Form implements provider.Placer: it adds the replicas of this gang to the deployment's PodGroup.
func (p Placer) Form(ctx context.Context, of gang.Members) error {
	p.forming.writing.Lock() // a graph has one PodGroup, so one writer at a time
	defer p.forming.writing.Unlock()
	released, err := p.released(ctx, of)
	if err != nil {
		return err
	}
	g := kai.Input{
		Namespace: of.Graph.Namespace, Name: of.Graph.Name, Groups: of.Groups,
		Ordinals: 1,
		Released: func(sg *trellisv1alpha1.ScalingGroup, ordinal int32) bool { return released[replica{sg.Name, ordinal}] },
	}
	for one := range released {
		g.Ordinals = max(g.Ordinals, one.ordinal+1)
	}
	if g.Topology, err = p.topologyName(ctx, of.Groups); err != nil {
		return err
	}
	have, err := p.Get(ctx, kai.PodGroupKind, g.Namespace, g.Name)
	if err != nil {
		return err
	}
	existing := &kai.PodGroup{}
	if have != nil {
		if err := external.Read(have, existing); err != nil {
			return err
		}
	}
	g.Queue = kai.Queue(of.Graph.Annotations, of.Graph.Labels, existing.Spec.Queue)
	want := kai.RenderPodGroup(g)
	if want == nil {
		return nil
	}
	want.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(of.Graph,
		nvidiav1beta1.GroupVersion.WithKind("DynamoGraphDeployment"))}
	kai.Keep(want, existing)
	object, err := external.Object(want)
	if err != nil {
		return err
	}
	return p.Apply(ctx, of.Graph, object, have)
}

type replica struct {
	group   string
	ordinal int32
}

// released returns the replicas with a pod that was released or is about to be released. Calls of released must not run concurrently.
func (p Placer) released(ctx context.Context, of gang.Members) (map[replica]bool, error) {
	pods := &corev1.PodList{}
	err := p.Writer.Client.List(ctx, pods, client.InNamespace(of.Graph.Namespace),
		client.MatchingLabels{render.LabelGraph: render.LabelValue(of.Graph.Name)})
	if err != nil {
		return nil, fmt.Errorf("listing the pods of the graph: %w", err)
	}
	before, now := p.forming.of(of.Graph), map[types.UID]bool{}
	out := map[replica]bool{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		ordinal, _, ok := render.ReplicaOf(pod)
		if !ok || pod.DeletionTimestamp != nil {
			continue
		}
		if before[pod.UID] && render.GateClosed(pod) {
			now[pod.UID] = true
		}
		if now[pod.UID] || !render.GateClosed(pod) {
			out[replica{pod.Labels[render.LabelScalingGroup], ordinal}] = true
		}
	}
	for _, r := range of.Replicas {
		out[replica{r.Group.Name, r.Ordinal}] = true
		for _, pod := range r.Pods {
			now[pod.UID] = true
		}
	}
	p.forming.set(of.Graph, now)
	return out, nil
}

// topologyName returns the name of the KAI Topology for the graph's ClusterTopology.
func (p Placer) topologyName(ctx context.Context, groups []*trellisv1alpha1.ScalingGroup) (string, error) {
	t := constraint.TopologyOf(groups)
	if t == nil {
		return "", nil
	}
	ct := &grovev1alpha1.ClusterTopology{}
	if err := p.Writer.Client.Get(ctx, client.ObjectKey{Name: t.ClusterTopology}, ct); client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("reading ClusterTopology %q: %w", t.ClusterTopology, err)
	} else if err != nil {
		return t.ClusterTopology, nil //nolint:nilerr // gone: gangs that need it wait, the others have nothing to say of it
	}
	name, _ := kai.Reference(ct)
	return name, nil
}

// KeepTopology creates or replaces the KAI Topology for a ClusterTopology. If it cannot, it returns the reason, otherwise "". The levels of
// a Topology are immutable, so a change of the levels needs a new object. KAI does not touch running pods.
func (p Placer) KeepTopology(ctx context.Context, ct *grovev1alpha1.ClusterTopology) (string, error) {
	name, _ := kai.Reference(ct)
	object, err := p.Get(ctx, kai.TopologyKind, "", name)
	if err != nil {
		return "", err
	}
	var have *kai.Topology
	if object != nil {
		have = &kai.Topology{}
		if err := external.Read(object, have); err != nil {
			return "", err
		}
	}
	step, why := kai.CompareTopology(ct, have)
	if step == kai.InSync || step == kai.Drifted {
		return why, nil
	}
	topology, err := kai.RenderTopology(ct)
	if err != nil {
		return err.Error(), nil //nolint:nilerr // it is about the topology: reported in its status, and not to be tried again
	}
	want, err := external.Object(topology)
	if err != nil {
		return "", err
	}
	if step == kai.Replace {
		if err := p.Delete(ctx, object); err != nil {
			return "", err
		}
	}
	return "", p.Apply(ctx, ct, want, nil)
}
