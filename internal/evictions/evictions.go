// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package evictions finds the replica that loses a pod to an eviction, and stores a request in the pod to move the replica. The webhook on
// pods/eviction and the responder to Eviction resources share this package.
package evictions

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/leaving"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
)

// Requests reads and stores requests to move replicas.
type Requests struct {
	// Cached reads pods, nodes, scaling groups and deployments from the operator's cache.
	Cached client.Reader
	// Writer writes leaving.AnnotationEviction.
	Writer client.Writer
	// Leaving has the rules for nodes that are to be removed.
	Leaving leaving.Rules
}

// Target is a pod to be evicted whose replica the operator moves.
type Target struct {
	Pod   *corev1.Pod
	group *trellisv1alpha1.ScalingGroup
	// Serves: all pods of the replica are bound and Ready.
	Serves bool
}

// Find returns a pod by its name and UID; the UID may be empty. It returns nil for pods that may be evicted immediately: pods that do not
// exist or are being deleted, pods of other owners, pods of replicas that do not move, and pods whose deployment is gone or being deleted.
func (r Requests) Find(ctx context.Context, name types.NamespacedName, uid types.UID) (*Target, error) {
	pod := &corev1.Pod{}
	if err := r.Cached.Get(ctx, name, pod); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	group, owner, ours := render.GroupOf(pod)
	if !ours || pod.DeletionTimestamp != nil || uid != "" && uid != pod.UID {
		return nil, nil
	}
	sg := &trellisv1alpha1.ScalingGroup{}
	if err := r.Cached.Get(ctx, client.ObjectKey{Namespace: name.Namespace, Name: group}, sg); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	moves := sg.Spec.Moves != trellisv1alpha1.MovesNever && specs.Named(sg.Spec.Provider).Planned
	if sg.UID != owner || sg.DeletionTimestamp != nil || !moves {
		return nil, nil
	}
	if ends, err := r.ends(ctx, sg); err != nil || ends {
		return nil, err
	}
	serves, err := r.serves(ctx, sg, pod)
	return &Target{pod, sg, serves}, err
}

// ends reports whether the deployment of a group is gone or being deleted.
func (r Requests) ends(ctx context.Context, sg *trellisv1alpha1.ScalingGroup) (bool, error) {
	owner := metav1.GetControllerOfNoCopy(sg)
	if owner == nil {
		return true, nil
	}
	dgd := &nvidiav1beta1.DynamoGraphDeployment{}
	err := r.Cached.Get(ctx, client.ObjectKey{Namespace: sg.Namespace, Name: owner.Name}, dgd)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return err == nil && (dgd.UID != owner.UID || dgd.DeletionTimestamp != nil), err
}

// serves reports whether all pods of a pod's replica are bound and Ready.
func (r Requests) serves(ctx context.Context, sg *trellisv1alpha1.ScalingGroup, pod *corev1.Pod) (bool, error) {
	pods := &corev1.PodList{}
	err := r.Cached.List(ctx, pods, client.InNamespace(pod.Namespace), client.UnsafeDisableDeepCopy, client.MatchingLabels{
		render.LabelScalingGroup: pod.Labels[render.LabelScalingGroup], render.LabelReplica: pod.Labels[render.LabelReplica],
	})
	if err != nil {
		return false, err
	}
	ready := 0
	for i := range pods.Items {
		one := &pods.Items[i]
		if one.Spec.NodeName == "" || one.DeletionTimestamp != nil || !render.PodReady(one) {
			return false, nil
		}
		ready++
	}
	return ready >= render.ReplicaSize(sg, pod), nil
}

// Store stores the request in the pod, unless the pod has an equal and recent request.
func (r Requests) Store(ctx context.Context, t *Target) error {
	request := leaving.Eviction{At: time.Now()}
	node := &corev1.Node{}
	if err := r.Cached.Get(ctx, client.ObjectKey{Name: t.Pod.Spec.NodeName}, node); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading node %s: %w", t.Pod.Spec.NodeName, err)
	}
	request.WithNode = node.Spec.Unschedulable || r.Leaving.Why(node) != ""
	if !request.Replaces(t.Pod) {
		return nil
	}
	value := request.String()
	return r.annotate(ctx, t.Pod, &value)
}

// Withdraw removes the request from the pod. It keeps a request that is newer than the given time, and a request that frees a place for a
// waiting deployment.
func (r Requests) Withdraw(ctx context.Context, t *Target, until time.Time) error {
	if request, has := leaving.EvictionOf(t.Pod); !has || request.For != "" || request.At.After(until) {
		return nil
	}
	return r.annotate(ctx, t.Pod, nil)
}

// annotate writes the eviction annotation of a pod; a nil value removes the annotation. Because of the UID in the patch, it never changes
// another pod of the same name.
func (r Requests) annotate(ctx context.Context, pod *corev1.Pod, value *string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "annotations": map[string]*string{leaving.AnnotationEviction: value},
	}})
	if err != nil {
		return err
	}
	to := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	if err := r.Writer.Patch(ctx, to, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("writing the annotation %s of pod %s: %w", leaving.AnnotationEviction, pod.Name, err)
	}
	return nil
}

// Name returns the component and the ordinal of the replica.
func (t *Target) Name() string { return fmt.Sprintf("%s-%d", t.group.Spec.Component, t.ordinal()) }

func (t *Target) ordinal() int32 {
	ordinal, _, _ := render.ReplicaOf(t.Pod)
	return ordinal
}

// Progress returns the state of the move, from the scaling group's condition Moved.
func (t *Target) Progress() string {
	status := &t.group.Status
	moves := slices.ContainsFunc(status.Moves, func(m trellisv1alpha1.ReplicaMove) bool { return m.Replica == t.ordinal() })
	if c := meta.FindStatusCondition(status.Conditions, trellisv1alpha1.ConditionMoved); moves && c != nil {
		return c.Message
	}
	return fmt.Sprintf("moving %s: its successor is to be created", t.Name())
}
