// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package maker makes the pods of multinode components as LeaderWorkerSets: one set per replica, owned by the scaling group.
//
// The deployment keeps its provider. The provider's placer prepares the pod templates of a set, so the pods have the gate, and Trellis
// plans, pins, releases and counts them like its own pods. A set is deleted in the foreground, so its name is free only after its last pod
// is gone.
package maker

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/controller/adoption"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/provider/external"
	"github.com/trellis-k8s/trellis/internal/provider/external/write"
	"github.com/trellis-k8s/trellis/internal/provider/lws"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
)

// Maker makes LeaderWorkerSets.
type Maker struct{ write.Writer }

var _ provider.Maker = Maker{}

// New returns the maker.
func New(writer client.Client, live client.Reader) Maker {
	return Maker{write.Writer{Client: writer, Live: live}}
}

// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=leaderworkersets.leaderworkerset.x-k8s.io,verbs=get
// +kubebuilder:rbac:groups=leaderworkerset.x-k8s.io,resources=leaderworkersets,verbs=create;delete;get;list;watch

// Name implements provider.Provider.
func (Maker) Name() string { return specs.LeaderWorkerSet }

// Probe implements provider.Provider: it checks that LeaderWorkerSets are served, and have all fields that Trellis writes.
func (m Maker) Probe(ctx context.Context) (provider.State, error) {
	crd, err := m.Definition(ctx, lws.Definition)
	if err != nil {
		return provider.State{}, err
	}
	if crd == nil {
		return provider.State{Reason: nvidiav1beta1.ReasonAPINotServed, Message: lws.Definition + " is not served; install LeaderWorkerSet"}, nil
	}
	if reason, message := lws.Served(crd); reason != "" {
		return provider.State{Reason: reason, Message: message}, nil
	}
	return provider.Ready(), nil
}

// Unsuited implements provider.Provider. The provider PodGroup cannot place LeaderWorkerSets. It needs a new PodGroup name in the pods of
// every generation, but a set recreates all its pods from one template.
func (Maker) Unsuited(groups []*trellisv1alpha1.ScalingGroup) string {
	for _, sg := range groups {
		if render.InSets(sg) && !specs.Named(sg.Spec.Provider).TakesSets {
			return fmt.Sprintf("LeaderWorkerSets can be placed by %s, not by %s; choose one of them, or remove the annotation %s",
				strings.Join(specs.TakingSets(), " and "), sg.Spec.Provider, render.AnnotationWorkload)
		}
	}
	return ""
}

// Watches implements provider.Provider.
func (Maker) Watches() []provider.Watch {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(lws.Kind)
	return []provider.Watch{{Object: object, Graph: func(o client.Object) (types.NamespacedName, bool) {
		name := o.GetAnnotations()[render.AnnotationGraph]
		owner := metav1.GetControllerOf(o)
		return types.NamespacedName{Namespace: o.GetNamespace(), Name: name}, name != "" && owner != nil && owner.Kind == "ScalingGroup"
	}}}
}

// Sets implements provider.Maker.
func (m Maker) Sets(ctx context.Context, own client.Reader, sg *trellisv1alpha1.ScalingGroup) (map[int32]client.Object, error) {
	if own == nil {
		own = m.Live
	}
	sets, err := list(ctx, own, sg)
	if err != nil {
		return nil, err
	}
	out := map[int32]client.Object{}
	for i := range sets.Items {
		set := &sets.Items[i]
		if ordinal, ok := render.OrdinalOf(set); ok && metav1.IsControlledBy(set, sg) {
			out[ordinal] = set
		}
	}
	return out, nil
}

// Make implements provider.Maker.
func (m Maker) Make(ctx context.Context, sg *trellisv1alpha1.ScalingGroup, ordinals []int32, prepare func(int32, *corev1.Pod)) error {
	if len(ordinals) == 0 {
		return nil
	}
	templates := lws.For(sg)
	failures := make([]error, 0, len(ordinals))
	for _, ordinal := range ordinals {
		failures = append(failures, m.make(ctx, sg, templates.Render(ordinal, func(pod *corev1.Pod) { prepare(ordinal, pod) })))
	}
	return errors.Join(failures...)
}

func (m Maker) make(ctx context.Context, sg *trellisv1alpha1.ScalingGroup, set *lws.LeaderWorkerSet) error {
	set.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(sg, trellisv1alpha1.GroupVersion.WithKind("ScalingGroup"))}
	sent, err := external.Object(set)
	if err != nil {
		return err
	}
	got := sent.DeepCopy()
	err = m.Client.Create(ctx, got)
	if apierrors.IsAlreadyExists(err) {
		return m.taken(ctx, sg, set.Name)
	}
	if err != nil {
		return fmt.Errorf("creating LeaderWorkerSet %s: %w", set.Name, err)
	}
	if at := external.Missing(sent, got); at != "" {
		return errors.Join(fmt.Errorf("creating LeaderWorkerSet %s: %w: %s; it is deleted", set.Name, provider.ErrDropped, at),
			m.delete(ctx, got))
	}
	return nil
}

// taken returns an error if an object of another owner has the name of a set. It returns nil if the set belongs to this scaling group. In
// that case, either the cache does not contain the set yet, or the set is being deleted, and its deletion triggers an event.
func (m Maker) taken(ctx context.Context, sg *trellisv1alpha1.ScalingGroup, name string) error {
	have, err := m.Get(ctx, lws.Kind, sg.Namespace, name)
	if err != nil || have == nil || metav1.IsControlledBy(have, sg) {
		return err
	}
	taken := fmt.Errorf("creating LeaderWorkerSet %s: one of this name exists and does not belong to this group; it is left unchanged", name)
	if !adoption.Orphaned(have) || have.GetLabels()[render.LabelScalingGroup] != sg.Name {
		return taken
	}
	orphans, err := m.orphans(ctx, sg)
	if err != nil {
		return errors.Join(taken, err)
	}
	return fmt.Errorf("%w. It cannot be adopted, since its pods name an earlier scaling group. To delete all of that: kubectl delete -n %s "+
		"leaderworkersets.leaderworkerset.x-k8s.io %s",
		taken, sg.Namespace, strings.Join(orphans, " "))
}

// orphans returns the names of the group's sets that have no owner. An earlier scaling group of the same name left them behind.
func (m Maker) orphans(ctx context.Context, sg *trellisv1alpha1.ScalingGroup) ([]string, error) {
	sets, err := list(ctx, m.Live, sg)
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range sets.Items {
		if adoption.Orphaned(&sets.Items[i]) {
			names = append(names, sets.Items[i].GetName())
		}
	}
	return names, nil
}

// list reads all LeaderWorkerSets with the scaling group's label, regardless of their owner; an empty list if the kind is not served.
func list(ctx context.Context, reader client.Reader, sg *trellisv1alpha1.ScalingGroup) (*unstructured.UnstructuredList, error) {
	out := &unstructured.UnstructuredList{}
	out.SetGroupVersionKind(lws.Kind.GroupVersion().WithKind(lws.Kind.Kind + "List"))
	err := reader.List(ctx, out, client.InNamespace(sg.Namespace), client.MatchingLabels{render.LabelScalingGroup: sg.Name})
	if err != nil && !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("listing the LeaderWorkerSets of the group: %w", err)
	}
	return out, nil
}

// Unmake implements provider.Maker.
func (m Maker) Unmake(ctx context.Context, sg *trellisv1alpha1.ScalingGroup, ordinal int32) (bool, error) {
	set, err := m.Get(ctx, lws.Kind, sg.Namespace, render.SetName(sg, ordinal))
	if set == nil || err != nil || !metav1.IsControlledBy(set, sg) {
		return false, err
	}
	if set.GetDeletionTimestamp() != nil {
		return true, nil
	}
	return true, m.delete(ctx, set)
}

func (m Maker) delete(ctx context.Context, set *unstructured.Unstructured) error {
	uid := set.GetUID()
	err := m.Client.Delete(ctx, set, client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationForeground))
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting LeaderWorkerSet %s: %w", set.GetName(), err)
	}
	return nil
}
