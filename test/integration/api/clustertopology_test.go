// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

const topology = `
apiVersion: grove.io/v1alpha1
kind: ClusterTopology
spec:
  levels:
  - {domain: zone, key: topology.kubernetes.io/zone}
  - {domain: rack, key: example.com/rack}
`

var _ = Describe("ClusterTopology", func() {
	key := func(key string) string { return `spec: {levels: [{domain: rack, key: ` + key + `}]}` }
	type creation struct {
		patch string
		want  refusal
	}
	DescribeTable("is accepted, or refused at the field at fault, when it is created", func(ctx SpecContext, tt creation) {
		_, err := create(ctx, topologies, object(topology, named(), tt.patch), metav1.DryRunAll)
		Expect(err).To(tt.want)
	}, suite.Entries(map[string]creation{
		"two levels": {},
		"every level of Grove alpha.4 to alpha.8": {patch: `
spec:
  levels:
  - {domain: region, key: topology.kubernetes.io/region}
  - {domain: zone, key: topology.kubernetes.io/zone}
  - {domain: datacenter, key: example.com/Data_Center.1}
  - {domain: block, key: cloud.provider.com/topology-block}
  - {domain: rack, key: rack}
  - {domain: host, key: kubernetes.io/hostname}
  - {domain: numa, key: numa}`},
		"node pool and another scheduler": {patch: `spec: {nodeSelector: {pool: gb200}, schedulerTopologyReferences: [{schedulerName: kai-scheduler, topologyReference: gb200}]}`},
		"free-form domain":                {patch: `spec: {levels: [{domain: 2nd-hop, key: hop}]}`},
		"16 levels":                       {patch: levels(16)},
		"17 levels":                       {patch: levels(17), want: refusal{"spec.levels", "must have at most 16 items"}},
		"no levels":                       {patch: `spec: {levels: []}`, want: refusal{"spec.levels", "should have at least 1 items"}},
		"levels missing":                  {patch: `spec: {levels: null}`, want: refusal{"spec.levels", "Required value"}},
		"domain twice":                    {patch: `spec: {levels: [{domain: rack, key: a}, {domain: rack, key: b}]}`, want: refusal{"spec.levels", "domain must be unique across all levels"}},
		"key twice":                       {patch: `spec: {levels: [{domain: zone, key: a}, {domain: rack, key: a}]}`, want: refusal{"spec.levels", "key must be unique across all levels"}},
		"domain in capitals":              {patch: `spec: {levels: [{domain: Rack, key: a}]}`, want: refusal{"spec.levels[0].domain", "should match"}},
		"domain of 64 characters":         {patch: `spec: {levels: [{domain: ` + strings.Repeat("a", 64) + `, key: a}]}`, want: refusal{"spec.levels[0].domain", "may not be more than 63"}},
		"domain of 10,000 characters":     {patch: `spec: {levels: [{domain: ` + strings.Repeat("a", 10_000) + `, key: a}]}`, want: refusal{"spec.levels[0].domain", "may not be more than 63"}},
		"level without key":               {patch: `spec: {levels: [{domain: rack}]}`, want: refusal{"spec.levels[0].key", "Required value"}},
		"key with two slashes":            {patch: key("a/b/c"), want: refusal{"spec.levels[0].key", "should match"}},
		"key with capitals in its prefix": {patch: key("Example.com/rack"), want: refusal{"spec.levels[0].key", "should match"}},
		"key with a name of 64":           {patch: key("example.com/" + strings.Repeat("a", 64)), want: refusal{"spec.levels[0].key", "should match"}},
		"longest key":                     {patch: key(strings.Repeat("a", 253) + "/" + strings.Repeat("a", 63))},
		"key with a prefix of 254":        {patch: key(strings.Repeat("a", 254) + "/rack"), want: refusal{"spec.levels[0].key", "at most 253 characters"}},
		"key of 10,000":                   {patch: key(strings.Repeat("a", 10_000)), want: refusal{"spec.levels[0].key", "may not be more than 317"}},
		"one scheduler twice":             {patch: `spec: {schedulerTopologyReferences: [{schedulerName: kai, topologyReference: a}, {schedulerName: kai, topologyReference: b}]}`, want: refusal{"spec.schedulerTopologyReferences[1]", "Duplicate value"}},
		"reference to nothing":            {patch: `spec: {schedulerTopologyReferences: [{schedulerName: kai, topologyReference: ""}]}`, want: refusal{"spec.schedulerTopologyReferences[0].topologyReference", "should be at least 1 chars long"}},
		"reference of nobody":             {patch: `spec: {schedulerTopologyReferences: [{schedulerName: "", topologyReference: a}]}`, want: refusal{"spec.schedulerTopologyReferences[0].schedulerName", "should be at least 1 chars long"}},
		"9 schedulers":                    {patch: references(9), want: refusal{"spec.schedulerTopologyReferences", "must have at most 8 items"}},
		"17 node labels":                  {patch: `spec: {nodeSelector: {` + selector(17) + `}}`, want: refusal{"spec.nodeSelector", "must have at most 16 items"}},
		"unknown field":                   {patch: `spec: {level: []}`, want: refusal{"", `unknown field "spec.level"`}},
	}))

	DescribeTable("takes changes of its levels", func(ctx SpecContext, change string) {
		mustCreate(ctx, topologies, object(topology, named()))
		mustPatch(ctx, topologies, namespace, change)
	}, suite.Entries(map[string]string{
		"level removed":  `spec: {levels: [{domain: zone, key: topology.kubernetes.io/zone}]}`,
		"order reversed": `spec: {levels: [{domain: rack, key: example.com/rack}, {domain: zone, key: topology.kubernetes.io/zone}]}`,
		"key changed":    `spec: {levels: [{domain: zone, key: example.com/zone}]}`,
	}))
})

func levels(count int) string { return `spec: {` + levelList(count) + `}` }

func levelList(count int) string {
	list := make([]string, count)
	for i := range list {
		list[i] = fmt.Sprintf("{domain: d%d, key: k%d}", i, i)
	}
	return `levels: [` + strings.Join(list, ", ") + `]`
}

func selector(count int) string {
	list := make([]string, count)
	for i := range list {
		list[i] = fmt.Sprintf("k%d: v", i)
	}
	return strings.Join(list, ", ")
}

func references(count int) string {
	list := make([]string, count)
	for i := range list {
		list[i] = fmt.Sprintf("{schedulerName: s%d, topologyReference: a}", i)
	}
	return `spec: {schedulerTopologyReferences: [` + strings.Join(list, ", ") + `]}`
}
