// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/controller/creationturns"
	"github.com/trellis-k8s/trellis/internal/newpod"
	"github.com/trellis-k8s/trellis/internal/render"
)

// storedPod has the properties of a role's pods that determine their quota usage and the order of creation.
type storedPod struct {
	charge creationturns.Charge
	// priority is nil until the API server has stored a pod of the role. Until then, class is the priority class in the role's template.
	priority *int32
	class    string
}

// storedPods has a storedPod for each role, from the first pod of the role that the API server has stored. The role's template is not
// sufficient, because quotas count LimitRange defaults, the overhead of a RuntimeClass, and additions by webhooks. The zero value is ready
// to use.
type storedPods struct {
	mu     sync.Mutex
	byRole map[roleOfGroup]storedPod
	// classes are the values of PriorityClasses by name. These values cannot change.
	classes map[string]int32
}

func keyOfRole(sg *trellisv1alpha1.ScalingGroup, role string) roleOfGroup {
	return roleOfGroup{group: sg.UID, revision: sg.Spec.Revision, role: role}
}

// learn records the properties of a pod that the API server has stored, unless the pod's role has an entry.
func (p *storedPods) learn(sg *trellisv1alpha1.ScalingGroup, pod *corev1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := keyOfRole(sg, pod.Labels[render.LabelRole])
	if _, known := p.byRole[key]; known {
		return
	}
	if p.byRole == nil || len(p.byRole) >= maxKinds {
		p.byRole = map[roleOfGroup]storedPod{}
	}
	p.byRole[key] = storedPod{charge: creationturns.ChargeOf(pod), priority: pod.Spec.Priority}
}

// of returns the properties of a group's pods by role. For a role without a stored pod, the properties come from the role's template.
func (p *storedPods) of(o observed) map[string]storedPod {
	for _, pod := range o.pods.own {
		if !render.Outdated(o.sg, pod) {
			p.learn(o.sg, pod)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[string]storedPod{}
	for i := range o.sg.Spec.Roles {
		role := &o.sg.Spec.Roles[i]
		known, is := p.byRole[keyOfRole(o.sg, role.Name)]
		if !is {
			pod := &corev1.Pod{Spec: *role.Template.Spec.DeepCopy()}
			newpod.Defaults(pod)
			known = storedPod{charge: creationturns.ChargeOf(pod), class: pod.Spec.PriorityClassName}
		}
		out[role.Name] = known
	}
	return out
}

// +kubebuilder:rbac:groups=scheduling.k8s.io,resources=priorityclasses,verbs=get

// priorityOf returns the highest priority of the pods of a group.
func (p *storedPods) priorityOf(ctx context.Context, live client.Reader, pods map[string]storedPod) (highest int32, err error) {
	first := true
	for _, one := range pods {
		priority := int32(0)
		if one.priority != nil {
			priority = *one.priority
		} else if priority, err = p.priorityOfClass(ctx, live, one.class); err != nil {
			return 0, err
		}
		if first || priority > highest {
			highest, first = priority, false
		}
	}
	return highest, nil
}

// priorityOfClass reads the value of a PriorityClass once. A class that does not exist, or that the operator may not read, counts as 0.
func (p *storedPods) priorityOfClass(ctx context.Context, live client.Reader, name string) (int32, error) {
	if name == "" {
		return 0, nil
	}
	p.mu.Lock()
	value, known := p.classes[name]
	p.mu.Unlock()
	if known {
		return value, nil
	}
	class := &schedulingv1.PriorityClass{}
	switch err := live.Get(ctx, client.ObjectKey{Name: name}, class); {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("reading PriorityClass %s: %w", name, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.classes == nil || len(p.classes) >= maxKinds {
		p.classes = map[string]int32{}
	}
	p.classes[name] = class.Value
	return class.Value, nil
}
