// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-k8s/trellis/test/testutil/suite"
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

var _ = Describe("ScalingGroup", func() {
	otherPods := refusal{"spec.pods", "pods is replicas times the pods of a replica"}
	frozen := refusal{"spec.topology", "topology is immutable and cannot be added, removed, or changed"}
	type update struct {
		base   string
		change string
		want   refusal
	}
	DescribeTable("takes a change, or refuses it at the field at fault", func(ctx SpecContext, tt update) {
		mustCreate(ctx, groups, object(group, tt.base, named()))
		_, err := patch(ctx, groups, namespace, tt.change)
		Expect(err).To(tt.want)
	}, suite.Entries(map[string]update{
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
		"level removed":      {change: `spec: {topology: {levels: [{domain: zone, key: topology.kubernetes.io/zone}]}}`},
		"level's key":        {change: `spec: {topology: {levels: [{domain: zone, key: z}, {domain: rack, key: example.com/rack}]}}`},
		"pack domain":        {change: `spec: {topology: {packDomain: zone}}`, want: frozen},
		"preferred added":    {change: `spec: {topology: {preferredPackDomain: rack}}`, want: frozen},
		"another topology":   {change: `spec: {topology: {profile: q}}`, want: frozen},
		"no pack domain":     {change: `spec: {topology: {packDomain: null}}`, want: frozen},
		"made automatic":     {change: `spec: {topology: {automatic: true}}`, want: frozen},
		"node pool":          {change: `spec: {topology: {nodeSelector: {pool: b200}}}`},
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
	}))

	type creation struct {
		patch string
		want  refusal
	}
	DescribeTable("is accepted, or refused at the field at fault, when it is created", func(ctx SpecContext, tt creation) {
		_, err := create(ctx, groups, object(group, named(), tt.patch), metav1.DryRunAll)
		Expect(err).To(tt.want)
	}, suite.Entries(map[string]creation{
		"resolved":        {},
		"no topology":     {patch: `spec: {topology: null, multinode: null}`},
		"no graph":        {patch: `spec: {graph: ""}`, want: refusal{"spec.graph", "should be at least 1 chars long"}},
		"no service":      {patch: `spec: {service: ""}`, want: refusal{"spec.service", "should be at least 1 chars long"}},
		"17 levels":       {patch: "spec: {topology: {" + levelList(17) + "}}", want: refusal{"spec.topology.levels", "must have at most 16 items"}},
		"17 node labels":  {patch: `spec: {topology: {nodeSelector: {` + selector(17) + `}}}`, want: refusal{"spec.topology.nodeSelector", "must have at most 16 items"}},
		"levels, no name": {patch: `spec: {topology: {profile: null}}`, want: refusal{"spec.topology.profile", "Required value"}},
	}))

	It("keeps one place per replica", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		mustCreate(ctx, groups, object(group, named()))
		_, err := patch(ctx, groups, namespace, `status: {placements: [{replica: 0, domain: a}, {replica: 0, domain: b}]}`, "status")
		Expect(err).To(refusal{"status.placements[1]", "Duplicate value"})
	})

	It("has a scale that counts its pods, and that no one can scale by, whatever their rights", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		base := mustCreate(ctx, groups, object(group, named(),
			`spec: {pods: 8, roles: [{name: leader, count: 1, template: {}}, {name: worker, count: 3, template: {}}]}`))
		mustPatch(ctx, groups, namespace, `status: {pods: 5, selector: "a=b"}`, "status")
		scale, err := objectsOf(groups).Get(ctx, namespace, metav1.GetOptions{}, "scale")
		Expect(err).NotTo(HaveOccurred())
		Expect(scale.Object).To(And(
			HaveKeyWithValue("spec", map[string]any{"replicas": int64(8)}),
			HaveKeyWithValue("status", map[string]any{"replicas": int64(5), "selector": "a=b"})))
		Expect(scale.GetUID()).To(Equal(base.GetUID()))
		_, err = patch(ctx, groups, namespace, `spec: {replicas: 4}`, "scale")
		Expect(err).To(refusal{"spec.pods", "to scale, change the DynamoGraphDeployment"})
	})
})
