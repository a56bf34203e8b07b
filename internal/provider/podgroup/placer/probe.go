// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placer

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/provider/podgroup"
)

// The versions of the API. From Kubernetes 1.38 on, v1beta1 contains CompositePodGroups.
const (
	versionBeta  = "scheduling.k8s.io/v1beta1"
	versionAlpha = "scheduling.k8s.io/v1alpha3"

	composites = "compositepodgroups"
)

const howToServe = "it requires Kubernetes 1.37 or later whose API server runs with " +
	"--runtime-config=scheduling.k8s.io/v1beta1=true,scheduling.k8s.io/v1alpha3=true (v1beta1 alone from 1.38 on) " +
	"and, like the scheduler and the controller manager, with " +
	"--feature-gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true,CompositePodGroup=true"

// Probe implements provider.Provider: it checks whether the API server serves the resources, and whether it keeps the written fields. The
// API server silently drops fields behind a disabled feature gate, so Probe creates objects in dry-run mode and compares the result.
func (p Placer) Probe(ctx context.Context) (provider.State, error) {
	beta, err := p.served(versionBeta)
	if err != nil {
		return provider.State{}, err
	}
	if missing := sets.List(sets.New("podgroups", "workloads").Difference(beta)); len(missing) > 0 {
		return notServed(versionBeta, missing...), nil
	}
	if !beta.Has(composites) {
		alpha, err := p.served(versionAlpha)
		if err != nil {
			return provider.State{}, err
		}
		if !alpha.Has(composites) {
			return notServed(versionAlpha, composites), nil
		}
	}
	if p.Composite != nil {
		p.Composite.beta.Store(beta.Has(composites))
	}
	for _, try := range []func(context.Context) (string, error){p.tryGroup, p.tryPod} {
		lost, err := try(ctx)
		if err != nil {
			return provider.State{}, err
		}
		if lost != "" {
			return provider.State{Reason: nvidiav1beta1.ReasonFieldsDropped, Message: lost + "; " + howToServe}, nil
		}
	}
	return provider.Ready(), nil
}

// served returns the names of the resources in an API version.
func (p Placer) served(version string) (sets.Set[string], error) {
	list, err := p.Discovery.ServerResourcesForGroupVersion(version)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("asking for the resources of %s: %w", version, err)
	}
	names := sets.New[string]()
	if err == nil {
		for i := range list.APIResources {
			names.Insert(list.APIResources[i].Name)
		}
	}
	return names, nil
}

func notServed(version string, missing ...string) provider.State {
	return provider.State{Reason: nvidiav1beta1.ReasonAPINotServed, Message: fmt.Sprintf(
		"the API server does not serve %s of %s; %s", strings.Join(missing, " and "), version, howToServe)}
}

func (p Placer) tryGroup(ctx context.Context) (string, error) {
	want := podgroup.ProbeGroup(p.Namespace)
	made := want.DeepCopy()
	err := p.Client.Create(ctx, made, client.DryRunAll)
	switch {
	case apierrors.IsInvalid(err):
		return "the API server refuses a PodGroup with a topology constraint and a parent: " + err.Error(), nil
	case err != nil:
		return "", fmt.Errorf("trying a PodGroup: %w", err)
	}
	return podgroup.Dropped(want, made), nil
}

// tryPod checks by a dry run that the API server keeps the fields of a pod. If the API server refuses the pod, tryPod reports no problem,
// because admission may refuse pods in this namespace for other reasons. Each real pod is checked as well.
func (p Placer) tryPod(ctx context.Context) (string, error) {
	pod := podgroup.ProbePod(p.Namespace)
	err := p.Client.Create(ctx, pod, client.DryRunAll)
	switch {
	case err != nil && apierrors.ReasonForError(err) == metav1.StatusReasonUnknown:
		return "", fmt.Errorf("trying a pod: %w", err)
	case err == nil && pod.Spec.SchedulingGroup == nil:
		return "the API server drops spec.schedulingGroup of pods", nil
	}
	return "", nil
}
