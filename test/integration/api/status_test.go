// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/trellis-k8s/trellis/test/testutil/manifest"
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
  - {type: Placed, status: "True", reason: AllReplicasPlaced, message: "", observedGeneration: 1, lastTransitionTime: "2026-01-01T00:00:00Z"}
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
`
	groupStatus = `
status: {observedGeneration: 1, replicas: 2, updatedReplicas: 1, scheduledReplicas: 2, readyReplicas: 1, availableReplicas: 1, placements: [{replica: 0, domain: zone-0/rack-1}]}
`
)

var kinds = map[string]struct {
	resource schema.GroupVersionResource
	manifest string
	status   string
	columns  [][2]string // as kubectl get -o wide prints them, Age last
}{
	"DynamoGraphDeployment": {deployments, graph, deploymentStatus, [][2]string{
		{"Ready", "False"}, {"State", "pending"}, {"Services", "1/2"}, {"Domain", "zone-0"}, {"Reason", "some_resources_are_not_ready"}, {"Message", "Worker: desired 2, ready 1"}, {"Provider", "Gates"},
	}},
	"ClusterTopology": {topologies, topology, topologyStatus, [][2]string{
		{"Levels", "zone > rack"}, {"Nodes", "12"}, {"Labeled", "False"}, {"Used by", "3"}, {"Message", "1 node lacks example.com/rack"},
	}},
	"DynamoGraphDeploymentScalingAdapter": {adapters, scalingAdapter, scalingAdapterStatus, [][2]string{
		{"DGD", "my-llm"}, {"Service", "Decode"}, {"Desired", "2"}, {"Replicas", "1"}, {"Active", "True"},
	}},
	"ScalingGroup": {groups, group, groupStatus, [][2]string{
		{"Graph", "my-llm"}, {"Service", "Worker"}, {"Desired", "2"}, {"Ready", "1"}, {"Updated", "1"}, {"Provider", "Gates"}, {"Pack Domain", "rack"}, {"Graph Domain", "zone"},
	}},
}

func TestStatusIsASubresource(t *testing.T) {
	for kind, tt := range kinds {
		t.Run(kind, func(t *testing.T) {
			created := mustCreate(t, tt.resource, object(t, tt.manifest, "metadata: {name: "+objectName(t)+"}", tt.status))
			if status, found := created.Object["status"]; found {
				t.Errorf("a status written with the object was kept: %v", status)
			}
			updated, err := patch(t, tt.resource, created.GetName(), tt.status, "status")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(manifest.Parse(t, tt.status)["status"], updated.Object["status"]); diff != "" {
				t.Errorf("status changed on its way (-written +kept):\n%s", diff)
			}
			if created.GetGeneration() != updated.GetGeneration() {
				t.Error("a status write raised the generation")
			}
			if diff := cmp.Diff(created.Object["spec"], updated.Object["spec"]); diff != "" {
				t.Errorf("a status write changed the spec:\n%s", diff)
			}
		})
	}
}

func TestStatusRefused(t *testing.T) {
	obj := mustCreate(t, deployments, object(t, graph, "metadata: {name: status-refused}"))
	for name, tt := range map[string]struct {
		change string
		want   refusal
	}{
		"state of our own": {`status: {state: sleeping}`, refusal{"status.state", "Unsupported value"}},
		"score below 0":    {`status: {placement: {score: -1}}`, refusal{"status.placement.score", "should be greater than or equal to 0"}},
		"65 places": {`status: {services: {Worker: {componentKind: k, componentName: g, replicas: 0, updatedReplicas: 0, placements: [` + places(65) + `]}}}`,
			refusal{"status.services.Worker.placements", "must have at most 64 items"}},
		"one place twice": {`status: {services: {Worker: {componentKind: k, componentName: g, replicas: 0, updatedReplicas: 0, placements: [{replica: 0, domain: a}, {replica: 0, domain: b}]}}}`,
			refusal{"status.services[Worker].placements[1]", "Duplicate value"}},
		"score above 1":        {`status: {placement: {score: 2}}`, refusal{"status.placement.score", "should be less than or equal to 1"}},
		"one condition twice":  {`status: {conditions: [` + ready + `, ` + ready + `]}`, refusal{"status.conditions[1]", "Duplicate value"}},
		"state on first write": {`status: {observedGeneration: 1}`, refusal{}},
	} {
		t.Run(name, func(t *testing.T) {
			updated, err := patch(t, deployments, obj.GetName(), tt.change, "status")
			tt.want.check(t, err)
			if err == nil {
				if state, _, _ := unstructured.NestedString(updated.Object, "status", "state"); state != "initializing" {
					t.Errorf("state is %q by default, want initializing", state)
				}
			}
		})
	}
}

func places(count int) string {
	list := make([]string, count)
	for i := range list {
		list[i] = fmt.Sprintf("{replica: %d, domain: d}", i)
	}
	return strings.Join(list, ", ")
}

const ready = `{type: Ready, status: "True", reason: a, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}`

func TestPrinterColumns(t *testing.T) {
	for kind, tt := range kinds {
		t.Run(kind, func(t *testing.T) {
			obj := mustCreate(t, tt.resource, object(t, tt.manifest, "metadata: {name: "+objectName(t)+"}"))
			if _, err := patch(t, tt.resource, obj.GetName(), tt.status, "status"); err != nil {
				t.Fatal(err)
			}
			row := tableRow(t, tt.resource, obj.GetName())
			for _, column := range tt.columns {
				if row[column[0]] != column[1] {
					t.Errorf("column %s prints %q, want %q", column[0], row[column[0]], column[1])
				}
			}
			if age := row["Age"]; age == "" || age == "<unknown>" {
				t.Errorf("column Age prints %q", age)
			}
			if want := len(tt.columns) + 2; len(row) != want { // and Name, Age
				t.Errorf("%d columns, want %d: %v", len(row), want, row)
			}
		})
	}
}

// widestColumns is how wide what kubectl get prints may be.
const widestColumns = 80

// TestGetIsNarrow: kubectl get dgd fits into 80 columns, with names of 20 characters and a domain of two levels; -o wide has the rest.
func TestGetIsNarrow(t *testing.T) {
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		t.Run(version, func(t *testing.T) {
			tt := kinds["DynamoGraphDeployment"]
			var rows []metav1.TableRow
			var columns []metav1.TableColumnDefinition
			for name, status := range map[string]string{
				"a-name-of-20-letters": `{state: successful, summary: 12/12, placement: {domain: zone-0/block-0}, conditions: [` + ready + `]}`,
				"another-of-20-letter": `{state: pending, summary: 0/12, placement: {domain: zone-0/block-0}, conditions: [` +
					strings.NewReplacer("True", "False", "reason: a", "reason: some_resources_are_not_ready").Replace(ready) + `]}`,
				"the-third-one-is-new": `{state: initializing, conditions: []}`,
			} {
				name = version[2:4] + name[:18] // both are stored as one kind
				mustCreate(t, tt.resource, object(t, tt.manifest, "metadata: {name: "+name+"}"))
				if _, err := patch(t, tt.resource, name, "status: "+status, "status"); err != nil {
					t.Fatal(err)
				}
				table := tableOf(t, tt.resource.GroupResource().WithVersion(version), name)
				rows, columns = append(rows, table.Rows...), table.ColumnDefinitions
			}
			for wide, want := range map[bool]string{false: "NAME READY STATE COMPONENTS DOMAIN AGE", true: "NAME READY STATE COMPONENTS DOMAIN AGE REASON MESSAGE PROVIDER"} {
				var out strings.Builder
				table := &metav1.Table{ColumnDefinitions: columns, Rows: rows}
				if err := printers.NewTablePrinter(printers.PrintOptions{Wide: wide}).PrintObj(table, &out); err != nil {
					t.Fatal(err)
				}
				lines := strings.Split(out.String(), "\n")
				if version == "v1alpha1" {
					want = strings.Replace(want, "COMPONENTS", "SERVICES", 1)
				}
				if got := strings.Join(strings.Fields(lines[0]), " "); got != want {
					t.Errorf("columns %s, want %s", got, want)
				}
				for _, line := range lines {
					if !wide && len(line) > widestColumns {
						t.Errorf("%d columns: %s", len(line), line)
					}
				}
			}
		})
	}
}

// tableRow is one object as kubectl get prints it.
func tableRow(t *testing.T, kind schema.GroupVersionResource, name string) map[string]string {
	t.Helper()
	table := tableOf(t, kind, name)
	row := map[string]string{}
	for i, column := range table.ColumnDefinitions {
		row[column.Name] = fmt.Sprint(table.Rows[0].Cells[i])
	}
	return row
}

// tableOf asks for one object the way kubectl get does.
func tableOf(t *testing.T, kind schema.GroupVersionResource, name string) metav1.Table {
	t.Helper()
	gv := kind.GroupVersion()
	shallow := rest.CopyConfig(config)
	shallow.APIPath, shallow.GroupVersion = "/apis", &gv
	shallow.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	asker, err := rest.RESTClientFor(shallow)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := asker.Get().NamespaceIfScoped(namespace, kind != topologies).Resource(kind.Resource).Name(name).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var table metav1.Table
	if err := json.Unmarshal(raw, &table); err != nil {
		t.Fatal(err)
	}
	return table
}
