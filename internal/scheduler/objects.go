// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Cache indexes that the loop uses; AddIndexes registers them.
const (
	// IndexPodsByGraph finds the pods of a graph by the value of their graph label.
	IndexPodsByGraph = "trellis.graph"
	// IndexPodsByNode finds the pods of graphs by the node that they are bound to.
	IndexPodsByNode = "trellis.node"
	// IndexGroupsByGraph finds the scaling groups of a graph by the UID of the graph, which is their controller owner.
	IndexGroupsByGraph = "trellis.owner"
)

// AddIndexes registers the indexes.
func AddIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	if err := indexer.IndexField(ctx, &corev1.Pod{}, IndexPodsByGraph, func(o client.Object) []string {
		if name := o.GetLabels()[render.LabelGraph]; name != "" && o.GetLabels()[render.LabelScalingGroup] != "" {
			return []string{name}
		}
		return nil
	}); err != nil {
		return fmt.Errorf("indexing pods: %w", err)
	}
	if err := indexer.IndexField(ctx, &corev1.Pod{}, IndexPodsByNode, func(o client.Object) []string {
		if pod := o.(*corev1.Pod); pod.Spec.NodeName != "" && pod.Labels[render.LabelGraph] != "" {
			return []string{pod.Spec.NodeName}
		}
		return nil
	}); err != nil {
		return fmt.Errorf("indexing pods by node: %w", err)
	}
	if err := indexer.IndexField(ctx, &trellisv1alpha1.ScalingGroup{}, IndexGroupsByGraph, func(o client.Object) []string {
		if owner := metav1.GetControllerOf(o); owner != nil {
			return []string{string(owner.UID)}
		}
		return nil
	}); err != nil {
		return fmt.Errorf("indexing scaling groups: %w", err)
	}
	return nil
}

// GroupsOf lists the scaling groups that the deployment with the UID owns. It uses [IndexGroupsByGraph], which AddIndexes registers.
func GroupsOf(ctx context.Context, c client.Reader, namespace string, uid types.UID,
	options ...client.ListOption) ([]*trellisv1alpha1.ScalingGroup, error) {
	list := &trellisv1alpha1.ScalingGroupList{}
	options = append(options, client.InNamespace(namespace), client.MatchingFields{IndexGroupsByGraph: string(uid)})
	if err := c.List(ctx, list, options...); err != nil {
		return nil, fmt.Errorf("listing the scaling groups of a deployment: %w", err)
	}
	groups := make([]*trellisv1alpha1.ScalingGroup, 0, len(list.Items))
	for i := range list.Items {
		groups = append(groups, &list.Items[i])
	}
	return groups, nil
}

// objects reads API objects from the cache. Its lists return the cache's own objects, which callers must not change: the loop reads a graph
// after every event of its pods, and copying the lists would be most of the loop's work.
type objects struct {
	reader client.Reader
	// admission reads the objects that the API server's admission will apply to pods that do not exist yet.
	admission admission
}

// observe reads all objects that concern one graph.
func (c *objects) observe(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment) (gang.Observation, error) {
	o := gang.Observation{DGD: dgd}
	groups, err := GroupsOf(ctx, c.reader, dgd.Namespace, dgd.UID, client.UnsafeDisableDeepCopy)
	if err != nil {
		return o, err
	}
	o.Groups = slices.DeleteFunc(groups, func(sg *trellisv1alpha1.ScalingGroup) bool { return sg.DeletionTimestamp != nil })
	if o.Pods, err = c.pods(ctx, dgd.Namespace, render.LabelValue(dgd.Name)); err != nil {
		return o, err
	}
	if o.ClusterTopology, err = c.clusterTopology(ctx, o.Groups); err != nil {
		return o, err
	}
	o.Admission, err = c.admission.of(ctx, c.reader, dgd.Namespace, o.Groups)
	return o, err
}

// pods lists the pods of a graph, by the value of their graph label.
func (c *objects) pods(ctx context.Context, namespace, label string) ([]*corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := c.reader.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{IndexPodsByGraph: label},
		client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	var out []*corev1.Pod
	for i := range list.Items {
		out = append(out, &list.Items[i])
	}
	return out, nil
}

func (c *objects) clusterTopology(ctx context.Context, groups []*trellisv1alpha1.ScalingGroup) (*grovev1alpha1.ClusterTopology, error) {
	for _, sg := range groups {
		if sg.Spec.Topology == nil || sg.Spec.Topology.ClusterTopology == "" {
			continue
		}
		ct := &grovev1alpha1.ClusterTopology{}
		err := c.reader.Get(ctx, types.NamespacedName{Name: sg.Spec.Topology.ClusterTopology}, ct)
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return ct, err
	}
	return nil, nil
}

// groupOf returns the scaling group of a pod, by name and UID; nil if the pod has none, or the cache does not have it.
func (c *objects) groupOf(pod *corev1.Pod) *trellisv1alpha1.ScalingGroup {
	name, uid, ok := render.GroupOf(pod)
	if !ok {
		return nil
	}
	sg := &trellisv1alpha1.ScalingGroup{}
	if err := c.reader.Get(context.Background(), types.NamespacedName{Namespace: pod.Namespace, Name: name}, sg); err != nil || sg.UID != uid {
		return nil
	}
	return sg
}

// groupsOn returns the scaling groups that have pods bound to a node, each once.
func (c *objects) groupsOn(ctx context.Context, node string) ([]*trellisv1alpha1.ScalingGroup, error) {
	pods := &corev1.PodList{}
	if err := c.reader.List(ctx, pods, client.MatchingFields{IndexPodsByNode: node}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the pods of a node: %w", err)
	}
	var groups []*trellisv1alpha1.ScalingGroup
	seen := map[types.UID]bool{}
	for i := range pods.Items {
		_, uid, ok := render.GroupOf(&pods.Items[i])
		if !ok || seen[uid] {
			continue
		}
		seen[uid] = true
		if sg := c.groupOf(&pods.Items[i]); sg != nil {
			groups = append(groups, sg)
		}
	}
	return groups, nil
}

// priorities returns the highest priority of the pods of each graph, by the graph's UID.
func (c *objects) priorities(ctx context.Context, graphs []*nvidiav1beta1.DynamoGraphDeployment) map[types.UID]int32 {
	out := map[types.UID]int32{}
	for _, dgd := range graphs {
		pods, err := c.pods(ctx, dgd.Namespace, render.LabelValue(dgd.Name))
		if err != nil {
			log.FromContext(ctx).Error(err, "listing the pods of a graph", "graph", client.ObjectKeyFromObject(dgd))
			continue
		}
		for i, pod := range pods {
			if p := topology.PriorityOf(pod); i == 0 || p > out[dgd.UID] {
				out[dgd.UID] = p
			}
		}
	}
	return out
}

// treeUse identifies one tree of the cluster cache by its levels and its node selector.
type treeUse struct {
	levels   topology.Levels
	selector map[string]string
}

// treesInUse returns a function that reports whether a tree is in use: a ClusterTopology has its levels and node selector, or a graph was
// created with them. The tree without levels, for graphs without a topology, is always in use.
func (c *objects) treesInUse(ctx context.Context) (func(topology.Levels, map[string]string) bool, error) {
	used := []treeUse{{}}
	topologies, groups := &grovev1alpha1.ClusterTopologyList{}, &trellisv1alpha1.ScalingGroupList{}
	for _, list := range []client.ObjectList{topologies, groups} {
		if err := c.reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, err
		}
	}
	is := func(levels topology.Levels, selector map[string]string) bool {
		return slices.ContainsFunc(used, func(u treeUse) bool { return slices.Equal(u.levels, levels) && maps.Equal(u.selector, selector) })
	}
	add := func(levels topology.Levels, selector map[string]string) { // adds each tree once
		if !is(levels, selector) {
			used = append(used, treeUse{levels, selector})
		}
	}
	for i := range topologies.Items {
		add(gang.LevelsOfClusterTopology(&topologies.Items[i]), topologies.Items[i].Spec.NodeSelector)
	}
	for i := range groups.Items {
		if t := groups.Items[i].Spec.Topology; t != nil {
			add(gang.LevelsOf(t), t.NodeSelector)
		}
	}
	return is, nil
}
