// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/podlimit"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/replicas"
	"github.com/trellis-k8s/trellis/internal/validation"
)

// settle returns the deployment with the replicas to act on, and a message if the pod limit allows fewer replicas than requested. Before
// the limit reduces a group, settle counts the groups' pods in the API server.
func (r *Reconciler) settle(ctx context.Context, o observed) (settled *nvidiav1beta1.DynamoGraphDeployment, overLimit string, err error) {
	settled, overLimit = settleBy(o, o.groups, r.MaxPods)
	if overLimit == "" || !reduces(settled, o.groups) {
		return settled, overLimit, nil
	}
	counted, err := r.counted(ctx, o.groups)
	if err != nil {
		return nil, "", err
	}
	settled, overLimit = settleBy(o, counted, r.MaxPods)
	return settled, overLimit, nil
}

// settleBy does the work of [Reconciler.settle] for the given groups and their counts. A component keeps its replicas while its adapter and
// the deployment disagree. The pod limit of the graph then bounds the resulting replicas of all components together.
func settleBy(
	o observed, groups map[string]*trellisv1alpha1.ScalingGroup, maxPods int64,
) (settled *nvidiav1beta1.DynamoGraphDeployment, overLimit string) {
	has := map[string]int32{}
	for component, sg := range groups {
		has[component] = sg.Spec.Replicas
	}
	wanted := replicas.Settled(o.dgd, o.adapters, has)
	settled, short := podlimit.Bound(wanted, groups, maxPods)
	if settled == wanted {
		return settled, ""
	}
	return settled, validation.Exceeded(wanted, short, maxPods)
}

// reduces reports whether a group gets fewer replicas than its spec has.
func reduces(settled *nvidiav1beta1.DynamoGraphDeployment, groups map[string]*trellisv1alpha1.ScalingGroup) bool {
	for component, sg := range groups {
		if c := settled.Component(component); c != nil && c.Replicas != nil && *c.Replicas < sg.Spec.Replicas {
			return true
		}
	}
	return false
}

// counted returns copies of the groups in which status.replicas is at least the number of replicas with pods in the API server. The status
// lags behind the pods, for example when the operator that created them has stopped.
func (r *Reconciler) counted(
	ctx context.Context, groups map[string]*trellisv1alpha1.ScalingGroup,
) (map[string]*trellisv1alpha1.ScalingGroup, error) {
	out := make(map[string]*trellisv1alpha1.ScalingGroup, len(groups))
	for component, sg := range groups {
		pods := &metav1.PartialObjectMetadataList{}
		pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
		of := client.MatchingLabels(render.Selector(sg.Spec.Graph, sg.Name))
		if err := r.Live.List(ctx, pods, client.InNamespace(sg.Namespace), of); err != nil {
			return nil, fmt.Errorf("listing the pods of ScalingGroup %s: %w", sg.Name, err)
		}
		existing := map[string]bool{}
		for i := range pods.Items {
			pod := &corev1.Pod{ObjectMeta: pods.Items[i].ObjectMeta}
			if _, uid, owned := render.GroupOf(pod); owned && uid == sg.UID && pod.DeletionTimestamp == nil {
				existing[pod.Labels[render.LabelReplica]] = true
			}
		}
		sg = sg.DeepCopy()
		sg.Status.Replicas = max(sg.Status.Replicas, int32(min(len(existing), nvidiav1beta1.MaxReplicas)))
		out[component] = sg
	}
	return out, nil
}
