// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"maps"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

const counted = `# TYPE apiserver_request_total counter
apiserver_request_total{code="201",resource="pods",subresource="",verb="POST"} 7
apiserver_request_total{code="409",resource="pods",subresource="",verb="POST"} 1
apiserver_request_total{code="201",resource="pods",subresource="binding",verb="POST"} 8
apiserver_request_total{code="200",resource="pods",subresource="",verb="LIST"} 9
apiserver_request_total{code="200",resource="leases",subresource="",verb="PUT"} 9
apiserver_request_total{code="200",resource="nodes",subresource="status",verb="PATCH"} 9
`

// TestWritesIn checks that every write request counts, whatever its answer, and that reads and renewed leases do not.
func TestWritesIn(t *testing.T) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(counted))
	if err != nil {
		t.Fatal(err)
	}
	got := writesIn(families["apiserver_request_total"])
	if want := map[string]float64{"pods POST": 8, "pods/binding POST": 8}; !maps.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

// TestCost checks that a cost is the mean of the rounds, per gang.
func TestCost(t *testing.T) {
	c := &Cluster{costs: map[string][]Cost{Packed.Name: {
		{Programs: map[string]float64{"a": 10, "b": 30, "c": 0.1}, Writes: map[string]float64{"pods POST": 8}},
		{Programs: map[string]float64{"a": 20, "b": 30}, Writes: map[string]float64{"pods POST": 8, "events POST": 0.1}},
	}}}
	if got := c.Cost(Packed).String(); got != "45 ms (b 30, a 15); writes: pods POST 8.0" {
		t.Error(got)
	}
	c.ForgetCosts()
	if got := c.Cost(Packed).String(); got != "0 ms (); writes: " {
		t.Error(got)
	}
}
