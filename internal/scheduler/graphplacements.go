// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/assignment"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/listing"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/render"
)

// +kubebuilder:rbac:groups=trellis.dev,resources=graphplacements,verbs=create;list;patch;watch

// graphPlacements reads and writes GraphPlacements. A read returns the cached object or the last written object, whichever is newer.
type graphPlacements struct {
	// cached reads from the cache; nil if placements are not recorded.
	cached client.Reader
	writer client.Client
	// live reads past the cache.
	live client.Reader

	mu sync.Mutex
	// last are the newest known objects, with their decoded content.
	last map[types.NamespacedName]recorded
}

// recorded is a GraphPlacement and its decoded content. object is nil for a deployment without a GraphPlacement.
type recorded struct {
	object *trellisv1alpha1.GraphPlacement
	record *assignment.Record
}

func newGraphPlacements(cached client.Reader, writer client.Client, live client.Reader) *graphPlacements {
	g := &graphPlacements{writer: writer, live: live, last: map[types.NamespacedName]recorded{}}
	if writer != nil {
		g.cached = cached
	}
	return g
}

// of returns the GraphPlacement of a deployment with its record; the zero value if placements are not recorded. If the GraphPlacement
// belongs to an earlier deployment of the same name, the record is empty.
func (g *graphPlacements) of(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment) (recorded, error) {
	if g.cached == nil {
		return recorded{}, nil
	}
	object := &trellisv1alpha1.GraphPlacement{}
	name := client.ObjectKeyFromObject(dgd)
	err := g.cached.Get(ctx, name, object, client.UnsafeDisableDeepCopy)
	if client.IgnoreNotFound(err) != nil {
		return recorded{}, fmt.Errorf("reading a GraphPlacement: %w", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	last := g.last[name]
	switch {
	case err == nil && isNewer(object, last.object):
		last = decoded(object)
		g.last[name] = last
	case last.object == nil:
		return recorded{record: &assignment.Record{}}, nil
	}
	if last.object.Spec.DeploymentUID != string(dgd.UID) {
		last.record = &assignment.Record{}
	}
	return last, nil
}

func decoded(object *trellisv1alpha1.GraphPlacement) recorded {
	return recorded{object, assignment.Decode(&object.Spec)}
}

// isNewer reports whether an object is newer than another object with its name.
func isNewer(object, than *trellisv1alpha1.GraphPlacement) bool {
	if than == nil || object.UID != than.UID {
		return than == nil || object.CreationTimestamp.After(than.CreationTimestamp.Time)
	}
	order, err := resourceversion.CompareResourceVersion(object.ResourceVersion, than.ResourceVersion)
	return err != nil || order > 0
}

// replicasOf returns the recorded replicas of a group.
func (g *graphPlacements) replicasOf(ctx context.Context, sg *trellisv1alpha1.ScalingGroup) (assignment.Replicas, error) {
	owner := metav1.GetControllerOfNoCopy(sg)
	if owner == nil {
		return assignment.Replicas{}, nil
	}
	dgd := &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: sg.Namespace, Name: sg.Spec.Graph, UID: owner.UID}}
	now, err := g.of(ctx, dgd)
	return now.record.Replicas(sg.Spec.Component), err
}

// changed reports whether an event of an object shows a change by another client. A deletion always counts as such a change.
func (g *graphPlacements) changed(object *trellisv1alpha1.GraphPlacement, gone bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	name := client.ObjectKeyFromObject(object)
	last := g.last[name]
	if gone {
		if last.object != nil && last.object.UID == object.UID {
			delete(g.last, name)
		}
		return true
	}
	return last.object == nil || isNewer(object, last.object)
}

func (g *graphPlacements) forget(name types.NamespacedName) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.last, name)
}

// write replaces the record of a deployment. If the stored object is newer than was.object, write returns a conflict, and the next read
// returns the stored object.
func (g *graphPlacements) write(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, was recorded, now *assignment.Record) error {
	name := client.ObjectKeyFromObject(dgd)
	object := &trellisv1alpha1.GraphPlacement{ObjectMeta: metav1.ObjectMeta{Namespace: dgd.Namespace, Name: dgd.Name}}
	object.Spec = now.Encode(dgd.UID)
	err := controllerutil.SetControllerReference(dgd, object, g.writer.Scheme(), controllerutil.WithBlockOwnerDeletion(false))
	if err != nil {
		return fmt.Errorf("owning a GraphPlacement: %w", err)
	}
	if was.object == nil {
		err = g.writer.Create(ctx, object)
	} else {
		err = g.replace(ctx, was.object, object)
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
		err = errors.Join(err, g.readAgain(ctx, name))
	}
	if err != nil {
		return fmt.Errorf("writing the GraphPlacement: %w", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last[name] = recorded{object, now}
	return nil
}

// replace replaces the spec and the owner of an object. It sends a patch and not an update, because the cached object lacks metadata of
// other clients.
func (g *graphPlacements) replace(ctx context.Context, was, object *trellisv1alpha1.GraphPlacement) error {
	type step struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	patch, err := json.Marshal([]step{
		{"replace", "/metadata/resourceVersion", was.ResourceVersion},
		{"add", "/metadata/ownerReferences", object.OwnerReferences},
		{"replace", "/spec", object.Spec},
	})
	if err != nil {
		return err
	}
	return g.writer.Patch(ctx, object, client.RawPatch(types.JSONPatchType, patch))
}

// readAgain reads an object past the cache, so that the next read returns its current state.
func (g *graphPlacements) readAgain(ctx context.Context, name types.NamespacedName) error {
	list := &trellisv1alpha1.GraphPlacementList{}
	if err := g.live.List(ctx, list, client.InNamespace(name.Namespace), client.MatchingFields{"metadata.name": name.Name}); err != nil {
		return fmt.Errorf("reading the GraphPlacement past the cache: %w", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if delete(g.last, name); len(list.Items) > 0 {
		g.last[name] = decoded(&list.Items[0])
	}
	return nil
}

// isNewest returns an error if an object was changed since it was read, or cannot be read past the cache.
func (g *graphPlacements) isNewest(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, was recorded) error {
	if err := g.readAgain(ctx, client.ObjectKeyFromObject(dgd)); err != nil {
		return err
	}
	now, err := g.of(ctx, dgd)
	if err != nil {
		return err
	}
	if was.object == nil || now.object == nil || now.object.UID != was.object.UID ||
		now.object.ResourceVersion != was.object.ResourceVersion {
		return fmt.Errorf("the GraphPlacement has changed: %w", provider.ErrElsewhere)
	}
	return nil
}

func podsIn(l *corev1.PodList) []corev1.Pod { return l.Items }

// noneReleased returns [provider.ErrElsewhere] if a read past the cache shows a released pod of one of the replicas, because another
// operator released that pod.
func (g *graphPlacements) noneReleased(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, replicas map[string]bool) error {
	if len(replicas) == 0 {
		return nil
	}
	err := listing.Each(ctx, g.live, &corev1.PodList{}, podsIn, func(pod *corev1.Pod) error {
		if replicas[gang.Of(pod)] && !render.GateClosed(pod) && !gang.Leaving(pod) {
			return fmt.Errorf("pod %s is released already: %w", pod.Name, provider.ErrElsewhere)
		}
		return nil
	}, client.InNamespace(dgd.Namespace), client.MatchingLabels{render.LabelGraph: render.LabelValue(dgd.Name)})
	if err != nil {
		return fmt.Errorf("reading the pods of replicas that are placed again: %w", err)
	}
	return nil
}
