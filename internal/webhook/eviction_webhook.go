// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/leaving"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
)

// Evictions are the dependencies of the decision about evictions.
type Evictions struct {
	// Cached reads pods, nodes, scaling groups and deployments from the operator's cache; Synced reports whether the cache is filled.
	Cached client.Reader
	Synced func() bool
	// Writer writes leaving.AnnotationEviction. Its writes do not depend on the lease, because a standby answers as well.
	Writer client.Writer
	// Leaving decides which nodes are to be removed.
	Leaving leaving.Rules
}

// evictionValidator refuses the eviction of a pod whose replica serves, with 429, and makes the replica move: callers retry until the
// replica has moved and the pod is gone. It allows all other evictions, also after failed reads or writes: disruption budgets bound them.
// It also records the request for a Ready pod of a replica that does not serve, because a budget may refuse the eviction: the operator
// recreates the replica elsewhere.
type evictionValidator struct{ Evictions }

var _ admission.Handler = &evictionValidator{}

// Handle implements admission.Handler.
func (v *evictionValidator) Handle(ctx context.Context, req admission.Request) admission.Response {
	if v.Cached == nil || !v.Synced() {
		return admission.Allowed("")
	}
	eviction := &policyv1.Eviction{}
	if err := json.Unmarshal(req.Object.Raw, eviction); err != nil {
		return admission.Allowed("").WithWarnings(fmt.Sprintf("the eviction cannot be read: %v", err))
	}
	e, err := v.find(ctx, req.Namespace, req.Name, eviction)
	switch {
	case err != nil:
		return admission.Allowed("").WithWarnings(fmt.Sprintf("whether the replica of the pod serves is not known: %v", err))
	case e == nil || !e.serves && (dryRun(req, eviction) || !render.PodReady(e.pod)):
		return admission.Allowed("")
	case dryRun(req, eviction):
		return admission.Allowed("").WithWarnings(fmt.Sprintf("%s would move first: its pods are evicted together, when its successor serves",
			e.name()))
	}
	if err := v.request(ctx, e.pod); err != nil {
		log.FromContext(ctx).Error(err, "an eviction passes without a move", "namespace", e.pod.Namespace, "pod", e.pod.Name)
		return admission.Allowed("").WithWarnings(fmt.Sprintf("the replica of the pod does not move first: %v", err))
	}
	if !e.serves {
		return admission.Allowed("")
	}
	return tooManyRequests(e.progress())
}

// dryRun reports whether the request, or the options in its body, ask for a dry run.
func dryRun(req admission.Request, eviction *policyv1.Eviction) bool {
	return ptr.Deref(req.DryRun, false) || eviction.DeleteOptions != nil && len(eviction.DeleteOptions.DryRun) > 0
}

// evicted is a pod to be evicted, of a replica that can move.
type evicted struct {
	pod    *corev1.Pod
	group  *trellisv1alpha1.ScalingGroup
	serves bool
}

// find returns the pod to be evicted; nil if its replica does not move.
func (v *evictionValidator) find(ctx context.Context, namespace, name string, eviction *policyv1.Eviction) (*evicted, error) {
	pod := &corev1.Pod{}
	if err := v.Cached.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, pod); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	group, uid, ours := render.GroupOf(pod)
	if !ours || pod.DeletionTimestamp != nil || isAnother(eviction, pod) {
		return nil, nil
	}
	sg := &trellisv1alpha1.ScalingGroup{}
	if err := v.Cached.Get(ctx, client.ObjectKey{Namespace: namespace, Name: group}, sg); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if sg.UID != uid || sg.DeletionTimestamp != nil || sg.Spec.Moves == trellisv1alpha1.MovesNever || !specs.Named(sg.Spec.Provider).Planned {
		return nil, nil
	}
	if ends, err := v.ends(ctx, sg); err != nil || ends {
		return nil, err
	}
	serves, err := v.serves(ctx, sg, pod)
	return &evicted{pod, sg, serves}, err
}

// name returns the name of the replica.
func (e *evicted) name() string { return fmt.Sprintf("%s-%d", e.group.Spec.Component, e.ordinal()) }

func (e *evicted) ordinal() int32 {
	ordinal, _, _ := render.ReplicaOf(e.pod)
	return ordinal
}

// isAnother reports whether the eviction is for another pod of the same name.
func isAnother(eviction *policyv1.Eviction, pod *corev1.Pod) bool {
	return eviction.DeleteOptions != nil && eviction.DeleteOptions.Preconditions != nil &&
		ptr.Deref(eviction.DeleteOptions.Preconditions.UID, pod.UID) != pod.UID
}

// ends reports whether the deployment of a group is being deleted, so no successor is created.
func (v *evictionValidator) ends(ctx context.Context, sg *trellisv1alpha1.ScalingGroup) (bool, error) {
	owner := metav1.GetControllerOfNoCopy(sg)
	if owner == nil {
		return true, nil
	}
	dgd := &nvidiav1beta1.DynamoGraphDeployment{}
	err := v.Cached.Get(ctx, client.ObjectKey{Namespace: sg.Namespace, Name: owner.Name}, dgd)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return err == nil && (dgd.UID != owner.UID || dgd.DeletionTimestamp != nil), err
}

// serves reports whether the replica of a pod is complete and Ready.
func (v *evictionValidator) serves(ctx context.Context, sg *trellisv1alpha1.ScalingGroup, pod *corev1.Pod) (bool, error) {
	pods := &corev1.PodList{}
	err := v.Cached.List(ctx, pods, client.InNamespace(pod.Namespace), client.UnsafeDisableDeepCopy, client.MatchingLabels{
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

// request records the eviction request on the pod.
func (v *evictionValidator) request(ctx context.Context, pod *corev1.Pod) error {
	request := leaving.Eviction{At: time.Now()}
	node := &corev1.Node{}
	if err := v.Cached.Get(ctx, client.ObjectKey{Name: pod.Spec.NodeName}, node); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading node %s: %w", pod.Spec.NodeName, err)
	}
	request.WithNode = node.Spec.Unschedulable || v.Leaving.Why(node) != ""
	if !request.Replaces(pod) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "annotations": map[string]string{leaving.AnnotationEviction: request.String()},
	}})
	if err != nil {
		return err
	}
	to := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	if err := v.Writer.Patch(ctx, to, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("writing the annotation %s of pod %s: %w", leaving.AnnotationEviction, pod.Name, err)
	}
	return nil
}

// progress describes the move of the replica.
func (e *evicted) progress() string {
	status := &e.group.Status
	moves := slices.ContainsFunc(status.Moves, func(m trellisv1alpha1.ReplicaMove) bool { return m.Replica == e.ordinal() })
	if c := meta.FindStatusCondition(status.Conditions, trellisv1alpha1.ConditionMoved); moves && c != nil {
		return c.Message
	}
	return fmt.Sprintf("moving %s: its successor is to be created", e.name())
}

// tooManyRequests is the response after which callers of the eviction API retry.
func tooManyRequests(message string) admission.Response {
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Result: &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests, Message: message,
	}}}
}
