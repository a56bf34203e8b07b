// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placer

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/provider/podgroup"
)

// needed are the resources of each version. The scheduler reads both.
var needed = []struct {
	version   string
	resources []string
}{
	{"scheduling.k8s.io/v1beta1", []string{"podgroups", "workloads"}},
	{"scheduling.k8s.io/v1alpha3", []string{"compositepodgroups"}},
}

const howToServe = "it requires Kubernetes 1.37 or later whose API server runs with " +
	"--runtime-config=scheduling.k8s.io/v1beta1=true,scheduling.k8s.io/v1alpha3=true " +
	"and, like the scheduler and the controller manager, with " +
	"--feature-gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true,CompositePodGroup=true"

// Probe implements provider.Provider: what is served, and whether what is written is kept. Fields behind a feature gate that is off are
// dropped without an error, so objects are created dry and read back.
func (p Placer) Probe(ctx context.Context) (provider.State, error) {
	for _, n := range needed {
		list, err := p.Discovery.ServerResourcesForGroupVersion(n.version)
		if err != nil && !apierrors.IsNotFound(err) {
			return provider.State{}, fmt.Errorf("asking for the resources of %s: %w", n.version, err)
		}
		if missing := lacking(list, n.resources); len(missing) > 0 {
			return provider.State{Reason: nvidiav1beta1.ReasonAPINotServed, Message: fmt.Sprintf(
				"the API server does not serve %s of %s; %s", strings.Join(missing, " and "), n.version, howToServe)}, nil
		}
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

func lacking(list *metav1.APIResourceList, names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return list != nil && slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == name })
	})
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

// tryPod: a refusal is no answer, since admission may refuse pods in this namespace for other reasons; each real pod is read back too.
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
