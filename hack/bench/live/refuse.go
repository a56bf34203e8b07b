// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/hack/bench/hall"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/provider/grove"
	"github.com/trellis-k8s/trellis/internal/provider/kai"
)

// theirs are the kinds of objects that exist for a deployment under KAI and Grove.
var theirs = []schema.GroupVersionKind{
	grove.PodCliqueSetKind, grove.PodCliqueScalingGroupKind, grove.PodCliqueKind, {Group: "scheduler.grove.io", Version: "v1alpha1",
		Kind: "PodGang"},
	kai.PodGroupKind, {Group: "scheduling.run.ai", Version: "v1alpha2", Kind: "BindRequest"},
}

// othersNamespace has the pods that fill a cluster: clear does not delete them.
const othersNamespace = "others"

// Occupy lets pods of another client take a part of every host, so that no host is entirely free, and waits until the machine is quiet.
func (c *Cluster) Occupy(ctx context.Context) error {
	if err := c.c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: othersNamespace}}); err != nil {
		return err
	}
	var batch []client.Object
	for _, pod := range c.shape.Full(hall.Random(1)) {
		pod.Namespace, pod.UID, pod.Status = othersNamespace, "", corev1.PodStatus{}
		pod.Spec.Containers[0].Resources.Limits = pod.Spec.Containers[0].Resources.Requests
		pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](0)
		batch = append(batch, pod)
	}
	if err := c.create(ctx, batch); err != nil {
		return err
	}
	return untilQuiet(ctx)
}

// Refuse creates one deployment that does not fit, and returns the time until its condition Placed explains why, and the message. Then it
// deletes the deployment.
func (c *Cluster) Refuse(ctx context.Context, way Way, pods int) (took time.Duration, why string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	p, err := c.follow(ctx, boundOnly)
	if err != nil {
		return 0, "", err
	}
	defer p.events.Stop()
	dgds := &nvidiav1beta1.DynamoGraphDeploymentList{}
	if err := c.c.List(ctx, dgds, client.InNamespace(namespace)); err != nil {
		return 0, "", err
	}
	if left := len(p.byName) + len(dgds.Items); left > 0 {
		return 0, "", fmt.Errorf("%d objects are left from before", left)
	}
	events, err := c.c.Watch(ctx, dgds, client.InNamespace(namespace), &client.ListOptions{Raw: &metav1.ListOptions{
		ResourceVersion: dgds.ResourceVersion}})
	if err != nil {
		return 0, "", err
	}
	defer events.Stop()
	begin := time.Now()
	if err := c.create(ctx, way.objects(c.shape, 1, pods)[0]); err != nil {
		return 0, "", err
	}
	for why == "" {
		event, open := <-events.ResultChan()
		dgd, ok := event.Object.(*nvidiav1beta1.DynamoGraphDeployment)
		if !open || !ok {
			return 0, "", fmt.Errorf("%s: the watch of deployments has ended: %w", way.Name, errors.Join(context.Cause(ctx), fmt.Errorf("%v",
				event.Object)))
		}
		why = refusal(dgd)
	}
	took = time.Since(begin)
	bound := &corev1.PodList{}
	if err := c.c.List(ctx, bound, client.InNamespace(namespace), boundOnly); err != nil || len(bound.Items) > 0 {
		return 0, "", fmt.Errorf("%s: %d pods are bound on a full cluster: %w", way.Name, len(bound.Items), err)
	}
	return took, why, c.clear(ctx, p)
}

// refusal returns why a deployment has no place: the planner's numbers, or the message of the scheduler that Grove uses. A message that
// Trellis waits for something is not a refusal.
func refusal(dgd *nvidiav1beta1.DynamoGraphDeployment) string {
	placed := meta.FindStatusCondition(dgd.Status.Conditions, nvidiav1beta1.ConditionPlaced)
	if placed == nil || placed.Status != metav1.ConditionFalse {
		return ""
	}
	if placed.Reason == placement.CodeInsufficientCapacity || strings.Contains(placed.Message, "KAI: ") {
		return placed.Message
	}
	return ""
}
