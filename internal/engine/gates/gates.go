// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gates places pods by scheduling gates (KEP-3521): a gated pod's node selector may still be narrowed, so one patch
// adds the pins and opens the gate, and the ordinary kube-scheduler binds the pod inside its domain.
package gates

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/engine"
	"github.com/trellis-k8s/trellis/internal/graph"
)

// Placer is the engine Gates.
type Placer struct {
	// Client writes.
	Client client.Client
	// Live reads past every cache.
	Live client.Reader
}

var _ engine.Placer = Placer{}

// Name implements engine.Engine.
func (Placer) Name() string { return graph.EngineGates }

// Probe implements engine.Engine: scheduling gates are there in every Kubernetes that Trellis supports.
func (Placer) Probe(context.Context) (engine.State, error) { return engine.Ready(), nil }

// Unsuited implements engine.Engine.
func (Placer) Unsuited([]*trellisv1alpha1.ScalingGroup) string { return "" }

// Watches implements engine.Engine.
func (Placer) Watches() []engine.Watch { return nil }

// Prepare implements engine.Placer: the gate is all.
func (Placer) Prepare(*trellisv1alpha1.ScalingGroup, int32, []*corev1.Pod, []*corev1.Pod) {}

// Kept implements engine.Placer. A pod made for another engine would wait for what only that engine makes.
func (Placer) Kept(pods []*corev1.Pod) bool {
	return !slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return pod.Annotations[graph.AnnotationEngine] != "" })
}

// Form implements engine.Placer: the pins hold the gang together.
func (Placer) Form(context.Context, engine.Gang) error { return nil }

// Object implements engine.Placer: a gang that cannot be bound is taken back soon, which says it.
func (Placer) Object(context.Context, client.Reader, []*corev1.Pod, []*corev1.Pod) map[types.UID]engine.Objection {
	return nil
}

// Release pins the pod and opens Trellis' gate in one patch, leaving gates of others closed.
// The patch carries the resourceVersion it was made from; on a conflict the pod is read again and the patch made anew.
func (p Placer) Release(ctx context.Context, pod *corev1.Pod, pin engine.Pin) error {
	current := pod
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if !Closed(current) {
			return nil
		}
		err := p.Client.Patch(ctx, Released(current, pin), client.MergeFromWithOptions(current, client.MergeFromWithOptimisticLock{}))
		if apierrors.IsConflict(err) {
			live, liveErr := p.reread(ctx, pod)
			if liveErr != nil {
				return liveErr
			}
			current = live
		}
		return err
	})
	if apierrors.IsNotFound(err) {
		return engine.ErrPodGone
	}
	if err != nil {
		return fmt.Errorf("releasing pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

func (p Placer) reread(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	live := &corev1.Pod{}
	if err := p.Live.Get(ctx, client.ObjectKeyFromObject(pod), live); err != nil {
		return nil, err
	}
	if live.UID != pod.UID || live.DeletionTimestamp != nil {
		return nil, engine.ErrPodGone
	}
	return live, nil
}

// TakeBack deletes exactly this pod.
func (p Placer) TakeBack(ctx context.Context, pod *corev1.Pod) error {
	err := p.Client.Delete(ctx, pod, client.Preconditions{UID: &pod.UID})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("taking back pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// Closed says whether Trellis' gate still holds the pod.
func Closed(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.SchedulingGates, isOurs)
}

func isOurs(gate corev1.PodSchedulingGate) bool { return gate.Name == graph.PlacementGate }

// Released returns the pod as it is once pinned and let go.
func Released(pod *corev1.Pod, pin engine.Pin) *corev1.Pod {
	out := pod.DeepCopy()
	metav1.SetMetaDataAnnotation(&out.ObjectMeta, graph.AnnotationGang, pin.Gang)
	if labels := graph.TopologyLabels(out, pin.Labels); len(labels) > 0 {
		maps.Copy(out.Labels, labels)
	}
	out.Spec.SchedulingGates = slices.DeleteFunc(out.Spec.SchedulingGates, isOurs)
	if len(pin.Labels) > 0 {
		if out.Spec.NodeSelector == nil {
			out.Spec.NodeSelector = map[string]string{}
		}
		maps.Copy(out.Spec.NodeSelector, pin.Labels)
	}
	if pin.Node != "" {
		pinHost(&out.Spec, pin.Node)
	}
	return out
}

// pinHost requires the node by its name, which is unique even where hostname labels are not. Terms of a node affinity are
// alternatives, so each of them gets the requirement; without any there will be one.
func pinHost(spec *corev1.PodSpec, node string) {
	if spec.Affinity == nil {
		spec.Affinity = &corev1.Affinity{}
	}
	if spec.Affinity.NodeAffinity == nil {
		spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	affinity := spec.Affinity.NodeAffinity
	if affinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		affinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: make([]corev1.NodeSelectorTerm, 1)}
	}
	terms := affinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	for i := range terms {
		terms[i].MatchFields = append(terms[i].MatchFields, corev1.NodeSelectorRequirement{
			Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node},
		})
	}
}

// PinnedHost returns the node a released pod was pinned to by pinHost, or "".
func PinnedHost(pod *corev1.Pod) string {
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil {
		return ""
	}
	required := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil {
		return ""
	}
	for _, term := range required.NodeSelectorTerms {
		for _, field := range term.MatchFields {
			if field.Key == metav1.ObjectNameField && field.Operator == corev1.NodeSelectorOpIn && len(field.Values) == 1 {
				return field.Values[0]
			}
		}
	}
	return ""
}
