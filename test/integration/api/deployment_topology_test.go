// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

const (
	profileRequired = "topologyProfile is required when any topology constraint is set"
	domainRequired  = "packDomain is required when no service sets a topologyConstraint"
	immutable       = "is immutable and cannot be added, removed, or changed after creation; delete and recreate the DynamoGraphDeployment to change topology constraints"
	sameComponents  = "service topology is immutable and cannot be modified after creation"
)

// packed is a deployment with a constraint at both levels.
const packed = `
spec:
  backendFramework: vllm
  topologyConstraint: {topologyProfile: p, packDomain: zone}
  services:
    Worker:
      multinode: {nodeCount: 4}
      topologyConstraint: {packDomain: rack}
`

var _ = Describe("The topology constraint of a DynamoGraphDeployment", func() {
	type creation struct {
		graph  string // spec.topologyConstraint
		worker string // spec.services.Worker.topologyConstraint
		want   refusal
	}
	DescribeTable("is accepted, or refused at the field at fault, when it is created", func(ctx SpecContext, tt creation) {
		obj := object(graph, named(),
			"spec: {topologyConstraint: "+tt.graph+"}",
			"spec: {services: {Worker: {topologyConstraint: "+tt.worker+"}}}")
		_, err := create(ctx, deployments, obj, metav1.DryRunAll)
		Expect(err).To(tt.want)
	}, suite.Entries(map[string]creation{
		"none":                 {},
		"deployment only":      {graph: `{topologyProfile: p, packDomain: zone}`},
		"service only":         {graph: `{topologyProfile: p}`, worker: `{packDomain: rack}`},
		"both":                 {graph: `{topologyProfile: p, packDomain: zone}`, worker: `{packDomain: rack}`},
		"preferred only":       {graph: `{topologyProfile: p, preferredPackDomain: rack}`},
		"service prefers only": {graph: `{topologyProfile: p}`, worker: `{preferredPackDomain: rack}`},
		"both kinds":           {graph: `{topologyProfile: p, packDomain: zone, preferredPackDomain: rack}`, worker: `{packDomain: block, preferredPackDomain: host}`},
		"spread only":          {graph: `{topologyProfile: p, spreadDomain: zone}`},
		"service spreads only": {graph: `{topologyProfile: p}`, worker: `{preferredSpreadDomain: rack}`},
		"one-letter domain":    {graph: `{topologyProfile: p, packDomain: z}`},
		"digit first":          {graph: `{topologyProfile: p, packDomain: 1st-hop}`},

		"deployment without profile": {graph: `{packDomain: zone}`, want: refusal{"spec.topologyConstraint.topologyProfile", profileRequired}},
		"deployment, empty profile":  {graph: `{topologyProfile: "", packDomain: zone}`, want: refusal{"spec.topologyConstraint.topologyProfile", profileRequired}},
		"empty constraint":           {graph: `{}`, want: refusal{"spec.topologyConstraint.topologyProfile", profileRequired}},
		"service without profile": {
			worker: `{packDomain: rack}`,
			want:   refusal{"spec.topologyConstraint", "spec.topologyConstraint with topologyProfile is required when any topology constraint is set (at spec or service level)"},
		},
		"profile alone":           {graph: `{topologyProfile: p}`, want: refusal{"spec.topologyConstraint.packDomain", domainRequired}},
		"service, empty":          {graph: `{topologyProfile: p}`, worker: `{}`, want: refusal{"spec.services[Worker].topologyConstraint.packDomain", "topologyConstraint.packDomain is required"}},
		"service with a profile":  {graph: `{topologyProfile: p}`, worker: `{topologyProfile: p, packDomain: rack}`, want: refusal{"spec.services[Worker].topologyConstraint.topologyProfile", "set it once at spec.topologyConstraint.topologyProfile"}},
		"service, empty profile":  {graph: `{topologyProfile: p}`, worker: `{topologyProfile: "", packDomain: rack}`, want: refusal{"spec.services[Worker].topologyConstraint.topologyProfile", "must not be set on a service"}},
		"domain in capitals":      {graph: `{topologyProfile: p, packDomain: Rack}`, want: refusal{"spec.topologyConstraint.packDomain", `should match '^[a-z0-9]([a-z0-9-]*[a-z0-9])?$'`}},
		"domain, hyphen last":     {graph: `{topologyProfile: p, packDomain: rack-}`, want: refusal{"spec.topologyConstraint.packDomain", "should match"}},
		"domain, empty":           {graph: `{topologyProfile: p, packDomain: ""}`, want: refusal{"spec.topologyConstraint.packDomain", "should match"}},
		"preferred in capitals":   {graph: `{topologyProfile: p, preferredPackDomain: Rack}`, want: refusal{"spec.topologyConstraint.preferredPackDomain", "should match"}},
		"service's in capitals":   {graph: `{topologyProfile: p}`, worker: `{packDomain: Rack}`, want: refusal{"spec.services.Worker.topologyConstraint.packDomain", "should match"}},
		"service prefers Rack":    {graph: `{topologyProfile: p}`, worker: `{preferredPackDomain: Rack}`, want: refusal{"spec.services.Worker.topologyConstraint.preferredPackDomain", "should match"}},
		"domain of 64 characters": {graph: `{topologyProfile: p, packDomain: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa}`, want: refusal{"spec.topologyConstraint.packDomain", "may not be more than 63"}},
	}))

	// It could be changed in two steps that are each harmless, were it not for the set of components.
	It("cannot be changed by removing a service and adding it again", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		mustCreate(ctx, deployments, object(graph, packed, named()))

		_, err := patch(ctx, deployments, namespace, `spec: {services: {Worker: null}}`)
		Expect(err).To(refusal{"spec.services", sameComponents})

		_, err = patch(ctx, deployments, namespace, `spec: {services: {Worker: null, Worker2: {topologyConstraint: {packDomain: host}}}}`)
		Expect(err).To(refusal{"spec.services", sameComponents})

		current, err := objectsOf(deployments).Get(ctx, namespace, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		changed := object(graph, named(), `spec: {backendFramework: vllm, topologyConstraint: {topologyProfile: p, packDomain: zone}}`)
		changed.SetResourceVersion(current.GetResourceVersion())
		_, err = objectsOf(deployments).Update(ctx, changed, metav1.UpdateOptions{})
		Expect(err).To(refusal{"spec.services[Worker].topologyConstraint", "topologyConstraint " + immutable})
	})
})

var _ = Describe("A stored DynamoGraphDeployment", func() {
	atSpec := refusal{"spec.topologyConstraint", "spec.topologyConstraint " + immutable}
	atComponent := refusal{"spec.services[Worker].topologyConstraint", "topologyConstraint " + immutable}
	set := refusal{"spec.services", sameComponents}
	nodes := refusal{"spec.services[Worker].multinode", "cannot change node topology (between single-node and multi-node) after creation"}
	fixedType := refusal{"spec.services[Worker].componentType", "componentType is immutable after it is set"}
	framework := refusal{"spec.backendFramework", "spec.backendFramework is immutable and cannot be changed after creation"}

	type update struct {
		base   string // laid over graph before it is created
		change string
		want   refusal
	}
	DescribeTable("takes a change, or refuses it at the field at fault", func(ctx SpecContext, tt update) {
		mustCreate(ctx, deployments, object(graph, tt.base, named()))
		_, err := patch(ctx, deployments, namespace, tt.change)
		Expect(err).To(tt.want)
	}, suite.Entries(map[string]update{
		"profile changed":          {base: packed, change: `spec: {topologyConstraint: {topologyProfile: q}}`, want: atSpec},
		"domain changed":           {base: packed, change: `spec: {topologyConstraint: {packDomain: block}}`, want: atSpec},
		"domain removed":           {base: packed, change: `spec: {topologyConstraint: {packDomain: null}}`, want: atSpec},
		"spread domain added":      {base: packed, change: `spec: {topologyConstraint: {spreadDomain: rack}}`, want: atSpec},
		"service's spread set":     {base: packed, change: `spec: {services: {Worker: {topologyConstraint: {preferredSpreadDomain: rack}}}}`, want: atComponent},
		"preferred domain added":   {base: packed, change: `spec: {topologyConstraint: {preferredPackDomain: rack}}`, want: atSpec},
		"constraint removed":       {base: packed, change: `spec: {topologyConstraint: null}`, want: atSpec},
		"constraint added":         {change: `spec: {topologyConstraint: {topologyProfile: p, packDomain: zone}}`, want: atSpec},
		"service's domain changed": {base: packed, change: `spec: {services: {Worker: {topologyConstraint: {packDomain: host}}}}`, want: atComponent},
		"service's removed":        {base: packed, change: `spec: {services: {Worker: {topologyConstraint: null}}}`, want: atComponent},
		"service's preferred set":  {base: packed, change: `spec: {services: {Worker: {topologyConstraint: {preferredPackDomain: host}}}}`, want: atComponent},
		"service's added": {
			base:   packed,
			change: `spec: {services: {Frontend: {topologyConstraint: {packDomain: rack}}}}`,
			want:   refusal{"spec.services[Frontend].topologyConstraint", "topologyConstraint " + immutable},
		},
		"service added":              {base: packed, change: `spec: {services: {Router: {}}}`, want: set},
		"service removed":            {base: packed, change: `spec: {services: {Worker: null}}`, want: set},
		"service renamed":            {base: packed, change: `spec: {services: {Frontend: null, Router: {}}}`, want: set},
		"all services removed":       {base: packed, change: `spec: {services: null}`, want: refusal{"spec.services", "Required value"}},
		"framework changed":          {base: packed, change: `spec: {backendFramework: sglang}`, want: framework},
		"framework removed":          {base: packed, change: `spec: {backendFramework: null}`, want: framework},
		"framework added":            {change: `spec: {backendFramework: sglang}`, want: framework},
		"multinode removed":          {base: packed, change: `spec: {services: {Worker: {multinode: null}}}`, want: nodes},
		"multinode added":            {change: `spec: {services: {Worker: {multinode: {}}}}`, want: nodes},
		"node count to 1":            {base: packed, change: `spec: {services: {Worker: {multinode: {nodeCount: 1}}}}`, want: refusal{"spec.services.Worker.multinode.nodeCount", "should be greater than or equal to 2"}},
		"node count changed":         {base: packed, change: `spec: {services: {Worker: {multinode: {nodeCount: 2}}}}`},
		"scaled":                     {base: packed, change: `spec: {services: {Worker: {replicas: 5}, Frontend: {replicas: 0}}}`},
		"scaled below zero":          {base: packed, change: `spec: {services: {Worker: {replicas: -1}}}`, want: refusal{"spec.services[Worker].replicas", "must be non-negative"}},
		"pod changed":                {base: packed, change: `spec: {services: {Worker: {extraPodSpec: {mainContainer: {image: b}}}}}`},
		"restarted":                  {base: packed, change: `spec: {restart: {id: "2"}}`},
		"labels and annotations":     {base: packed, change: `metadata: {labels: {a: b}, annotations: {a: b}}`},
		"other resources":            {base: packed, change: `spec: {services: {Worker: {resources: {limits: {gpu: "4"}}}}}`},
		"service type":               {base: packed, change: `spec: {services: {Worker: {componentType: decode}}}`, want: fixedType},
		"service type removed":       {base: packed, change: `spec: {services: {Worker: {componentType: null}}}`, want: fixedType},
		"service type set":           {base: `spec: {services: {Worker: {componentType: null}}}`, change: `spec: {services: {Worker: {componentType: decode}}}`},
		"service type set from \"\"": {base: `spec: {services: {Worker: {componentType: ""}}}`, change: `spec: {services: {Worker: {componentType: decode}}}`},
		"sub-type":                   {base: packed, change: `spec: {services: {Worker: {subComponentType: decode}}}`},
		"roles":                      {base: packed, change: `spec: {services: {Worker: {roles: [{name: leader}, {name: worker, replicas: 3}]}}}`},
		"a role twice":               {base: packed, change: `spec: {services: {Worker: {roles: [{name: leader}, {name: leader}]}}}`, want: refusal{"spec.services[Worker].roles[1]", "Duplicate value"}},
		"a role without a name":      {base: packed, change: `spec: {services: {Worker: {roles: [{replicas: 1}]}}}`, want: refusal{"spec.services.Worker.roles[0].name", "Required value"}},
		"a role of no pods":          {base: packed, change: `spec: {services: {Worker: {roles: [{name: leader, replicas: 0}]}}}`, want: refusal{"spec.services.Worker.roles[0].replicas", "greater than or equal to 1"}},
	}))
})
