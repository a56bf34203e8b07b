// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const group = `
apiVersion: trellis.dev/v1alpha1
kind: ScalingGroup
spec:
  graph: my-llm
  service: Worker
  engine: Gates
  replicas: 2
  multinode: true
  revision: abc
  topology:
    profile: p
    levels: [{domain: zone, key: topology.kubernetes.io/zone}, {domain: rack, key: example.com/rack}]
    nodeSelector: {pool: gb200}
    graphPackDomain: zone
    packDomain: rack
  roles:
  - name: leader
    count: 1
    template: {metadata: {labels: {a: b}}, spec: {containers: [{name: main, image: x, fieldOfTheFuture: 1}]}}
`

func TestScalingGroupUpdate(t *testing.T) {
	otherPods := refusal{"spec.pods", "pods is replicas times the pods of a replica"}
	frozen := refusal{"spec.topology", "topology is immutable and cannot be added, removed, or changed"}
	tests := map[string]struct {
		base   string
		change string
		want   refusal
	}{
		"scaled":             {change: `spec: {replicas: 0}`},
		"new revision":       {change: `spec: {revision: def, roles: [{name: leader, count: 1, template: {spec: {containers: []}}}]}`},
		"metadata":           {change: `metadata: {labels: {a: b}}`},
		"multinode repeated": {base: `spec: {multinode: null}`, change: `spec: {multinode: false}`},

		"graph":              {change: `spec: {graph: other}`, want: refusal{"spec.graph", "graph is immutable"}},
		"service":            {change: `spec: {service: other}`, want: refusal{"spec.service", "service is immutable"}},
		"multinode removed":  {change: `spec: {multinode: null}`, want: refusal{"spec.multinode", "multinode is immutable"}},
		"multinode added":    {base: `spec: {multinode: null}`, change: `spec: {multinode: true}`, want: refusal{"spec.multinode", "multinode is immutable"}},
		"topology removed":   {change: `spec: {topology: null}`, want: frozen},
		"topology added":     {base: `spec: {topology: null}`, change: `spec: {topology: {profile: p, levels: []}}`, want: frozen},
		"level removed":      {change: `spec: {topology: {levels: [{domain: zone, key: topology.kubernetes.io/zone}]}}`, want: frozen},
		"level's key":        {change: `spec: {topology: {levels: [{domain: zone, key: z}, {domain: rack, key: example.com/rack}]}}`, want: frozen},
		"pack domain":        {change: `spec: {topology: {packDomain: zone}}`, want: frozen},
		"preferred added":    {change: `spec: {topology: {preferredPackDomain: rack}}`, want: frozen},
		"node pool":          {change: `spec: {topology: {nodeSelector: {pool: b200}}}`, want: frozen},
		"negative replicas":  {change: `spec: {replicas: -1}`, want: refusal{"spec.replicas", "should be greater than or equal to 0"}},
		"beyond the bound":   {change: `spec: {replicas: 65537}`, want: refusal{"spec.replicas", "should be less than or equal to 65536"}},
		"role of 4097 pods":  {change: `spec: {roles: [{name: main, count: 4097, template: {}}]}`, want: refusal{"spec.roles[0].count", "should be less than or equal to 4096"}},
		"role without pods":  {change: `spec: {roles: [{name: main, count: 0, template: {}}]}`, want: refusal{"spec.roles[0].count", "should be greater than or equal to 1"}},
		"no provider":        {change: `spec: {engine: ""}`, want: refusal{"spec.engine", "should be at least 1 chars long"}},
		"nine roles":         {change: `spec: {roles: [` + strings.Repeat("{name: main, count: 1, template: {}}, ", 9) + `]}`, want: refusal{"spec.roles", "must have at most 8 items"}},
		"pods as wanted":     {change: `spec: {pods: 2}`},
		"pods of no replica": {change: `spec: {replicas: 0, pods: 0}`},
		"the largest":        {change: `spec: {replicas: 65536, pods: 268435456, roles: [{name: worker, count: 4096, template: {}}]}`},
		"other pods":         {change: `spec: {pods: 3}`, want: otherPods},
		"negative pods":      {change: `spec: {pods: -1}`, want: refusal{"spec.pods", "should be greater than or equal to 0"}},
		"replicas alone":     {base: `spec: {pods: 2}`, change: `spec: {replicas: 3}`, want: otherPods},
		"group without role": {change: `spec: {roles: []}`, want: refusal{"spec.roles", "should have at least 1 items"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			obj := mustCreate(t, groups, object(t, group, tt.base, "metadata: {name: "+objectName(t)+"}"))
			_, err := patch(t, groups, obj.GetName(), tt.change)
			tt.want.check(t, err)
		})
	}
}

func TestScalingGroupCreate(t *testing.T) {
	tests := map[string]struct {
		patch string
		want  refusal
	}{
		"resolved":        {},
		"no topology":     {patch: `spec: {topology: null, multinode: null}`},
		"no graph":        {patch: `spec: {graph: ""}`, want: refusal{"spec.graph", "should be at least 1 chars long"}},
		"no service":      {patch: `spec: {service: ""}`, want: refusal{"spec.service", "should be at least 1 chars long"}},
		"17 levels":       {patch: "spec: {topology: {" + levelList(17) + "}}", want: refusal{"spec.topology.levels", "must have at most 16 items"}},
		"17 node labels":  {patch: `spec: {topology: {nodeSelector: {` + selector(17) + `}}}`, want: refusal{"spec.topology.nodeSelector", "must have at most 16 items"}},
		"levels, no name": {patch: `spec: {topology: {profile: null}}`, want: refusal{"spec.topology.profile", "Required value"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := create(t, groups, object(t, group, "metadata: {name: "+objectName(t)+"}", tt.patch), metav1.DryRunAll)
			tt.want.check(t, err)
		})
	}
}

func TestScalingGroupKeepsOnePlacePerReplica(t *testing.T) {
	obj := mustCreate(t, groups, object(t, group, "metadata: {name: one-place}"))
	_, err := patch(t, groups, obj.GetName(), `status: {placements: [{replica: 0, domain: a}, {replica: 0, domain: b}]}`, "status")
	refusal{"status.placements[1]", "Duplicate value"}.check(t, err)
}

// The scale of a group is its pods, for those who count by it; nobody scales by it, whatever his rights.
func TestScalingGroupScale(t *testing.T) {
	base := mustCreate(t, groups, object(t, group, `{metadata: {name: scale}, spec: {pods: 8, roles: [{name: leader, count: 1, template: {}}, {name: worker, count: 3, template: {}}]}}`))
	if _, err := patch(t, groups, "scale", `status: {pods: 5, selector: "a=b"}`, "status"); err != nil {
		t.Fatal(err)
	}
	scale, err := objectsOf(groups).Get(t.Context(), "scale", metav1.GetOptions{}, "scale")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"spec": map[string]any{"replicas": int64(8)}, "status": map[string]any{"replicas": int64(5), "selector": "a=b"}}
	if diff := cmp.Diff(want, map[string]any{"spec": scale.Object["spec"], "status": scale.Object["status"]}); diff != "" {
		t.Errorf("scale (-want +got):\n%s", diff)
	}
	if scale.GetUID() != base.GetUID() {
		t.Errorf("the scale is of %s, want %s", scale.GetUID(), base.GetUID())
	}
	_, err = patch(t, groups, "scale", `spec: {replicas: 4}`, "scale")
	refusal{"spec.pods", "to scale, change the DynamoGraphDeployment"}.check(t, err)
}
