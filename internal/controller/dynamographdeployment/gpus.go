// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"context"
	"errors"
	"fmt"

	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/trellis-k8s/trellis/internal/gpus"
	"github.com/trellis-k8s/trellis/internal/nvlink"
	"github.com/trellis-k8s/trellis/internal/render"
)

// +kubebuilder:rbac:groups=resource.k8s.io,resources=deviceclasses;resourceclaims;resourceclaimtemplates,verbs=get

// shapes has the GPUs of one replica of each component, by component name. A component whose GPUs cannot be counted is absent.
type shapes struct {
	of map[string]gpus.Shape
	// claims: the GPUs of a component depend on resource claims, which are not watched.
	claims bool
	// channels reports, by name of a claim template, whether pods use the template to join a ComputeDomain.
	channels map[string]bool
}

// countGPUs counts the GPUs of the wanted pods. A component whose claims cannot be read is absent from the result.
func (r *Reconciler) countGPUs(ctx context.Context, wanted *render.Graph) shapes {
	out := shapes{of: map[string]gpus.Shape{}, channels: map[string]bool{}}
	for i := range wanted.Components {
		s := &wanted.Components[i]
		pods := make([]gpus.Pods, 0, len(s.Roles))
		for j := range s.Roles {
			pods = append(pods, gpus.Pods{Spec: render.WithoutChannels(&s.Roles[j].Template.Spec), Count: int64(s.Roles[j].Count)})
		}
		devices, err := r.readDevices(ctx, wanted.Namespace, pods)
		out.claims = out.claims || devices.Claims != nil
		for name, spec := range devices.Templates {
			out.channels[name] = out.channels[name] || nvlink.IsChannel(spec)
		}
		if err == nil {
			out.of[s.Name], err = gpus.ShapeOf(pods, devices)
		}
		if err != nil {
			delete(out.of, s.Name)
			log.FromContext(ctx).V(1).Info("the GPUs of a component cannot be counted", "component", s.Name, "why", err.Error())
		}
	}
	return out
}

// readDevices reads the resource claims of pods, and the device classes of these claims, from the API server. It skips objects that do not
// exist.
func (r *Reconciler) readDevices(ctx context.Context, namespace string, pods []gpus.Pods) (gpus.Devices, error) {
	templates, claims := gpus.Named(pods)
	if len(templates)+len(claims) == 0 {
		return gpus.Devices{}, nil
	}
	out := gpus.Devices{
		Templates: map[string]*resourcev1.ResourceClaimSpec{}, Claims: map[string]*resourcev1.ResourceClaimSpec{},
		Classes: map[string]*resourcev1.DeviceClass{},
	}
	var failures []error
	for _, name := range templates {
		template := &resourcev1.ResourceClaimTemplate{}
		if found, err := r.look(ctx, client.ObjectKey{Namespace: namespace, Name: name}, template); found {
			out.Templates[name] = &template.Spec.Spec
		} else {
			failures = append(failures, err)
		}
	}
	for _, name := range claims {
		claim := &resourcev1.ResourceClaim{}
		if found, err := r.look(ctx, client.ObjectKey{Namespace: namespace, Name: name}, claim); found && claim.DeletionTimestamp == nil {
			out.Claims[name] = &claim.Spec
		} else {
			failures = append(failures, err)
		}
	}
	for _, specs := range []map[string]*resourcev1.ResourceClaimSpec{out.Templates, out.Claims} {
		for _, spec := range specs {
			failures = append(failures, r.readClasses(ctx, spec, out.Classes))
		}
	}
	return out, errors.Join(failures...)
}

func (r *Reconciler) readClasses(ctx context.Context, spec *resourcev1.ResourceClaimSpec, into map[string]*resourcev1.DeviceClass) error {
	var failures []error
	for _, name := range gpus.ClassesOf(spec) {
		if into[name] != nil {
			continue
		}
		class := &resourcev1.DeviceClass{}
		found, err := r.look(ctx, client.ObjectKey{Name: name}, class)
		if found {
			into[name] = class
		}
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}

// look reads an object from the API server. It returns false if the object does not exist or the cluster does not serve its kind.
func (r *Reconciler) look(ctx context.Context, key client.ObjectKey, into client.Object) (bool, error) {
	err := r.Live.Get(ctx, key, into)
	switch {
	case err == nil:
		return true, nil
	case apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
		return false, nil
	}
	return false, fmt.Errorf("reading %T %s: %w", into, key.Name, err)
}
