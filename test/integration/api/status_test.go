// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/trellis-k8s/trellis/test/testutil/manifest"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

const (
	deploymentStatus = `
status:
  observedGeneration: 1
  state: pending
  engine: Gates
  summary: 1/2
  conditions:
  - {type: Ready, status: "False", reason: some_resources_are_not_ready, message: "Worker: desired 2, ready 1", observedGeneration: 1, lastTransitionTime: "2026-01-01T00:00:00Z"}
  - {type: Placed, status: "True", reason: AllReplicasPlaced, message: "all replicas are placed in zone-0", observedGeneration: 1, lastTransitionTime: "2026-01-01T00:00:00Z"}
  services:
    Worker:
      componentKind: ScalingGroup
      componentName: g-worker
      componentNames: [g-worker]
      replicas: 2
      updatedReplicas: 2
      readyReplicas: 1
      availableReplicas: 1
      scheduledReplicas: 2
      runtimeNamespace: default-g
      placements: [{replica: 0, domain: zone-0/rack-1}, {replica: 1, domain: zone-0/rack-2}]
  restart: {observedID: "1", phase: Restarting, inProgress: [Worker]}
  rollingUpdate: {phase: InProgress, startTime: "2026-01-01T00:00:00Z", updatedServices: [Frontend]}
  checkpoints: {Worker: {checkpointName: c, checkpointID: d, identityHash: e, ready: true}}
  placement: {domain: zone-0, score: 0.75, state: Reported}
`
	topologyStatus = `
status:
  observedGeneration: 1
  summary: zone > rack
  nodes: 12
  usedBy: 3
  levels: [{domain: zone, domains: 2, nodes: 12, nodesMissing: 0}, {domain: rack, domains: 4, nodes: 11, nodesMissing: 1}]
  conditions:
  - {type: LevelsLabeled, status: "False", reason: LabelsMissing, message: "1 node lacks example.com/rack", observedGeneration: 1, lastTransitionTime: "2026-01-01T00:00:00Z"}
  - {type: HierarchyConsistent, status: "True", reason: HierarchyValid, message: "", observedGeneration: 1, lastTransitionTime: "2026-01-01T00:00:00Z"}
`
	groupStatus = `
status: {observedGeneration: 1, replicas: 2, updatedReplicas: 1, scheduledReplicas: 2, readyReplicas: 1, availableReplicas: 1, placements: [{replica: 0, domain: zone-0/rack-1}]}
`
)

// kind of object with a status.
type kind struct {
	resource schema.GroupVersionResource
	manifest string
	status   string
	columns  [][2]string // as kubectl get -o wide prints them, Age last
}

var kinds = map[string]kind{
	"DynamoGraphDeployment": {deployments, graph, deploymentStatus, [][2]string{
		{"Ready", "False"}, {"State", "pending"}, {"Services", "1/2"}, {"Domain", "zone-0"}, {"Reason", "some_resources_are_not_ready"}, {"Message", "Worker: desired 2, ready 1"}, {"Provider", "Gates"},
		{"Placed", "AllReplicasPlaced"}, {"Placed Message", "all replicas are placed in zone-0"},
	}},
	"ClusterTopology": {topologies, topology, topologyStatus, [][2]string{
		{"Levels", "zone > rack"}, {"Nodes", "12"}, {"Labeled", "False"}, {"Consistent", "True"}, {"Used by", "3"}, {"Message", "1 node lacks example.com/rack"},
	}},
	"DynamoGraphDeploymentScalingAdapter": {adapters, scalingAdapter, scalingAdapterStatus, [][2]string{
		{"DGD", "my-llm"}, {"Service", "Decode"}, {"Desired", "2"}, {"Replicas", "1"}, {"Active", "True"},
	}},
	"ScalingGroup": {groups, group, groupStatus, [][2]string{
		{"Graph", "my-llm"}, {"Service", "Worker"}, {"Desired", "2"}, {"Ready", "1"}, {"Updated", "1"}, {"Provider", "Gates"}, {"Pack Domain", "rack"}, {"Graph Domain", "zone"},
	}},
}

var _ = Describe("The status", func() {
	DescribeTable("is a subresource", func(ctx SpecContext, tt kind) {
		created := mustCreate(ctx, tt.resource, object(tt.manifest, named(), tt.status))
		Expect(created.Object).NotTo(HaveKey("status"), "a status written with the object")
		updated := mustPatch(ctx, tt.resource, namespace, tt.status, "status")
		Expect(cmp.Diff(manifest.Parse(GinkgoTB(), tt.status)["status"], updated.Object["status"])).To(BeEmpty(), "status (-written +kept)")
		Expect(updated.GetGeneration()).To(Equal(created.GetGeneration()))
		Expect(cmp.Diff(created.Object["spec"], updated.Object["spec"])).To(BeEmpty(), "spec (-before +after)")
	}, suite.Entries(kinds))

	type change struct {
		change string
		want   refusal
	}
	DescribeTable("of a DynamoGraphDeployment is accepted, or refused at the field at fault", func(ctx SpecContext, tt change) {
		mustCreate(ctx, deployments, object(graph, named()))
		updated, err := patch(ctx, deployments, namespace, tt.change, "status")
		Expect(err).To(tt.want)
		if err == nil {
			state, _, _ := unstructured.NestedString(updated.Object, "status", "state")
			Expect(state).To(Equal("initializing"), "the state by default")
		}
	}, suite.Entries(map[string]change{
		"state of our own": {`status: {state: sleeping}`, refusal{"status.state", "Unsupported value"}},
		"score below 0":    {`status: {placement: {score: -1}}`, refusal{"status.placement.score", "should be greater than or equal to 0"}},
		"65 places": {`status: {services: {Worker: {componentKind: k, componentName: g, replicas: 0, updatedReplicas: 0, placements: [` + places(65) + `]}}}`,
			refusal{"status.services.Worker.placements", "must have at most 64 items"}},
		"one place twice": {`status: {services: {Worker: {componentKind: k, componentName: g, replicas: 0, updatedReplicas: 0, placements: [{replica: 0, domain: a}, {replica: 0, domain: b}]}}}`,
			refusal{"status.services[Worker].placements[1]", "Duplicate value"}},
		"score above 1":        {`status: {placement: {score: 2}}`, refusal{"status.placement.score", "should be less than or equal to 1"}},
		"one condition twice":  {`status: {conditions: [` + ready + `, ` + ready + `]}`, refusal{"status.conditions[1]", "Duplicate value"}},
		"state on first write": {`status: {observedGeneration: 1}`, refusal{}},
	}))
})

var _ = Describe("kubectl get", func() {
	DescribeTable("prints the columns of the kind", func(ctx SpecContext, tt kind) {
		mustCreate(ctx, tt.resource, object(tt.manifest, named()))
		mustPatch(ctx, tt.resource, namespace, tt.status, "status")
		row := tableRow(ctx, tt.resource, namespace)
		for _, column := range tt.columns {
			Expect(row).To(HaveKeyWithValue(column[0], column[1]))
		}
		Expect(row).To(HaveKeyWithValue("Age", Not(BeElementOf("", "<unknown>"))))
		Expect(row).To(HaveLen(len(tt.columns)+2), "and Name, Age")
	}, suite.Entries(kinds))

	// With names of 20 characters and a domain of two levels; -o wide has the rest.
	DescribeTable("fits a deployment into 80 columns", func(ctx SpecContext, version, narrow, wide string) {
		const widest = 80
		deployment := kinds["DynamoGraphDeployment"]
		table := &metav1.Table{}
		for name, status := range map[string]string{
			"a-name-of-20-letters": `{state: successful, summary: 12/12, placement: {domain: zone-0/block-0}, conditions: [` + ready + `]}`,
			"another-of-20-letter": `{state: pending, summary: 0/12, placement: {domain: zone-0/block-0}, conditions: [` +
				strings.NewReplacer("True", "False", "reason: a", "reason: some_resources_are_not_ready").Replace(ready) +
				`, {type: Placed, status: "False", reason: InsufficientCapacity, message: needs more, lastTransitionTime: "2026-01-01T00:00:00Z"}]}`,
			"the-third-one-is-new": `{state: initializing, conditions: []}`,
		} {
			mustCreate(ctx, deployments, object(deployment.manifest, "metadata: {name: "+name+"}"))
			mustPatch(ctx, deployments, name, "status: "+status, "status")
			one := tableOf(ctx, deployments.GroupResource().WithVersion(version), name)
			table.Rows, table.ColumnDefinitions = append(table.Rows, one.Rows...), one.ColumnDefinitions
		}
		printed := printedLines(table, printers.PrintOptions{})
		Expect(strings.Fields(printed[0])).To(Equal(strings.Fields(narrow)))
		Expect(printed).To(HaveEach(WithTransform(func(line string) int { return len(line) }, BeNumerically("<=", widest))))
		printed = printedLines(table, printers.PrintOptions{Wide: true})
		Expect(strings.Fields(printed[0])).To(Equal(strings.Fields(wide)))
		Expect(printed).To(ContainElement(And(ContainSubstring("InsufficientCapacity"), ContainSubstring("needs more"))))
	},
		Entry("in v1alpha1", SpecTimeout(suite.Timeout()), "v1alpha1", "NAME READY SERVICES PLACED AGE", "NAME READY SERVICES PLACED AGE DOMAIN PLACED MESSAGE STATE REASON MESSAGE PROVIDER"),
		Entry("in v1beta1", SpecTimeout(suite.Timeout()), "v1beta1", "NAME READY COMPONENTS PLACED AGE", "NAME READY COMPONENTS PLACED AGE DOMAIN PLACED MESSAGE STATE REASON MESSAGE PROVIDER"),
	)
})

func places(count int) string {
	list := make([]string, count)
	for i := range list {
		list[i] = fmt.Sprintf("{replica: %d, domain: d}", i)
	}
	return strings.Join(list, ", ")
}

const ready = `{type: Ready, status: "True", reason: a, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}`

func printedLines(table *metav1.Table, options printers.PrintOptions) []string {
	GinkgoHelper()
	var out strings.Builder
	Expect(printers.NewTablePrinter(options).PrintObj(table, &out)).To(Succeed())
	return strings.Split(out.String(), "\n")
}

// tableRow is one object as kubectl get prints it.
func tableRow(ctx context.Context, of schema.GroupVersionResource, name string) map[string]string {
	GinkgoHelper()
	table := tableOf(ctx, of, name)
	row := map[string]string{}
	for i, column := range table.ColumnDefinitions {
		row[column.Name] = fmt.Sprint(table.Rows[0].Cells[i])
	}
	return row
}

// tableOf asks for one object the way kubectl get does.
func tableOf(ctx context.Context, of schema.GroupVersionResource, name string) metav1.Table {
	GinkgoHelper()
	gv := of.GroupVersion()
	shallow := rest.CopyConfig(config)
	shallow.APIPath, shallow.GroupVersion = "/apis", &gv
	shallow.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	asker, err := rest.RESTClientFor(shallow)
	Expect(err).NotTo(HaveOccurred())
	raw, err := asker.Get().NamespaceIfScoped(namespace, of != topologies).Resource(of.Resource).Name(name).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(ctx)
	Expect(err).NotTo(HaveOccurred())
	var table metav1.Table
	Expect(json.Unmarshal(raw, &table)).To(Succeed())
	return table
}
