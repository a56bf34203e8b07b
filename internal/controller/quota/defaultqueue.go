// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/quota"
	"github.com/trellis-k8s/trellis/internal/render"
)

// EventQueueJoined on a deployment means that Kueue has put pods of the deployment into the default queue of the namespace, and that the
// entire deployment is now in this queue.
const EventQueueJoined = "QueueJoined"

// join puts a deployment without a queue into the queue into which Kueue has put pods of the deployment. It sets the deployment's queue
// label, as Kueue does for objects of the kinds that it manages. While the operator cannot read Workloads, join does not set the label,
// because the label would prevent the creation of further pods.
func (r *Reconciler) join(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment) (joined bool, err error) {
	name := client.ObjectKeyFromObject(dgd)
	// The name is deleted from strays before pods are read, so that the event of a later pod adds it again.
	if _, stray := r.strays.LoadAndDelete(name); !stray || dgd.DeletionTimestamp != nil || dgd.Labels[render.LabelKueueQueue] != "" {
		return false, nil
	}
	groups, pods, err := r.made(ctx, dgd)
	if err != nil {
		r.strays.Store(name, true)
		return false, err
	}
	queue := quota.DefaultQueue(groups, pods)
	if queue == "" {
		return false, nil
	}
	r.strays.Store(name, true) // until the deployment has the label
	if own, _ := Reader(ctx, r.Providers); own == nil {
		return false, nil // a change of the provider's state requeues the deployment
	}
	return true, r.label(ctx, dgd, queue)
}

// label sets the queue label, provided the deployment has not changed since it was read, because a user may have set another queue.
func (r *Reconciler) label(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, queue string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": dgd.UID, "resourceVersion": dgd.ResourceVersion, "labels": map[string]string{render.LabelKueueQueue: queue},
	}})
	if err != nil {
		return err
	}
	log.FromContext(ctx).Info("putting a deployment into the default queue of its namespace", "queue", queue)
	err = r.Client.Patch(ctx, dgd.DeepCopy(), client.RawPatch(types.MergePatchType, patch), client.FieldOwner(render.FieldOwner))
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("putting deployment %s into queue %s: %w", dgd.Name, queue, err)
	}
	r.Recorder.Eventf(dgd, nil, corev1.EventTypeNormal, EventQueueJoined, "Label",
		"Kueue has put pods of the deployment into queue %s; the deployment has the label %s now, and waits for quota as a unit",
		queue, render.LabelKueueQueue)
	return nil
}
