// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/cli/live"
	"github.com/trellis-k8s/trellis/internal/render"
)

// Read returns the observation. If the user may not list pods, it sets PodsHidden; if ScalingGroups cannot be listed, GroupsHidden.
func Read(ctx context.Context, c client.Reader, key client.ObjectKey) (Observed, error) {
	dgd, err := live.Graph(ctx, c, key)
	if err != nil {
		return Observed{}, err
	}
	s := Observed{Graph: dgd}
	pods, groups := &corev1.PodList{}, &trellisv1alpha1.ScalingGroupList{}
	if s.PodsHidden, err = list(ctx, c, key, pods); err != nil {
		return s, cli.Explain(err, "listing pods")
	}
	if s.GroupsHidden, err = list(ctx, c, key, groups); err != nil {
		return s, cli.Explain(err, "listing scalinggroups")
	}
	s.Pods, s.Groups = pods.Items, groups.Items
	if s.Operator, err = live.ReadHeartbeat(ctx, c); err != nil {
		return s, err
	}
	return s, nil
}

// list reads the objects of a graph. hidden: the user may not list them, or the API server does not know their kind.
func list(ctx context.Context, c client.Reader, key client.ObjectKey, objects client.ObjectList) (hidden bool, err error) {
	err = c.List(ctx, objects, client.InNamespace(key.Namespace), client.MatchingLabels(graphLabels(key)))
	if apierrors.IsForbidden(err) || meta.IsNoMatchError(err) {
		return true, nil
	}
	return false, err
}

// graphLabels returns the labels of the ScalingGroups and pods of a graph.
func graphLabels(key client.ObjectKey) map[string]string {
	return map[string]string{render.LabelGraph: render.LabelValue(key.Name)}
}

// Watch delivers an [Observed] now and after every change. If changes are faster than the receiver, it delivers only the newest [Observed].
// It closes the channel when the graph is deleted. The user's rights and the state of the operator are copied from first.
func Watch(ctx context.Context, config *rest.Config, key client.ObjectKey, first Observed) (<-chan Observed, error) {
	informers, err := newCache(config, key)
	if err != nil {
		return nil, err
	}
	objects := []client.Object{&nvidiav1beta1.DynamoGraphDeployment{}}
	if !first.PodsHidden {
		objects = append(objects, &corev1.Pod{})
	}
	if !first.GroupsHidden {
		objects = append(objects, &trellisv1alpha1.ScalingGroup{})
	}
	changed := make(chan struct{}, 1)
	notify := func() {
		select {
		case changed <- struct{}{}:
		default: // a notification is pending already
		}
	}
	for _, o := range objects {
		informer, err := informers.GetInformer(ctx, o, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, cli.Explain(err, fmt.Sprintf("watching %T", o))
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { notify() }, UpdateFunc: func(any, any) { notify() }, DeleteFunc: func(any) { notify() },
		}); err != nil {
			return nil, fmt.Errorf("watching %T: %w", o, err)
		}
	}
	go func() { _ = informers.Start(ctx) }() // it ends with the context
	if !informers.WaitForCacheSync(ctx) {
		return nil, fmt.Errorf("watching DynamoGraphDeployment %s: %w", key, context.Cause(ctx))
	}
	observations := make(chan Observed)
	go deliver(ctx, informers, key, first, changed, observations)
	return observations, nil
}

// newCache returns a cache of one graph, its ScalingGroups and its pods.
func newCache(config *rest.Config, key client.ObjectKey) (cache.Cache, error) {
	scheme, err := cli.NewScheme()
	if err != nil {
		return nil, err
	}
	return cache.New(config, cache.Options{
		Scheme: scheme, DefaultNamespaces: map[string]cache.Config{key.Namespace: {}},
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&nvidiav1beta1.DynamoGraphDeployment{}: {Field: fields.OneTermEqualSelector("metadata.name", key.Name)},
			&trellisv1alpha1.ScalingGroup{}:        {Label: labels.SelectorFromSet(graphLabels(key))},
			&corev1.Pod{}:                          {Label: labels.SelectorFromSet(graphLabels(key))},
		},
	})
}

func deliver(ctx context.Context, informers cache.Cache, key client.ObjectKey, first Observed, changed <-chan struct{},
	observations chan<- Observed) {
	for {
		s := first
		s.Graph = &nvidiav1beta1.DynamoGraphDeployment{}
		pods, groups := &corev1.PodList{}, &trellisv1alpha1.ScalingGroupList{}
		err := informers.Get(ctx, key, s.Graph)
		if err == nil && !first.PodsHidden {
			err = informers.List(ctx, pods)
		}
		if err == nil && !first.GroupsHidden {
			err = informers.List(ctx, groups)
		}
		if err != nil {
			if apierrors.IsNotFound(err) {
				close(observations)
			}
			return
		}
		s.Pods, s.Groups = pods.Items, groups.Items
		select {
		case <-ctx.Done():
			return
		case observations <- s:
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}
