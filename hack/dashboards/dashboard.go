// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "fmt"

// prometheus is the data source selected by the dashboard's variable.
var prometheus = &Source{Type: "prometheus", UID: "${datasource}"}

const (
	// job selects the operator's series among controller-runtime's metrics, which all operators have: the job that a ServiceMonitor sets from
	// the name of the metrics Service.
	job = `job="trellis-controller-manager-metrics"`
	// leader selects the operator's lease.
	leader = `name="trellis-manager.trellis.dev"`
)

// Dashboard returns the shipped dashboard.
func Dashboard() *Board {
	b := &Board{
		UID: "trellis", Title: "Trellis", Description: "Topology-aware placement of inference graphs: what waits and why, what is free, and " +
			"whether the operator is well.",
		Tags: []string{"trellis", "kubernetes"}, SchemaVersion: 39, Editable: true, GraphTooltip: 1, Refresh: "30s",
		Time: map[string]any{"from": "now-6h", "to": "now"},
	}
	b.Templating.List = []Variable{
		{Name: "datasource", Label: "Data source", Type: "datasource", Query: "prometheus", Current: map[string]any{}},
		values("resource", "Resource", `label_values(trellis_level_free, resource)`, false),
		values("pod_size", "Per pod", `label_values(trellis_level_largest_gang{resource="$resource"}, pod_size)`, true),
		values("level", "Level", `label_values(trellis_level_free, level)`, true),
	}
	l := &layout{}
	overview(l)
	waits(l)
	fragmentation(l)
	levels(l)
	health(l)
	b.Panels = l.panels
	return b
}

// values returns a variable with the values of a label.
func values(name, label, query string, all bool) Variable {
	v := Variable{
		Name: name, Label: label, Type: "query", Definition: query, Query: map[string]any{"query": query, "refId": name}, Datasource: prometheus,
		Refresh: 2, Sort: 3, Multi: all, IncludeAll: all, Current: map[string]any{},
	}
	if all {
		v.Current = map[string]any{"text": []string{"All"}, "value": []string{"$__all"}}
	}
	return v
}

func overview(l *layout) {
	l.row("Overview", "")
	l.add(stat("Leaders", "", "1 when a replica leads. Without a leader no pod is placed.", `sum(leader_election_master_status{`+leader+`})`),
		3, 4)
	l.add(stat("Gangs waiting", "", "", `sum(trellis_gangs_waiting)`), 3, 4)
	l.add(stat("Longest wait", "s", "", `max(trellis_longest_wait_seconds)`), 3, 4)
	l.add(stat("Time to placement, p95 of a day", "s", "",
		`histogram_quantile(0.95, sum by (le) (increase(trellis_time_to_placement_seconds_bucket[1d])))`), 4, 4)
	l.add(stat("Free", "", "On nodes that are ready and not cordoned.", `max(trellis_level_free{level="cluster",resource="$resource"})`), 3, 4)
	l.add(stat("In use", "percentunit", "",
		`1 - max(trellis_level_free{level="cluster",resource="$resource"}) / max(trellis_level_capacity{level="cluster",resource="$resource"})`), 3, 4)
	l.add(stat("Evictions in an hour", "", "Gangs that were released and could not be bound.",
		`sum(increase(trellis_gang_evictions_total[1h]))`), 3, 4)
	p := stat("Builds", "", "", `count by (version) (trellis_build_info)`)
	p.Targets[0].LegendFormat, p.Options["textMode"] = "{{version}}", "value_and_name"
	l.add(p, 2, 4)
}

func waits(l *layout) {
	l.row("What waits, and why", "")
	l.add(lines("Gangs waiting by reason", "", "stacked", "The reasons are those of the condition Placed.",
		query(`sum by (reason) (trellis_gangs_waiting) > 0`, "{{reason}}")), 12, 8)
	l.add(lines("Time to placement", "s", "", "From the creation of a gang's first pod until the gang is placed.",
		quantile(0.5, "trellis_time_to_placement_seconds", "priority_class", "p50 {{priority_class}}"),
		quantile(0.95, "trellis_time_to_placement_seconds", "priority_class", "p95 {{priority_class}}")), 12, 8)
	l.add(lines("Longest wait", "s", "", "", query(`max(trellis_longest_wait_seconds)`, "longest wait")), 6, 7)
	l.add(lines("Placed and refused", "", "", "A refusal that is looked at again is not counted again.",
		query(`sum(increase(trellis_replicas_placed_total[$__rate_interval]))`, "placed"),
		query(`sum by (reason) (increase(trellis_replicas_refused_total[$__rate_interval])) > 0`, "{{reason}}")), 6, 7)
	l.add(lines("Evictions and requeues", "", "", "Gangs that could not be bound, and gangs that wait again after they had been placed.",
		query(`sum by (reason) (increase(trellis_gang_evictions_total[$__rate_interval]))`, "evicted: {{reason}}"),
		query(`sum by (reason) (increase(trellis_gang_requeues_total[$__rate_interval]))`, "requeued: {{reason}}"),
		query(`sum(increase(trellis_gangs_preempting_total[$__rate_interval]))`, "preempting"),
		query(`sum(increase(trellis_replicas_moved_total[$__rate_interval]))`, "moved")), 6, 7)
	l.add(lines("Release to bound", "s", "", "From the release of a pod until it is bound to a node.",
		quantile(0.5, "trellis_release_to_bound_seconds", "", "p50"), quantile(0.95, "trellis_release_to_bound_seconds", "", "p95")), 6, 7)
}

func fragmentation(l *layout) {
	l.row("Fragmentation", "")
	share := lines("Fragmentation by level", "percentunit", "", "How much smaller the largest gang is than if all free capacity lay together.",
		query(`max by (level, pod_size) (trellis_level_fragmentation_ratio{resource="$resource",pod_size=~"$pod_size"})`,
			"{{level}}, {{pod_size}} a pod"))
	share.FieldConfig.Defaults.Min, share.FieldConfig.Defaults.Max = number(0), number(1)
	l.add(share, 12, 8)
	score := lines("Placement score", "", "", "Mean score of the plans: 1 when all replicas of a graph sit in one narrowest domain.",
		query(`sum(rate(trellis_placement_score_sum[$__rate_interval])) / sum(rate(trellis_placement_score_count[$__rate_interval]))`, "score"))
	score.FieldConfig.Defaults.Min, score.FieldConfig.Defaults.Max = number(0), number(1)
	l.add(score, 6, 8)
	l.add(lines("Domain reserved for a gang", "", "", "1 while hosts are reserved.", query(`max(trellis_domain_reserved)`, "reserved")), 6, 8)
}

// levels adds a row for each level.
func levels(l *layout) {
	l.row("Level: $level", "level")
	l.add(lines("Free and capacity", "", "", "On nodes that are ready, not cordoned, and in a domain of the level.",
		query(`max(trellis_level_free{level="$level",resource="$resource"})`, "free"),
		query(`max(trellis_level_capacity{level="$level",resource="$resource"})`, "capacity")), 8, 7)
	l.add(lines("Largest gang that fits one domain", "", "", "In the units of the resource, for pods of each size.",
		query(`max by (pod_size) (trellis_level_largest_gang{level="$level",resource="$resource",pod_size=~"$pod_size"})`, "{{pod_size}} a pod")),
		8, 7)
	l.add(stat("Domains", "", "", `max(trellis_level_domains{level="$level"})`), 4, 7)
	l.add(stat("Nodes without the label", "", "Nodes with the resource that are in no domain of the level.",
		`max(trellis_level_nodes_without_label{level="$level",resource="$resource"})`), 4, 7)
}

func health(l *layout) {
	l.row("Operator", "")
	l.add(lines("Reconcile errors", "ops", "", "", query(`sum by (controller) (rate(controller_runtime_reconcile_errors_total{`+job+
		`}[$__rate_interval]))`, "{{controller}}")), 8, 7)
	l.add(lines("Reconcile time, p95", "s", "", "",
		query(`histogram_quantile(0.95, sum by (le, controller) (rate(controller_runtime_reconcile_time_seconds_bucket{`+job+
			`}[$__rate_interval])))`, "{{controller}}")), 8, 7)
	l.add(lines("Time to plan a graph", "s", "", "", quantile(0.5, "trellis_plan_duration_seconds", "", "p50"), quantile(0.95,
		"trellis_plan_duration_seconds", "", "p95")), 8, 7)
	l.add(lines("Queued", "", "", "", query(`sum by (name) (workqueue_depth{`+job+`})`, "{{name}}"), query(`max(trellis_graphs_waiting)`,
		"graphs that wait")), 8, 7)
	l.add(lines("Webhooks", "ops", "", "Answers by code, panics, and conversions that failed.",
		query(`sum by (webhook, code) (rate(controller_runtime_webhook_requests_total{`+job+`}[$__rate_interval]))`, "{{webhook}} {{code}}"),
		query(`sum(rate(controller_runtime_webhook_panics_total{`+job+`}[$__rate_interval]))`, "panics"),
		query(`sum(rate(trellis_conversion_failures_total[$__rate_interval]))`, "conversions failed")), 8, 7)
	l.add(lines("Requests to the API server", "ops", "", "", query(`sum by (code) (rate(rest_client_requests_total{`+job+
		`}[$__rate_interval]))`, "{{code}}")), 8, 7)
	l.add(lines("Processor", "", "", "Cores in use by each replica.", query(`rate(process_cpu_seconds_total{`+job+`}[$__rate_interval])`,
		"{{pod}}")), 12, 7)
	l.add(lines("Memory", "bytes", "", "", query(`process_resident_memory_bytes{`+job+`}`, "{{pod}}")), 12, 7)
}

func query(expr, legend string) Target { return Target{Expr: expr, LegendFormat: legend} }

// quantile returns a query of a histogram's quantile over the rate interval; by may be empty.
func quantile(q float64, histogram, by, legend string) Target {
	labels := "le"
	if by != "" {
		labels += ", " + by
	}
	return query(fmt.Sprintf("histogram_quantile(%v, sum by (%s) (rate(%s_bucket[$__rate_interval])))", q, labels, histogram), legend)
}

func number(v float64) *float64 { return &v }

// stat returns a panel with one number.
func stat(title, unit, description, expr string) Panel {
	return Panel{
		Type: "stat", Title: title, Description: description, Targets: []Target{{Expr: expr, Instant: true}},
		FieldConfig: &FieldConfig{Defaults: Defaults{Unit: unit, Thresholds: plain()}, Overrides: []any{}},
		Options:     map[string]any{"reduceOptions": map[string]any{"calcs": []string{"lastNotNull"}}, "colorMode": "none", "graphMode": "none"},
	}
}

// lines returns a panel of time series, stacked if stacked is not empty.
func lines(title, unit, stacked, description string, targets ...Target) Panel {
	custom := map[string]any{"lineWidth": 1, "fillOpacity": 10, "showPoints": "never"}
	if stacked != "" {
		custom["fillOpacity"], custom["stacking"] = 40, map[string]any{"mode": "normal", "group": "A"}
	}
	return Panel{
		Type: "timeseries", Title: title, Description: description, Targets: targets,
		FieldConfig: &FieldConfig{Defaults: Defaults{Unit: unit, Min: number(0), Custom: custom, Thresholds: plain()}, Overrides: []any{}},
		Options: map[string]any{"legend": map[string]any{"displayMode": "list", "placement": "bottom"}, "tooltip": map[string]any{
			"mode": "multi", "sort": "desc"}},
	}
}

// plain returns thresholds without colors.
func plain() map[string]any {
	return map[string]any{"mode": "absolute", "steps": []map[string]any{{"color": "green", "value": nil}}}
}
