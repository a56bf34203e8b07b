// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/frontend"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/rollout"
)

// askFrontends marks the new replicas that a frontend does not list, where the deployment has frontends asked.
func (r *Reconciler) askFrontends(
	ctx context.Context, sg *trellisv1alpha1.ScalingGroup, replicas map[int32]*replica, published map[int32][]metav1.PartialObjectMetadata,
) (again time.Duration, err error) {
	dgd := &nvidiav1beta1.DynamoGraphDeployment{}
	if err := r.Client.Get(ctx, types.NamespacedName{Namespace: sg.Namespace, Name: sg.Spec.Graph}, dgd); err != nil {
		return 0, wrapped(client.IgnoreNotFound(err), "reading the deployment")
	}
	if control, _ := rollout.ControlOf(dgd); !control.AskFrontends {
		return 0, nil
	}
	frontends, err := r.frontendsOf(ctx, sg)
	if err != nil || len(frontends) == 0 {
		return 0, err
	}
	asked := map[types.UID]bool{}
	for ordinal, metadata := range published {
		one := replicas[ordinal]
		if one.outdated || !one.whole() || !one.available() {
			continue
		}
		instances, err := r.instancesIn(ctx, sg, metadata)
		if err != nil {
			return 0, err
		}
		for i := range metadata {
			asked[metadata[i].UID] = true
		}
		if one.notAccepted = r.unknownTo(frontends, instances); one.notAccepted != "" {
			again = frontend.Again
		}
	}
	r.published.Keep(client.ObjectKeyFromObject(sg), asked)
	return again, nil
}

// frontendsOf are the frontends of the group's deployment that are Ready, by the names of their pods.
func (r *Reconciler) frontendsOf(ctx context.Context, sg *trellisv1alpha1.ScalingGroup) (map[string]frontend.Frontend, error) {
	groups, err := r.groupsOf(ctx, sg)
	if err != nil {
		return nil, err
	}
	out := map[string]frontend.Frontend{}
	for _, group := range groups {
		port, serves := render.FrontendPort(group)
		if !serves {
			continue
		}
		pods := &corev1.PodList{}
		if err := r.Client.List(ctx, pods, client.InNamespace(sg.Namespace), client.MatchingFields{indexPodsByGroup: group.Name}); err != nil {
			return nil, fmt.Errorf("listing the pods of frontend %s: %w", group.Name, err)
		}
		for i := range pods.Items {
			if pod := &pods.Items[i]; metav1.IsControlledBy(pod, group) && pod.DeletionTimestamp == nil && render.PodReady(pod) &&
				pod.Status.PodIP != "" {
				out[pod.Name] = frontend.Frontend{UID: pod.UID, URL: "http://" + net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(int(port))) +
					"/health"}
			}
		}
	}
	return out, nil
}

// instancesIn are what DynamoWorkerMetadatas publish. Their content is not cached: each version of one is read once.
func (r *Reconciler) instancesIn(ctx context.Context, sg *trellisv1alpha1.ScalingGroup,
	metadata []metav1.PartialObjectMetadata) ([]frontend.Instance, error) {
	var out []frontend.Instance
	group := client.ObjectKeyFromObject(sg)
	for i := range metadata {
		instances, known := r.published.Of(group, metadata[i].UID, metadata[i].ResourceVersion)
		if !known {
			content := &nvidiav1alpha1.DynamoWorkerMetadata{}
			if err := r.Live.Get(ctx, client.ObjectKeyFromObject(&metadata[i]), content); apierrors.IsNotFound(err) {
				continue
			} else if err != nil {
				return nil, fmt.Errorf("reading DynamoWorkerMetadata %s: %w", metadata[i].Name, err)
			}
			instances = frontend.Published(content.Spec.Data.Raw)
			r.published.Note(group, content.UID, content.ResourceVersion, instances)
		}
		out = append(out, instances...)
	}
	return out, nil
}

// unknownTo reports which frontend does not list all of the instances, or does not answer; "" for none. All of them are asked.
func (r *Reconciler) unknownTo(frontends map[string]frontend.Frontend, instances []frontend.Instance) string {
	why := ""
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(frontends))) {
		answer, answered := r.frontends.Ask(frontends[name])
		switch {
		case !answered:
			why = "frontend pod " + name + " has not answered yet"
		case answer.Failure != "":
			why = "frontend pod " + name + " " + answer.Failure
		case !answer.Silent && len(instances) == 0:
			why = "has published no instance that a frontend could list"
		case !answer.Silent && !answer.Instances.HasAll(instances...):
			why = "frontend pod " + name + " does not list it"
		}
	}
	return why
}
