// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/capacity"
	quotacontroller "github.com/trellis-k8s/trellis/internal/controller/quota"
	"github.com/trellis-k8s/trellis/internal/quota"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/scheduler"
)

// deployments has deployments by UID.
type deployments map[types.UID]*nvidiav1beta1.DynamoGraphDeployment

// observe reads the waiting gangs and the existing capacity requests.
func (r *Reconciler) observe(ctx context.Context) (o capacity.Observation, all deployments, err error) {
	list := &nvidiav1beta1.DynamoGraphDeploymentList{}
	if err := r.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return o, nil, fmt.Errorf("listing deployments: %w", err)
	}
	all, o.Unplanned = deployments{}, map[types.UID]bool{}
	for i := range list.Items {
		dgd := &list.Items[i]
		kind := capacity.KindOf(dgd.Annotations, r.Options.Preset)
		if dgd.DeletionTimestamp != nil || kind == "" || kind == capacity.KindNone {
			continue
		}
		gangs, known, err := r.gangs(ctx, dgd, kind)
		if err != nil {
			return o, nil, err
		}
		o.Unplanned[dgd.UID] = !known
		all[dgd.UID], o.Gangs = dgd, append(o.Gangs, gangs...)
	}
	if o.Placeholders, err = r.placeholders(ctx); err != nil {
		return o, nil, err
	}
	return o, all, r.observeRequests(ctx, &o)
}

// gangs returns the gangs of a deployment that wait for capacity. known reports whether the scheduler has planned the deployment since the
// operator's start, including the pods of all its Kueue Workloads that wait for Trellis' AdmissionCheck.
func (r *Reconciler) gangs(
	ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, kind string,
) (gangs []capacity.Gang, known bool, err error) {
	name := client.ObjectKeyFromObject(dgd)
	result, judged := r.Results.Get(name, dgd.UID)
	known = judged && (!quotacontroller.Concerns(dgd) || r.Promises.Known(name))
	if !judged || len(result.Waiting) == 0 {
		return nil, known, nil
	}
	s := capacity.Source{DGD: dgd, Result: result, Kind: kind, NewNodeLabels: r.Options.NewNodeLabels}
	if s.Groups, err = scheduler.GroupsOf(ctx, r.Client, dgd.Namespace, dgd.UID, client.UnsafeDisableDeepCopy); err != nil {
		return nil, false, err
	}
	pods := &corev1.PodList{}
	if err := r.Client.List(ctx, pods, client.InNamespace(dgd.Namespace), client.UnsafeDisableDeepCopy,
		client.MatchingFields{scheduler.IndexPodsByGraph: render.LabelValue(dgd.Name)}); err != nil {
		return nil, false, fmt.Errorf("listing the pods of deployment %s: %w", dgd.Name, err)
	}
	promises := r.Promises.Of(name)
	for i := range pods.Items {
		workload := quota.WorkloadOf(&pods.Items[i])
		pod, promised := promises[workload].Admit(&pods.Items[i])
		if _, planned := result.Checked[workload]; promised && !planned {
			known = false
		}
		s.Pods = append(s.Pods, pod)
	}
	gangs = s.Gangs()
	for i := range gangs {
		gangs[i].Bars = r.bars(gangs[i].Bars, kind)
	}
	return gangs, known, nil
}

// bars returns the reason why no capacity can be requested for a gang: the gang's own reason, or that the operator does not allow the kind;
// "" for none.
func (r *Reconciler) bars(gang, kind string) string {
	if gang == "" && slices.Contains(capacity.Kinds, kind) && !slices.Contains(r.Options.Kinds, kind) {
		return fmt.Sprintf("the operator does not request capacity with %s (--capacity-requests)", kind)
	}
	return gang
}

// placeholders returns the existing placeholders.
func (r *Reconciler) placeholders(ctx context.Context) ([]capacity.Placeholder, error) {
	pods, err := r.placeholderPods(ctx)
	if err != nil {
		return nil, err
	}
	var out []capacity.Placeholder
	for i := range pods {
		pod := &pods[i]
		one := capacity.Placeholder{
			Name: pod.Name, UID: pod.UID, Ask: pod.Labels[capacity.LabelAsk], Graph: types.UID(pod.Labels[capacity.LabelGraphUID]),
			Created: pod.CreationTimestamp.Time, Leaving: pod.DeletionTimestamp != nil,
			Ended: pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed,
		}
		if pod.Spec.NodeName != "" {
			node := &corev1.Node{}
			err := r.Client.Get(ctx, types.NamespacedName{Name: pod.Spec.NodeName}, node)
			if client.IgnoreNotFound(err) != nil {
				return nil, fmt.Errorf("reading node %s: %w", pod.Spec.NodeName, err)
			}
			one.NodeCreated = node.CreationTimestamp.Time
		}
		out = append(out, one)
	}
	return out, nil
}

func (r *Reconciler) placeholderPods(ctx context.Context) ([]corev1.Pod, error) {
	pods := &corev1.PodList{}
	if err := r.Client.List(ctx, pods, client.InNamespace(r.Namespace), client.HasLabels{capacity.LabelAsk},
		client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing placeholders: %w", err)
	}
	return slices.DeleteFunc(slices.Clone(pods.Items), func(pod corev1.Pod) bool { return !capacity.IsPlaceholder(&pod, r.Namespace) }), nil
}
