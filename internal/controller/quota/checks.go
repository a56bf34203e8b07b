// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/provider/external"
	"github.com/trellis-k8s/trellis/internal/quota"
)

// activateEvery is the interval at which the AdmissionChecks that have Trellis as their controller are activated. A ClusterQueue admits
// nothing while one of its checks is inactive.
const activateEvery = 15 * time.Second

// ownerOfChecks is the field owner of AdmissionCheck statuses and check states.
const ownerOfChecks = "trellis-placement-check"

// Checks has the dependencies for setting the states of Trellis' AdmissionChecks. AdmissionChecks and ResourceFlavors are read from the API
// server, and only for deployments that wait for a check.
type Checks struct {
	Live     client.Reader
	Promises *quota.Promises
	// Results are the scheduling results; Changed has events of new results.
	Results interface {
		Get(name types.NamespacedName, uid types.UID) (gang.Result, bool)
	}
	Changed chan event.GenericEvent
	// Denied is the reason why AdmissionChecks cannot be read. Graphs delivers the deployments whose conditions have to be written again
	// when the reason changes.
	Denied *quota.Denied
	Graphs chan<- event.GenericEvent
	Waits  quota.Waits
	Clock  clock.PassiveClock
}

// check requests places from the scheduler for the pods of Workloads that wait for Trellis' AdmissionChecks, and sets the states of these
// checks. It returns the time until the states must be evaluated again; zero for none.
func (r *Reconciler) check(ctx context.Context, o *quota.Observation) (time.Duration, error) {
	name, waiting := client.ObjectKeyFromObject(o.DGD), o.Checked()
	if len(waiting) == 0 {
		r.Checks.Promises.Set(name, quota.Look{}, r.Checks.Clock.Now())
		return 0, nil
	}
	checks, err := r.Checks.names(ctx)
	if err != nil {
		return 0, err
	}
	look := quota.Look{Promises: map[string]quota.Promise{}, Fingerprints: map[string]string{}}
	for _, w := range waiting {
		if len(w.Ours(checks)) == 0 {
			continue
		}
		flavors, err := r.Checks.flavors(ctx, w.FlavorNames())
		if err != nil {
			return 0, err
		}
		promise := quota.PromiseOf(w, flavors)
		look.Promises[w.Name], look.Fingerprints[w.Name] = promise, promise.Fingerprint(w.Name, o.Pods)
	}
	s := quota.Search{Checks: checks, Fingerprints: look.Fingerprints, Waits: r.Checks.Waits, Now: r.Checks.Clock.Now()}
	s.Result, _ = r.Checks.Results.Get(name, o.DGD.UID)
	look.Asked = s.Result.Asked != ""
	s.Since = r.Checks.Promises.Set(name, look, s.Now)
	verdicts, again := o.Verdicts(s)
	var failures []error
	for _, v := range verdicts {
		written, err := r.decide(ctx, v)
		if written {
			err = r.pause(ctx, v)
		}
		failures = append(failures, err)
	}
	return again, errors.Join(failures...)
}

// decide writes the states of a Workload's AdmissionChecks. It writes nothing if the Workload has changed since it was read, or is gone.
func (r *Reconciler) decide(ctx context.Context, v quota.Verdict) (written bool, err error) {
	states := slices.Clone(v.States)
	for i := range states {
		states[i].RetryCount = nil // Kueue counts the retries
	}
	data, err := json.Marshal(map[string]any{
		"apiVersion": quota.WorkloadKind.GroupVersion().String(), "kind": quota.WorkloadKind.Kind,
		"metadata": map[string]any{"name": v.Workload.Name, "namespace": v.Workload.Namespace, "resourceVersion": v.Workload.ResourceVersion},
		"status":   map[string]any{"admissionChecks": states},
	})
	if err != nil {
		return false, err
	}
	object, err := external.Object(v.Workload)
	if err != nil {
		return false, err
	}
	object.SetGroupVersionKind(quota.WorkloadKind)
	for i := range states {
		log.FromContext(ctx).Info("deciding an AdmissionCheck",
			"workload", v.Workload.Name, "check", states[i].Name, "state", states[i].State, "message", states[i].Message)
	}
	return applyStatus(ctx, r.Client, object, data)
}

// pause keeps a Workload without a place from requesting quota until v.Pause.Until. The caller writes the check states before. Kueue then
// takes the quota back, which changes the Workload, so pause does not require the resourceVersion that the caller has read.
func (r *Reconciler) pause(ctx context.Context, v quota.Verdict) error {
	if v.Pause == nil {
		return nil
	}
	w := *v.Workload
	w.ResourceVersion = ""
	return r.patch(ctx, &w, v.Pause.Patch(), "having Workload %s ask for no quota until "+v.Pause.Until.Format(time.RFC3339))
}

// applyStatus applies a part of an object's status. If the object has changed meanwhile, its event triggers another reconcile.
func applyStatus(ctx context.Context, c client.Client, object *unstructured.Unstructured, data []byte) (written bool, err error) {
	err = c.Status().Patch(ctx, object, client.RawPatch(types.ApplyPatchType, data), client.FieldOwner(ownerOfChecks), client.ForceOwnership)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return false, fmt.Errorf("writing the status of %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return err == nil, nil
}

// admissionChecks returns the AdmissionChecks whose controller is Trellis; none if Kueue does not serve the kind.
func admissionChecks(ctx context.Context, live client.Reader) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(quota.WorkloadKind.GroupVersion().WithKind("AdmissionCheckList"))
	err := live.List(ctx, list)
	if meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing the AdmissionChecks of Kueue: %w", err)
	}
	var ours []unstructured.Unstructured
	for i := range list.Items {
		if name, _, _ := unstructured.NestedString(list.Items[i].Object, "spec", "controllerName"); name == quota.CheckController {
			ours = append(ours, list.Items[i])
		}
	}
	return ours, nil
}

func (c *Checks) names(ctx context.Context) (map[string]bool, error) {
	ours, err := admissionChecks(ctx, c.Live)
	if apierrors.IsForbidden(err) {
		return nil, nil // the activator reports it
	}
	names := make(map[string]bool, len(ours))
	for i := range ours {
		names[ours[i].GetName()] = true
	}
	return names, err
}

// flavors returns the parts of ResourceFlavors that affect pods. A missing flavor adds nothing.
func (c *Checks) flavors(ctx context.Context, names []string) (map[string]quota.Flavor, error) {
	out := make(map[string]quota.Flavor, len(names))
	for _, name := range names {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(quota.WorkloadKind.GroupVersion().WithKind("ResourceFlavor"))
		err := c.Live.Get(ctx, types.NamespacedName{Name: name}, object)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading ResourceFlavor %s: %w", name, err)
		}
		flavor := struct {
			Spec quota.Flavor `json:"spec"`
		}{}
		if err := external.Read(object, &flavor); err != nil {
			return nil, err
		}
		out[name] = flavor.Spec
	}
	return out, nil
}

// activator marks Trellis' AdmissionChecks as active, because a ClusterQueue with an inactive check admits nothing.
type activator struct {
	client client.Client
	live   client.Reader
	denied *quota.Denied
	// tell requeues all deployments in Kueue queues, to write their conditions again.
	tell func(ctx context.Context)
	// ready reports whether any deployment is, or was, in a queue. Until it returns true, the activator sends no requests for Kueue's
	// objects.
	ready func() bool
}

// NeedLeaderElection returns true, because only the leader sets the states of checks.
func (*activator) NeedLeaderElection() bool { return true }

// Start activates AdmissionChecks periodically, until ctx ends.
func (a *activator) Start(ctx context.Context) error {
	ticker := time.NewTicker(activateEvery)
	defer ticker.Stop()
	for {
		if a.ready() {
			if err := a.activate(ctx); err != nil {
				log.FromContext(ctx).Error(err, "activating the AdmissionChecks of Trellis")
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// noRights is the reason why the operator cannot set the states of AdmissionChecks without the optional permissions.
const noRights = "the operator has no rights on AdmissionChecks of Kueue: install the component config/kueue-placement, or set the " +
	"chart's value kueue.placement"

// activate marks all AdmissionChecks of Trellis as active. Missing permissions are not an error, because they are optional, and the
// conditions of deployments that wait for a check report them.
func (a *activator) activate(ctx context.Context) error {
	ours, err := admissionChecks(ctx, a.live)
	if err == nil {
		err = a.activateAll(ctx, ours)
	}
	denied := ""
	if apierrors.IsForbidden(err) {
		denied, err = noRights, nil
	}
	if a.denied.Set(denied) {
		a.tell(ctx)
	}
	return err
}

func (a *activator) activateAll(ctx context.Context, ours []unstructured.Unstructured) error {
	var failures []error
	for i := range ours {
		var conditions struct {
			Status struct {
				Conditions []metav1.Condition `json:"conditions"`
			} `json:"status"`
		}
		if err := external.Read(&ours[i], &conditions); err != nil {
			failures = append(failures, err)
		} else if !meta.IsStatusConditionTrue(conditions.Status.Conditions, "Active") {
			failures = append(failures, a.setActive(ctx, &ours[i]))
		}
	}
	return errors.Join(failures...)
}

func (a *activator) setActive(ctx context.Context, check *unstructured.Unstructured) error {
	active := metav1.Condition{
		Type: "Active", Status: metav1.ConditionTrue, Reason: "Active", Message: "Trellis decides this check", LastTransitionTime: metav1.Now(),
		ObservedGeneration: check.GetGeneration(),
	}
	data, err := json.Marshal(map[string]any{
		"apiVersion": check.GetAPIVersion(), "kind": check.GetKind(), "metadata": map[string]any{"name": check.GetName()},
		"status": map[string]any{"conditions": []metav1.Condition{active}},
	})
	if err != nil {
		return err
	}
	_, err = applyStatus(ctx, a.client, check, data)
	return err
}
