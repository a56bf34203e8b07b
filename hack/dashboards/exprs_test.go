// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	prometheusclient "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/yaml"

	"github.com/trellis-k8s/trellis/internal/controller/capacity"
	"github.com/trellis-k8s/trellis/internal/controller/storageversion"
	_ "github.com/trellis-k8s/trellis/internal/operator" // registers its metrics
	"github.com/trellis-k8s/trellis/internal/scheduler"
	"github.com/trellis-k8s/trellis/internal/webhook"
)

const (
	root       = "../.."
	boardFile  = root + "/config/grafana/trellis.json"
	rulesFile  = root + "/config/prometheus/rules.yaml"
	runbook    = root + "/docs/runbook.md"
	runbookURL = "https://github.com/trellis-k8s/trellis/blob/main/docs/runbook.md#"
)

// others are the metrics of controller-runtime, client-go and the Go client that expressions may use. make test-dashboards finds them in a
// real scrape.
var others = []string{
	"controller_runtime_reconcile_errors_total", "controller_runtime_reconcile_time_seconds", "controller_runtime_webhook_panics_total",
	"controller_runtime_webhook_requests_total", "leader_election_master_status", "process_cpu_seconds_total", "process_resident_memory_bytes",
	"rest_client_requests_total", "workqueue_depth",
}

// rule is an alert.
type rule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func rulesOf(t *testing.T) []rule {
	t.Helper()
	var file struct {
		Spec struct {
			Groups []struct {
				Rules []rule `json:"rules"`
			} `json:"groups"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(read(t, rulesFile), &file); err != nil || len(file.Spec.Groups) != 1 {
		t.Fatal(err)
	}
	return file.Spec.Groups[0].Rules
}

// choices replaces the dashboard's variables by values in tests.
var choices = strings.NewReplacer("$__rate_interval", "1m", "$resource", "nvidia.com/gpu", "$pod_size", ".+", "$level", "rack")

// expressions returns all expressions of the dashboard and the alerts, by their location.
func expressions(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	var board Board
	if err := json.Unmarshal(read(t, boardFile), &board); err != nil {
		t.Fatal(err)
	}
	for _, panel := range board.Panels {
		for _, target := range panel.Targets {
			out[fmt.Sprintf("panel %d %q, query %s", panel.ID, panel.Title, target.RefID)] = choices.Replace(target.Expr)
		}
	}
	for _, r := range rulesOf(t) {
		out["alert "+r.Alert] = r.Expr
	}
	if len(out) < 40 {
		t.Fatalf("%d expressions only", len(out))
	}
	return out
}

// used returns the metrics in an expression.
func used(t *testing.T, where, expr string) []string {
	t.Helper()
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		t.Errorf("%s: %s: %v", where, expr, err)
		return nil
	}
	var names []string
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok {
			names = append(names, selector.Name)
		}
		return nil
	})
	return names
}

var fqName = regexp.MustCompile(`fqName: "(\w+)"`)

// registered returns the operator's own metrics.
func registered(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if strings.HasPrefix(family.GetName(), "trellis_") {
			out[family.GetName()] = true
		}
	}
	described := make(chan *prometheusclient.Desc, 1000)
	for _, collector := range slices.Concat(scheduler.Collectors(), capacity.Collectors(), storageversion.Collectors(), webhook.Collectors()) { // no series so far, or none on a standby
		collector.Describe(described)
	}
	close(described)
	for d := range described {
		out[fqName.FindStringSubmatch(d.String())[1]] = true
	}
	return out
}

var suffix = regexp.MustCompile(`_(bucket|sum|count)$`)

func TestDashboardIsUpToDate(t *testing.T) {
	text, err := Dashboard().JSON()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text, read(t, boardFile)) {
		t.Error("config/grafana/trellis.json is out of date; run make generate")
	}
}

// TestExpressionsUseMetricsThatThereAre checks that every expression is valid PromQL, and that the operator exports every metric in it.
func TestExpressionsUseMetricsThatThereAre(t *testing.T) {
	have := registered(t)
	for where, expr := range expressions(t) {
		for _, name := range used(t, where, expr) {
			if base := suffix.ReplaceAllString(name, ""); !have[name] && !have[base] && !slices.Contains(others, name) && !slices.Contains(others, base) {
				t.Errorf("%s: there is no metric %s", where, name)
			}
		}
	}
}

// TestMetricsAreDocumented checks that every metric of the operator is documented, and that every documented metric exists.
func TestMetricsAreDocumented(t *testing.T) {
	have := registered(t)
	documented := map[string]bool{}
	for _, line := range strings.Split(string(read(t, root+"/docs/events-and-metrics.md")), "\n") {
		if name, found := strings.CutPrefix(strings.NewReplacer("| `", "`", "- **`", "`").Replace(line), "`trellis_"); found {
			name, _, _ = strings.Cut(name, "`")
			documented["trellis_"+name] = true
		}
	}
	if want, got := slices.Sorted(maps.Keys(have)), slices.Sorted(maps.Keys(documented)); !slices.Equal(want, got) {
		t.Errorf("documented are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestAlertsHaveARunbook checks that every alert has a section in the runbook, a severity and a summary, and that every section has an
// alert.
func TestAlertsHaveARunbook(t *testing.T) {
	sections := map[string]bool{}
	for _, line := range strings.Split(string(read(t, runbook)), "\n") {
		if title, found := strings.CutPrefix(line, "## Trellis"); found {
			sections["Trellis"+title] = true
		}
	}
	for _, r := range rulesOf(t) {
		if !sections[r.Alert] || r.Annotations["runbook_url"] != runbookURL+strings.ToLower(r.Alert) {
			t.Errorf("%s: no section in docs/runbook.md that %s leads to", r.Alert, r.Annotations["runbook_url"])
		}
		if r.Annotations["summary"] == "" || !slices.Contains([]string{"critical", "warning"}, r.Labels["severity"]) {
			t.Errorf("%s: labels %v, annotations %v", r.Alert, r.Labels, r.Annotations)
		}
		delete(sections, r.Alert)
	}
	if len(sections) > 0 {
		t.Errorf("sections without an alert: %v", slices.Sorted(maps.Keys(sections)))
	}
}

// TestLayout checks that panels have unique IDs, do not overlap, and come after a row, and that one row is repeated for each level.
func TestLayout(t *testing.T) {
	taken, ids, repeated := map[[2]int]string{}, map[int]bool{}, 0
	for _, p := range Dashboard().Panels {
		if ids[p.ID] {
			t.Errorf("%q has the ID of another panel", p.Title)
		}
		ids[p.ID] = true
		if p.Repeat == "level" {
			repeated++
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= columns {
					t.Fatalf("%q lies on %q, or outside", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
	if repeated != 1 {
		t.Errorf("%d rows are repeated by level, want one", repeated)
	}
}
