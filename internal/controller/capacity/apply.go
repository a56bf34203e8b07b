// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/trellis-k8s/trellis/internal/capacity"
	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/provider/external"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// maxAsked is the maximum length of the text about the requested capacity of one deployment, in bytes.
const maxAsked = 256

// create creates the missing objects of capacity requests. If the API server refuses an object, the deployment gets a Warning event.
func (r *Reconciler) create(ctx context.Context, steps capacity.Steps, all deployments) error {
	var failures []error
	for i := range steps.Create {
		ask := &steps.Create[i]
		err := r.ask(ctx, ask)
		switch dgd := all[ask.Gang.UID]; {
		case err == nil && ask.Fresh:
			log.FromContext(ctx).Info("asking for capacity", "graph", ask.Gang.Graph, "gang", ask.Gang.Name, "kind", ask.Gang.Kind, "pods",
				ask.Gang.String())
			r.Recorder.Eventf(dgd, nil, corev1.EventTypeNormal, EventRequested, "RequestCapacity", "%s waits for capacity: %s requested with %s",
				ask.Gang.Name, ask.Gang.String(), ask.Gang.Kind)
		case apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsInternalError(err):
			requestsFailed.WithLabelValues(EventRefused).Inc()
			r.Recorder.Eventf(dgd, nil, corev1.EventTypeWarning, EventRefused, "RequestCapacity", "%s", err.Error())
		}
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}

func (r *Reconciler) ask(ctx context.Context, ask *capacity.Ask) error {
	exclude := r.excluded(ask.Gang)
	if ask.Gang.Kind == capacity.KindProvisioningRequest {
		return r.request(ctx, ask, exclude)
	}
	for _, at := range ask.Missing {
		pod := ask.Placeholder(at, r.Namespace, r.Options.Image, exclude[at.Set])
		if err := r.make(ctx, pod); err != nil {
			return err
		}
	}
	return nil
}

// request creates the ProvisioningRequest of a gang. It first creates the PodTemplates to which the ProvisioningRequest refers.
func (r *Reconciler) request(ctx context.Context, ask *capacity.Ask, exclude [][]string) error {
	request, templates := ask.Request(exclude)
	for _, template := range templates {
		if err := r.make(ctx, template); err != nil {
			return err
		}
	}
	object, err := external.Object(request)
	if err != nil {
		return err
	}
	return r.make(ctx, object)
}

// make creates an object, unless it exists. The name contains a hash of the deployment, the gang and its pods ([capacity.Gang.Ask]), so an
// existing object of this name belongs to the same request.
func (r *Reconciler) make(ctx context.Context, o client.Object) error {
	err := r.Client.Create(ctx, o, client.FieldOwner(render.FieldOwner))
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating %s %s: %w", o.GetObjectKind().GroupVersionKind().Kind, o.GetName(), err)
	}
	return nil
}

// excluded returns, for each of the gang's Sets, the hosts that have room for a pod now. The capacity request excludes these hosts, because
// the gang waits although they have room.
func (r *Reconciler) excluded(g *capacity.Gang) [][]string {
	var out [][]string
	for i := range g.Sets {
		pod := &corev1.Pod{Spec: g.Sets[i].Template.Spec}
		pod.Spec.Affinity = nil
		out = append(out, r.Hosts.HostsFor(topology.ShapeOf(pod), capacity.MaxExcluded))
	}
	return out
}

// remove deletes the objects of capacity requests that have ended.
func (r *Reconciler) remove(ctx context.Context, steps capacity.Steps) error {
	var failures []error
	for _, one := range steps.DeletePlaceholders {
		failures = append(failures, r.deletePlaceholder(ctx, one.Name, one.UID))
	}
	for _, one := range steps.DeleteRequests {
		failures = append(failures, r.deleteRequest(ctx, one))
	}
	return errors.Join(failures...)
}

func (r *Reconciler) deletePlaceholder(ctx context.Context, name string, uid types.UID) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: name}}
	err := r.Client.Delete(ctx, pod, client.Preconditions{UID: &uid}, client.GracePeriodSeconds(0))
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting placeholder %s: %w", name, err)
	}
	return nil
}

// Clear deletes the placeholders of a deployment and the placeholders on the given hosts, before a gang of the deployment is released. If a
// deletion fails, the kube-scheduler preempts the placeholder.
func (r *Reconciler) Clear(ctx context.Context, graph types.UID, hosts []string) {
	pods, err := r.placeholderPods(ctx)
	for i := range pods {
		if pods[i].Labels[capacity.LabelGraphUID] == string(graph) || slices.Contains(hosts, pods[i].Spec.NodeName) {
			r.planner.Cleared(pods[i].Labels[capacity.LabelAsk], pods[i].Name)
			err = errors.Join(err, r.deletePlaceholder(ctx, pods[i].Name, pods[i].UID))
		}
	}
	if err != nil && ctx.Err() == nil {
		log.FromContext(ctx).Error(err, "deleting placeholders before a release")
	}
}

// report sends events about gangs for which no capacity is requested, and about capacity requests that were given up. It records the
// requested capacity in the scheduling results.
func (r *Reconciler) report(steps capacity.Steps, all deployments) {
	told := map[gangKey]string{}
	for _, note := range steps.Refused {
		key := gangKey{note.Gang.UID, note.Gang.Name}
		if told[key] = note.Why; r.told[key] != note.Why {
			requestsFailed.WithLabelValues(EventNotRequested).Inc()
			r.Recorder.Eventf(all[note.Gang.UID], nil, corev1.EventTypeWarning, EventNotRequested, "RequestCapacity",
				"%s waits for capacity that is not requested: %s", note.Gang.Name, note.Why)
		}
	}
	r.told = told
	asked := map[types.NamespacedName]string{}
	for _, g := range steps.Asked {
		if text := asked[g.Graph]; text == "" {
			asked[g.Graph] = fmt.Sprintf("capacity is requested with %s: %s", g.Kind, g)
		} else {
			asked[g.Graph] = limit.Text(text+", "+g.String(), maxAsked)
		}
	}
	for uid := range steps.Kept {
		if name := client.ObjectKeyFromObject(all[uid]); asked[name] == "" {
			asked[name] = "capacity is requested, and the request stays while the deployment is not planned"
		}
	}
	r.Results.Ask(asked)
	for _, note := range steps.GivenUp {
		requestsFailed.WithLabelValues(EventGivenUp).Inc()
		r.Recorder.Eventf(all[note.Gang.UID], nil, corev1.EventTypeWarning, EventGivenUp, "RequestCapacity",
			"no capacity came for %s: %s", note.Gang.Name, note.Why)
	}
}
