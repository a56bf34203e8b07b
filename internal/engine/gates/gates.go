// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gates places pods by scheduling gates (KEP-3521): a gated pod's node selector may still be narrowed, so one patch
// adds the pins and opens the gate, and the ordinary kube-scheduler binds the pod inside its domain.
package gates

import (
	"context"
	"encoding/json"
	"fmt"
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
//
// It also ends the tracking of managed fields: who set which field of a pod that is made once and never applied again is of use to nobody, and
// keeping book of it costs the API server more than half of every write to the pod, those of the binding and of the kubelet included.
func (p Placer) Release(ctx context.Context, pod *corev1.Pod, pin engine.Pin) error {
	current := pod
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if !Closed(current) {
			return nil
		}
		err := p.release(ctx, current, pin)
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

func (p Placer) release(ctx context.Context, pod *corev1.Pod, pin engine.Pin) error {
	patch, err := json.Marshal(patchFor(pod, pin))
	if err != nil {
		return err
	}
	answer := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	return p.Client.Patch(ctx, answer, client.RawPatch(types.MergePatchType, patch))
}

// releasePatch is the merge patch of a release: written out, since finding it by comparing two pods is most of the operator's work for it.
type releasePatch struct {
	Metadata struct {
		ResourceVersion string                      `json:"resourceVersion"`
		Annotations     map[string]string           `json:"annotations"`
		Labels          map[string]string           `json:"labels,omitempty"`
		ManagedFields   []metav1.ManagedFieldsEntry `json:"managedFields"`
	} `json:"metadata"`
	Spec struct {
		SchedulingGates []corev1.PodSchedulingGate `json:"schedulingGates"`
		NodeSelector    map[string]string          `json:"nodeSelector,omitempty"`
		Affinity        *corev1.Affinity           `json:"affinity,omitempty"`
	} `json:"spec"`
}

func patchFor(pod *corev1.Pod, pin engine.Pin) releasePatch {
	var patch releasePatch
	patch.Metadata.ResourceVersion = pod.ResourceVersion
	patch.Metadata.Annotations = map[string]string{graph.AnnotationGang: pin.Gang}
	patch.Metadata.Labels = graph.TopologyLabels(pod, pin.Labels)
	patch.Metadata.ManagedFields = []metav1.ManagedFieldsEntry{{}} // the API's way to say "none"
	patch.Spec.SchedulingGates = slices.DeleteFunc(slices.Clone(pod.Spec.SchedulingGates), isOurs)
	patch.Spec.NodeSelector = pin.Labels
	if pin.Node != "" {
		spec := corev1.PodSpec{Affinity: pod.Spec.Affinity.DeepCopy()}
		pinHost(&spec, pin.Node)
		patch.Spec.Affinity = spec.Affinity
	}
	return patch
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
