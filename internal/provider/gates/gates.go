// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gates places pods by scheduling gates (KEP-3521): a gated pod's node selector may still be narrowed, so one patch
// adds the pins and opens the gate, and the ordinary kube-scheduler binds the pod inside its domain.
package gates

import (
	"context"
	"encoding/json"
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
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/graph"
	"github.com/trellis-k8s/trellis/internal/provider"
)

// Placer is the provider Gates.
type Placer struct {
	// Client writes.
	Client client.Client
	// Live reads past every cache.
	Live client.Reader
	// NameNodes writes the names of nodes into pods, where the planner gives them: the kube-scheduler goes through nodes by name instead of
	// going through all of them.
	NameNodes bool
}

var _ provider.Placer = Placer{}

// Name implements provider.Provider.
func (Placer) Name() string { return graph.ProviderGates }

// Probe implements provider.Provider: scheduling gates are there in every Kubernetes that Trellis supports.
func (Placer) Probe(context.Context) (provider.State, error) { return provider.Ready(), nil }

// Unsuited implements provider.Provider.
func (Placer) Unsuited([]*trellisv1alpha1.ScalingGroup) string { return "" }

// Watches implements provider.Provider.
func (Placer) Watches() []provider.Watch { return nil }

// Prepare implements provider.Placer: the gate is all.
func (Placer) Prepare(*trellisv1alpha1.ScalingGroup, int32, []*corev1.Pod, []*corev1.Pod) {}

// Kept implements provider.Placer. A pod made for another provider would wait for what only that provider makes.
func (Placer) Kept(pods []*corev1.Pod) bool {
	return !slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return pod.Annotations[graph.AnnotationPodProvider] != "" })
}

// Form implements provider.Placer: the pins hold the gang together.
func (Placer) Form(context.Context, provider.Gang) error { return nil }

// Objections implements provider.Placer: a gang that cannot be bound is requeued soon, which says it.
func (Placer) Objections(context.Context, client.Reader, []*corev1.Pod, []*corev1.Pod) map[types.UID]gang.Objection {
	return nil
}

// Release pins the pod and opens Trellis' gate in one patch, leaving gates of others closed.
// The patch carries the resourceVersion it was made from; on a conflict the pod is read again and the patch made from that.
// The API server goes on tracking the managed fields of the pod: they say who set what, also on pods that others edited.
func (p Placer) Release(ctx context.Context, pod *corev1.Pod, pin gang.Pin) error {
	current := pod
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if !graph.GateClosed(current) {
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
		return provider.ErrPodGone
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
		return nil, provider.ErrPodGone
	}
	return live, nil
}

// Evict deletes exactly this pod.
func (p Placer) Evict(ctx context.Context, pod *corev1.Pod) error {
	err := p.Client.Delete(ctx, pod, client.Preconditions{UID: &pod.UID})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("evicting pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

func (p Placer) release(ctx context.Context, pod *corev1.Pod, pin gang.Pin) error {
	patch, err := json.Marshal(p.patchFor(pod, pin))
	if err != nil {
		return err
	}
	answer := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	return p.Client.Patch(ctx, answer, client.RawPatch(types.StrategicMergePatchType, patch))
}

// releasePatch is written out, since finding it by comparing two pods is most of the operator's work for it. It is a strategic merge patch:
// a JSON merge patch costs the API server 1.5 times as much, since that takes the whole pod through JSON.
type releasePatch struct {
	Metadata struct {
		ResourceVersion string            `json:"resourceVersion"`
		Annotations     map[string]string `json:"annotations"`
		Labels          map[string]string `json:"labels,omitempty"`
	} `json:"metadata"`
	Spec struct {
		SchedulingGates []noGate          `json:"schedulingGates"`
		NodeSelector    map[string]string `json:"nodeSelector,omitempty"`
		Affinity        *corev1.Affinity  `json:"affinity,omitempty"`
	} `json:"spec"`
}

// noGate takes one gate from a pod and leaves those of others.
type noGate struct {
	Directive string `json:"$patch"`
	Name      string `json:"name"`
}

func (p Placer) patchFor(pod *corev1.Pod, pin gang.Pin) releasePatch {
	var patch releasePatch
	patch.Metadata.ResourceVersion = pod.ResourceVersion
	patch.Metadata.Annotations = map[string]string{graph.AnnotationGang: pin.Gang}
	maps.Copy(patch.Metadata.Annotations, pin.PodAnnotations)
	patch.Metadata.Labels = merged(graph.TopologyLabels(pod, pin.Labels), pin.PodLabels)
	patch.Spec.SchedulingGates = []noGate{{Directive: "delete", Name: graph.PlacementGate}}
	patch.Spec.NodeSelector = pin.Labels
	switch {
	case pin.Node != "":
		patch.Spec.Affinity = pinHost(pod.Spec.Affinity, pin.Node)
	case p.NameNodes && len(pin.Nodes) > 0 && !hasTerms(pod.Spec.Affinity):
		patch.Spec.Affinity = nameNodes(pod.Spec.Affinity, pin.Nodes)
	}
	return patch
}

func merged(labels, more map[string]string) map[string]string {
	if len(more) == 0 {
		return labels
	}
	out := maps.Clone(more)
	maps.Copy(out, labels)
	return out
}

// pinHost requires the node by its name, which is unique even where hostname labels are not. Terms of a node affinity are
// alternatives, so each of them gets the requirement; without any there will be one.
func pinHost(had *corev1.Affinity, node string) *corev1.Affinity {
	affinity, required := requiring(had)
	if len(required.NodeSelectorTerms) == 0 {
		required.NodeSelectorTerms = make([]corev1.NodeSelectorTerm, 1)
	}
	for i := range required.NodeSelectorTerms {
		term := &required.NodeSelectorTerms[i]
		term.MatchFields = append(term.MatchFields, named(node))
	}
	return affinity
}

// nameNodes requires any one of the nodes: an alternative for each, since a field can be compared with one value only. The kube-scheduler
// then filters these nodes alone. Terms of the pod's own would have to be multiplied with them, so only a pod without any is served.
func nameNodes(had *corev1.Affinity, nodes []string) *corev1.Affinity {
	affinity, required := requiring(had)
	for _, node := range nodes {
		required.NodeSelectorTerms = append(required.NodeSelectorTerms, corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{named(node)}})
	}
	return affinity
}

func named(node string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}
}

// requiring returns a copy of an affinity, and what it requires of nodes, to be added to.
func requiring(had *corev1.Affinity) (*corev1.Affinity, *corev1.NodeSelector) {
	affinity := had.DeepCopy()
	if affinity == nil {
		affinity = &corev1.Affinity{}
	}
	if affinity.NodeAffinity == nil {
		affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	if affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{}
	}
	return affinity, affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
}

func hasTerms(affinity *corev1.Affinity) bool {
	return affinity != nil && affinity.NodeAffinity != nil && affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil
}
