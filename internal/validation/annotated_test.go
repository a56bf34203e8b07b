// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/test/testutil/hub"
)

// byAnnotations states the constraint by annotations only: topology, required key, preferred key.
func byAnnotations(topology, required, preferred string) func(*deployment) {
	return func(d *deployment) {
		d.Spec.TopologyConstraint, d.Spec.Services["Worker"].TopologyConstraint = nil, nil
		d.Annotations = map[string]string{}
		for key, value := range map[string]string{
			constraint.AnnotationTopology: topology, constraint.AnnotationRequired: required, constraint.AnnotationPreferred: preferred,
		} {
			if value != "" {
				d.Annotations[key] = value
			}
		}
	}
}

func TestConstraintInAnnotations(t *testing.T) {
	const zone, block, rack = "topology.kubernetes.io/zone", "example.com/block", "example.com/rack"
	const prefix = "metadata.annotations[kai.scheduler/topology"
	for name, tc := range map[string]struct {
		change         func(*deployment)
		want, warnings []string
	}{
		"required":  {change: byAnnotations("gb200", rack, "")},
		"both":      {change: byAnnotations("gb200", zone, rack)},
		"preferred": {change: byAnnotations("gb200", "", rack)},
		"an empty value is none": {change: func(d *deployment) {
			byAnnotations("gb200", rack, "")(d)
			d.Annotations[constraint.AnnotationPreferred] = ""
		}},
		"a topology and no placement": {change: byAnnotations("gone", "", ""), warnings: []string{"annotation kai.scheduler/topology packs nothing by itself; say how tightly with kai.scheduler/topology-required-placement or kai.scheduler/topology-preferred-placement"}},
		"no topology": {change: byAnnotations("", rack, ""), want: []string{
			prefix + "]: Required value: name the ClusterTopology whose node label keys the placement annotations use: kai.scheduler/topology is required with them"}},
		"a domain instead of a key": {change: byAnnotations("gb200", "rack", ""), want: []string{prefix +
			`-required-placement]: Not found: "rack": rack is not the node label key of any level of ClusterTopology "gb200"; available keys: [topology.kubernetes.io/zone, example.com/block, example.com/rack, kubernetes.io/hostname]`}},
		"preferred broader than required": {change: byAnnotations("gb200", rack, block), warnings: []string{
			"annotation kai.scheduler/topology-preferred-placement has no effect: example.com/block is not narrower than the required example.com/rack"}},
		"beside fields": {change: func(d *deployment) { d.Annotations = map[string]string{constraint.AnnotationRequired: rack} }, want: []string{prefix +
			`-required-placement]: Forbidden: a topology constraint is set both by this annotation and by topologyConstraint in the spec; remove one of the two forms`}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newGraph(tc.change)
			errs := Graph(written(d))
			if len(errs) == 0 {
				errs = GraphTopology(hub.Of(d), newTopology())
			}
			if diff := cmp.Diff(tc.want, texts(errs)); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
			if len(errs) > 0 {
				return
			}
			if diff := cmp.Diff(tc.warnings, textsIn(GraphWarnings(written(d), newTopology(), nil), "v1alpha1")); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
	missing := newGraph(byAnnotations("gone", rack, ""))
	if errs := texts(GraphTopology(hub.Of(missing), nil)); len(errs) != 1 || errs[0][:len(prefix)+1] != prefix+"]" {
		t.Errorf("the error must be at the annotation that names the topology: %v", errs)
	}
}

// What annotations say about topology is taken over once; any later change is refused, even when nothing else changes (docs/placement.md#where-a-constraint-comes-from).
func TestTopologyAnnotationsAreImmutable(t *testing.T) {
	const rack, block = "example.com/rack", "example.com/block"
	at := func(key string) string {
		path := "metadata.annotations[" + key + "]"
		return path + ": Forbidden: " + path + " is immutable and cannot be added, removed, or changed after creation; delete and recreate the DynamoGraphDeployment to change topology constraints"
	}
	for name, tc := range map[string]struct {
		old, change func(*deployment)
		want        []string
	}{
		"changed": {byAnnotations("gb200", rack, ""), byAnnotations("gb200", block, ""), []string{at(constraint.AnnotationRequired)}},
		"removed": {byAnnotations("gb200", "", rack), byAnnotations("", "", ""), []string{at(constraint.AnnotationTopology), at(constraint.AnnotationPreferred)}},
		"added":   {byAnnotations("", "", ""), byAnnotations("gb200", "", rack), []string{at(constraint.AnnotationTopology), at(constraint.AnnotationPreferred)}},
		"another annotation": {byAnnotations("gb200", rack, ""), func(d *deployment) {
			byAnnotations("gb200", rack, "")(d)
			d.Annotations["team"] = "search"
		}, nil},
		"an annotation that breaks a rule": {byAnnotations("gb200", rack, ""), func(d *deployment) {
			byAnnotations("gb200", rack, "")(d)
			d.Annotations[annotationExecutorBackend] = "slurm"
		}, []string{`metadata.annotations[nvidia.com/vllm-distributed-executor-backend]: Unsupported value: "slurm": must be "mp" or "ray"`}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, texts(GraphUpdate(written(newGraph(tc.change)), written(newGraph(tc.old))))); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}
