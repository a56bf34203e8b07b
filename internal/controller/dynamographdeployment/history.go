// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/bools"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/rollout"
)

// historyLimit is the number of generations of workers that are stored for a deployment.
const historyLimit = 5

// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=create;delete;list;patch;watch

// historyOf returns the stored generations of a deployment's workers, the newest first.
func (r *Reconciler) historyOf(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment) ([]*appsv1.ControllerRevision, error) {
	list := &appsv1.ControllerRevisionList{}
	if err := r.Client.List(ctx, list, client.InNamespace(dgd.Namespace),
		client.MatchingLabels{render.LabelGraph: render.LabelValue(dgd.Name)}); err != nil {
		return nil, fmt.Errorf("listing the stored generations: %w", err)
	}
	var out []*appsv1.ControllerRevision
	for i := range list.Items {
		if metav1.IsControlledBy(&list.Items[i], dgd) {
			out = append(out, &list.Items[i])
		}
	}
	slices.SortFunc(out, func(a, b *appsv1.ControllerRevision) int {
		return cmp.Or(cmp.Compare(b.Revision, a.Revision), b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return out, nil
}

// rollbackOf returns the rollback of the workers while a generation is aborted; nil if no generation is aborted. The workers return to the
// generation that was rolled out last. If that generation is aborted or not stored, they return to the newest stored generation that was
// ever rolled out. If there is none, they return to the newest generation that is not aborted.
func rollbackOf(o observed) *render.Rollback {
	control, _ := rollout.ControlOf(o.dgd)
	if control.Aborted == "" || !specs.Named(o.provider.Name).Planned {
		return nil
	}
	back := &render.Rollback{Aborted: control.Aborted, Input: inputOf(o.history, control.Aborted), InForce: rolledBackBefore(o.dgd)}
	last := o.dgd.Annotations[render.AnnotationWorkerHash]
	candidates := slices.Clone(o.history)
	slices.SortStableFunc(candidates, func(a, b *appsv1.ControllerRevision) int {
		return cmp.Or(bools.Compare(generationIn(b) == last, generationIn(a) == last), bools.Compare(hasServed(b), hasServed(a)))
	})
	for _, revision := range candidates {
		if generationIn(revision) == control.Aborted {
			continue
		}
		if stored, err := render.StoredIn(revision); err == nil {
			back.To = append(back.To, stored)
		}
	}
	return back
}

// hasServed reports whether the generation was ever rolled out.
func hasServed(revision *appsv1.ControllerRevision) bool {
	return revision.Annotations[render.AnnotationRolledOut] == "true"
}

// inputOf returns the recorded input of a generation's workers; "" if none is recorded.
func inputOf(history []*appsv1.ControllerRevision, generation string) string {
	for _, revision := range history {
		if generationIn(revision) == generation {
			return revision.Annotations[render.AnnotationWorkersInput]
		}
	}
	return ""
}

// rolledBackBefore reports whether a rollback was in force at the last reconcile.
func rolledBackBefore(dgd *nvidiav1beta1.DynamoGraphDeployment) bool {
	c := meta.FindStatusCondition(dgd.Status.Conditions, nvidiav1beta1.ConditionRolledOut)
	return c != nil && c.Reason == nvidiav1beta1.ReasonRolledBack
}

func generationIn(revision *appsv1.ControllerRevision) string {
	return revision.Labels[render.LabelWorkerHash]
}

// keepHistory stores the running generation and the wanted generation, makes the wanted generation the newest, and deletes the oldest
// generations. A deployment's first generation is not stored until it serves or another generation is wanted. Before that, no rollback can
// return to it.
func (r *Reconciler) keepHistory(ctx context.Context, o observed, wanted *render.Graph) error {
	if !specs.Named(o.provider.Name).Planned {
		return nil
	}
	h := history{r, o.dgd, wanted, slices.Clone(o.history), servingRevision(o, wanted), map[string]bool{}}
	if h.isFirst(o) {
		return nil
	}
	var failures []error
	if running, one := render.GenerationIn(o.groups, wanted.Workers()); one {
		failures = append(failures, h.store(ctx, running, false))
	}
	if stored, one := wanted.Stored(); one {
		failures = append(failures, h.store(ctx, stored, true))
	}
	failures = append(failures, h.noteInput(ctx), h.noteServing(ctx), h.prune(ctx))
	return errors.Join(failures...)
}

// history has the stored generations of a deployment, the newest first. serving is the name of the serving generation's ControllerRevision,
// or "". needed has the names of the ControllerRevisions to keep.
type history struct {
	*Reconciler
	dgd     *nvidiav1beta1.DynamoGraphDeployment
	wanted  *render.Graph
	stored  []*appsv1.ControllerRevision
	serving string
	needed  map[string]bool
}

// isFirst reports whether the wanted generation is the deployment's first, does not serve yet and is not stored.
func (h *history) isFirst(o observed) bool {
	if control, _ := rollout.ControlOf(o.dgd); control.Aborted != "" || len(h.stored) > 0 || h.serving != "" {
		return false
	}
	return !slices.ContainsFunc(h.wanted.Components, func(s render.Component) bool {
		sg := o.groups[s.Name]
		return s.Worker() && sg != nil && (render.GenerationOf(sg) != h.wanted.Generation || sg.Spec.Revision != s.Revision)
	})
}

// servingRevision returns the name of the ControllerRevision of the generation that is rolled out and serves; "" if there is none.
func servingRevision(o observed, wanted *render.Graph) string {
	running, one := render.GenerationIn(o.groups, wanted.Workers())
	if _, serves := servingGeneration(o, wanted); !one || !serves {
		return ""
	}
	return running.RevisionName(o.dgd)
}

func (h *history) next() int64 {
	if len(h.stored) == 0 {
		return 1
	}
	return h.stored[0].Revision + 1
}

// store stores a generation unless it is stored already. If newest is set, it makes the generation the newest.
func (h *history) store(ctx context.Context, generation *render.StoredGeneration, newest bool) error {
	name := generation.RevisionName(h.dgd)
	h.needed[name] = true
	at := slices.IndexFunc(h.stored, func(r *appsv1.ControllerRevision) bool { return r.Name == name })
	if at < 0 {
		return h.create(ctx, generation)
	}
	if !newest || at == 0 {
		return nil
	}
	before := h.stored[at]
	revision := before.DeepCopy()
	revision.Revision = h.next()
	h.stored = slices.Insert(slices.Delete(h.stored, at, at+1), 0, revision)
	return storing(revision, h.Client.Patch(ctx, revision, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}),
		client.FieldOwner(render.FieldOwner)))
}

// create stores a generation as the newest.
func (h *history) create(ctx context.Context, generation *render.StoredGeneration) error {
	revision, err := generation.ControllerRevision(h.dgd, h.next())
	if err != nil { // the update need not wait, and an abort reports that no generation is stored
		log.FromContext(ctx).V(1).Info("a generation is not stored", "why", err.Error())
		return nil
	}
	if h.isWanted(revision) {
		metav1.SetMetaDataAnnotation(&revision.ObjectMeta, render.AnnotationWorkersInput, h.wanted.WorkersInput)
	}
	if revision.Name == h.serving {
		metav1.SetMetaDataAnnotation(&revision.ObjectMeta, render.AnnotationRolledOut, "true")
	}
	revision.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(h.dgd,
		nvidiav1beta1.GroupVersion.WithKind("DynamoGraphDeployment"))}
	h.stored = slices.Insert(h.stored, 0, revision)
	return storing(revision, h.Client.Create(ctx, revision, client.FieldOwner(render.FieldOwner)))
}

// storing wraps the error of a write. It drops errors that a stale cache causes, because the next reconcile corrects them.
func storing(revision *appsv1.ControllerRevision, err error) error {
	if err == nil || apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("storing a generation as ControllerRevision %s: %w", revision.Name, err)
}

// isWanted reports whether a stored generation is the deployment's wanted generation.
func (h *history) isWanted(revision *appsv1.ControllerRevision) bool {
	return h.wanted.Generation != "" && generationIn(revision) == h.wanted.Generation
}

// noteInput records the input of the wanted generation's workers, because another release of Trellis may render different pods from this
// input.
func (h *history) noteInput(ctx context.Context) error {
	return h.note(ctx, render.AnnotationWorkersInput, h.wanted.WorkersInput, h.isWanted)
}

// noteServing records that the running generation is rolled out and serves, because an abort prefers generations that have served.
func (h *history) noteServing(ctx context.Context) error {
	return h.note(ctx, render.AnnotationRolledOut, "true", func(r *appsv1.ControllerRevision) bool { return r.Name == h.serving })
}

// note sets an annotation of one stored generation. A generation that the cache does not show yet gets the annotation later.
func (h *history) note(ctx context.Context, key, value string, of func(*appsv1.ControllerRevision) bool) error {
	at := slices.IndexFunc(h.stored, of)
	if at < 0 || h.stored[at].ResourceVersion == "" || h.stored[at].Annotations[key] == value {
		return nil
	}
	revision := h.stored[at].DeepCopy()
	metav1.SetMetaDataAnnotation(&revision.ObjectMeta, key, value)
	err := h.Client.Patch(ctx, revision, client.MergeFrom(h.stored[at]), client.FieldOwner(render.FieldOwner))
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("writing the annotation %s of ControllerRevision %s: %w", key, revision.Name, err)
	}
	h.stored[at] = revision
	return nil
}

// aborted reports whether a stored generation is the aborted generation, which has to stay stored with its input.
func (h *history) aborted(revision *appsv1.ControllerRevision) bool {
	control, _ := rollout.ControlOf(h.dgd)
	return control.Aborted != "" && generationIn(revision) == control.Aborted
}

// rolledOut reports whether a stored generation is the generation that was rolled out last. It returns false if the deployment records no
// generation, as for workers without generations.
func (h *history) rolledOut(revision *appsv1.ControllerRevision) bool {
	last := h.dgd.Annotations[render.AnnotationWorkerHash]
	return last != "" && generationIn(revision) == last
}

// prune deletes the oldest generations beyond the limit. It always keeps the running, the wanted and the aborted generation, the generation
// that was rolled out last, and the newest of the other generations that were ever rolled out.
func (h *history) prune(ctx context.Context) error {
	var failures []error
	before := slices.IndexFunc(h.stored, func(revision *appsv1.ControllerRevision) bool {
		return hasServed(revision) && !h.rolledOut(revision) && !h.aborted(revision)
	})
	for i, revision := range h.stored {
		if i < historyLimit || i == before || h.needed[revision.Name] || h.rolledOut(revision) || h.aborted(revision) {
			continue
		}
		uid := revision.UID
		err := h.Client.Delete(ctx, revision, client.Preconditions{UID: &uid})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			failures = append(failures, fmt.Errorf("deleting ControllerRevision %s: %w", revision.Name, err))
		}
	}
	return errors.Join(failures...)
}
