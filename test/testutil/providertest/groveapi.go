// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package providertest

import (
	"errors"
	"fmt"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/trellis-k8s/trellis/internal/provider/external"
	"github.com/trellis-k8s/trellis/internal/provider/grove"
)

// GroveDefaults applies the defaults of the admission webhook of Grove v0.1.0-alpha.11 to a PodCliqueSet: it decodes the object, sets
// defaults, and encodes it as Grove's own types do.
func GroveDefaults(pcs *unstructured.Unstructured) error {
	delay, set, _ := unstructured.NestedString(pcs.Object, "spec", "template", "terminationDelay")
	duration := 4 * time.Hour
	if set {
		var err error
		if duration, err = time.ParseDuration(delay); err != nil {
			return err
		}
	}
	if err := unstructured.SetNestedField(pcs.Object, duration.String(), "spec", "template", "terminationDelay"); err != nil {
		return err
	}
	if _, set, _ := unstructured.NestedMap(pcs.Object, "spec", "template", "headlessServiceConfig"); !set {
		if err := unstructured.SetNestedField(pcs.Object, true, "spec", "template", "headlessServiceConfig",
			"publishNotReadyAddresses"); err != nil {
			return err
		}
	}
	cliques, _, err := unstructured.NestedSlice(pcs.Object, "spec", "template", "cliques")
	if err != nil {
		return err
	}
	for i := range cliques {
		if err := defaultClique(cliques[i].(map[string]any)); err != nil {
			return err
		}
	}
	return unstructured.SetNestedSlice(pcs.Object, cliques, "spec", "template", "cliques")
}

func defaultClique(clique map[string]any) error {
	spec, _ := clique["spec"].(map[string]any)
	if spec == nil {
		return errors.New("a clique without a spec")
	}
	if replicas, _ := spec["replicas"].(int64); replicas == 0 {
		spec["replicas"] = int64(1)
	}
	if spec["minAvailable"] == nil {
		spec["minAvailable"] = spec["replicas"]
	}
	pod := &corev1.PodSpec{}
	if raw, _ := spec["podSpec"].(map[string]any); raw != nil {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, pod); err != nil {
			return err
		}
	}
	if pod.RestartPolicy == "" {
		pod.RestartPolicy = corev1.RestartPolicyAlways
	}
	if pod.TerminationGracePeriodSeconds == nil {
		pod.TerminationGracePeriodSeconds = new(int64(30))
	}
	out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
	spec["podSpec"] = out
	return err
}

// GroveRefuses returns why that webhook refuses a change of a PodCliqueSet; nil if it accepts the change.
func GroveRefuses(updated, old *unstructured.Unstructured) error {
	now, before := &grove.PodCliqueSet{}, &grove.PodCliqueSet{}
	if err := errors.Join(external.Read(updated, now), external.Read(old, before)); err != nil {
		return err
	}
	var errs []error
	fixed := func(path string, now, before any) {
		if !reflect.DeepEqual(now, before) {
			errs = append(errs, fmt.Errorf("spec.template.%s: Invalid value: %v: field is immutable", path, reflect.Indirect(reflect.ValueOf(now))))
		}
	}
	fixed("topologyConstraint", now.Spec.Template.TopologyConstraint, before.Spec.Template.TopologyConstraint)
	fixed("cliqueStartupType", now.Spec.Template.CliqueStartupType, before.Spec.Template.CliqueStartupType)
	cliques, groups := map[string]grove.Clique{}, map[string]grove.ScalingGroup{}
	for _, c := range before.Spec.Template.Cliques {
		cliques[c.Name] = c
	}
	for _, g := range before.Spec.Template.PodCliqueScalingGroups {
		groups[g.Name] = g
	}
	if len(cliques) != len(now.Spec.Template.Cliques) || len(groups) != len(now.Spec.Template.PodCliqueScalingGroups) {
		errs = append(errs, errors.New("spec.template.cliques: Forbidden: not allowed to change clique composition"))
	}
	for _, c := range now.Spec.Template.Cliques {
		fixed("cliques.spec.roleName", c.Spec.RoleName, cliques[c.Name].Spec.RoleName)
		fixed("cliques.spec.minAvailable", c.Spec.MinAvailable, cliques[c.Name].Spec.MinAvailable)
		fixed("cliques.spec.podSpec.schedulerName", c.Spec.PodSpec.SchedulerName, cliques[c.Name].Spec.PodSpec.SchedulerName)
		fixed("cliques.topologyConstraint", c.TopologyConstraint, cliques[c.Name].TopologyConstraint)
	}
	for _, g := range now.Spec.Template.PodCliqueScalingGroups {
		fixed("podCliqueScalingGroups.cliqueNames", g.CliqueNames, groups[g.Name].CliqueNames)
		fixed("podCliqueScalingGroups.minAvailable", g.MinAvailable, groups[g.Name].MinAvailable)
		fixed("podCliqueScalingGroups.topologyConstraint", g.TopologyConstraint, groups[g.Name].TopologyConstraint)
	}
	return errors.Join(errs...)
}
