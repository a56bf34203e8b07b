// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/controller/scalingadapter"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/quota"
	"github.com/trellis-k8s/trellis/internal/scheduler"
)

// observed is the state from which one reconcile derives the children and the status.
type observed struct {
	dgd *nvidiav1beta1.DynamoGraphDeployment
	// now is the time of the observation.
	now time.Time
	// stated is the topology constraint in the fields or annotations of the deployment, before it is resolved.
	stated constraint.Statement
	// clusterTopology is the deployment's ClusterTopology; nil if the deployment names none, or if the ClusterTopology does not exist.
	clusterTopology *grovev1alpha1.ClusterTopology
	// refreshed has, by component, the constraints that the groups get, with the topology's current levels; nil if the groups keep their
	// frozen constraints.
	refreshed map[string]*trellisv1alpha1.ResolvedTopology
	// defaults are the default topologies, read for a new deployment without a constraint. nodes are the cluster's nodes, read if there are
	// several default topologies.
	defaults []*grovev1alpha1.ClusterTopology
	nodes    []*corev1.Node
	// groups are the deployment's own scaling groups, by component.
	groups map[string]*trellisv1alpha1.ScalingGroup
	// adapters are the scaling adapters that refer to the deployment's name.
	adapters []nvidiav1beta1.DynamoGraphDeploymentScalingAdapter
	// settled is the deployment with the replicas to act on. overLimit is the message that the pod limit allows fewer replicas than
	// requested; "" if the limit allows all of them. See [Reconciler.settle].
	settled   *nvidiav1beta1.DynamoGraphDeployment
	overLimit string
	// result is the result of the scheduler. judged reports whether there is a result since the operator's start.
	result gang.Result
	judged bool
	// provider is the provider of the deployment, with its state.
	provider providerView
	// workload is the provider's observation of the deployment's pods if the provider makes the pods itself; nil otherwise.
	workload *provider.Observation
	// orphans are objects without an owner that earlier deployments of this name left behind. notAdopted are the orphans that cannot be
	// adopted, known once children are applied.
	orphans    []client.Object
	notAdopted []*orphan
	// prerequisites are the objects that the deployment needs but Trellis does not create; known once the deployment is resolved.
	prerequisites prerequisites
	// history holds the stored generations of the workers, the newest first.
	history []*appsv1.ControllerRevision
	// quota is the state of the deployment in Kueue; nil if the deployment is in no queue.
	quota *quota.Report
	// shapes has the GPUs of one replica of each component, known once the deployment is resolved.
	shapes shapes
}

// observe reads the state from which a reconcile derives the children and the status.
func (r *Reconciler) observe(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment) (observed, error) {
	o := observed{dgd: dgd, now: time.Now()}
	o.stated = constraint.StatementOf(dgd)
	name := client.ObjectKeyFromObject(dgd)
	var err error
	if o.groups, err = r.groupsOf(ctx, dgd); err != nil {
		return o, err
	}
	if o.adapters, err = scalingadapter.List(ctx, r.Client, name); err != nil {
		return o, err
	}
	if err := r.observeDefaults(ctx, &o); err != nil {
		return o, err
	}
	if o.clusterTopology, err = r.topologyOf(ctx, o); err != nil {
		return o, err
	}
	o.provider = r.providerOf(ctx, o)
	o.refreshed = r.refresh(ctx, o)
	if o.workload, err = r.observeWorkload(ctx, o); err != nil {
		return o, err
	}
	if o.quota, err = r.quotaOf(ctx, o); err != nil {
		return o, err
	}
	if o.history, err = r.historyOf(ctx, dgd); err != nil {
		return o, err
	}
	o.result, o.judged = r.Results.Get(name, dgd.UID)
	return o, nil
}

// groupsOf returns the deployment's own scaling groups, by component.
func (r *Reconciler) groupsOf(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment) (map[string]*trellisv1alpha1.ScalingGroup,
	error) {
	list, err := scheduler.GroupsOf(ctx, r.Client, dgd.Namespace, dgd.UID)
	if err != nil {
		return nil, err
	}
	groups := make(map[string]*trellisv1alpha1.ScalingGroup, len(list))
	for _, sg := range list {
		groups[sg.Spec.Component] = sg
	}
	return groups, nil
}

// topologyOf reads the deployment's ClusterTopology; nil if it does not exist.
func (r *Reconciler) topologyOf(ctx context.Context, o observed) (*grovev1alpha1.ClusterTopology, error) {
	name := o.topologyName()
	if name == "" {
		return nil, nil
	}
	ct := &grovev1alpha1.ClusterTopology{}
	err := r.Client.Get(ctx, types.NamespacedName{Name: name}, ct)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading ClusterTopology %q: %w", name, err)
	}
	return ct, nil
}
