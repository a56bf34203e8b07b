// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
)

// alerting makes Prometheus' own rule of an alert.
func alerting(t *testing.T, r rule) *rules.AlertingRule {
	t.Helper()
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(r.Expr)
	if err != nil {
		t.Fatal(err)
	}
	hold, err := model.ParseDuration(r.For)
	if err != nil {
		t.Fatal(err)
	}
	return rules.NewAlertingRule(r.Alert, expr, time.Duration(hold), 0, labels.FromMap(r.Labels), labels.FromMap(r.Annotations), labels.EmptyLabels(), "",
		true, promslog.NewNopLogger())
}

// firing evaluates an alert every minute until a time, and returns the summaries of what fires then.
func firing(t *testing.T, r rule, series string, until time.Duration) []string {
	t.Helper()
	storage := promqltest.LoadedStorage(t, "load 1m\n"+series)
	query := rules.EngineQueryFunc(promqltest.NewTestEngine(t, false, 0, promqltest.DefaultMaxSamplesPerQuery), storage)
	alert := alerting(t, r)
	for at := time.Duration(0); at <= until; at += time.Minute {
		if _, err := alert.Eval(t.Context(), 0, time.Unix(0, 0).Add(at), query, nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	var out []string
	for _, active := range alert.ActiveAlerts() {
		if active.State == rules.StateFiring {
			out = append(out, active.Annotations.Get("summary"))
		}
	}
	slices.Sort(out)
	return out
}

const (
	ours  = `job="trellis-controller-manager-metrics",namespace="trellis-system"`
	lease = `leader_election_master_status{name="trellis-manager.trellis.dev",`
)

func TestAlerts(t *testing.T) {
	scenarios := map[string]map[string]struct {
		series string
		at     time.Duration
		fires  []string
	}{
		"TrellisHasNoLeader": {
			"one of two leads":        {lease + `pod="a"} 1x30` + "\n" + lease + `pod="b"} 0x30`, 30 * time.Minute, nil},
			"none leads":              {lease + `pod="a"} 0x30` + "\n" + lease + `pod="b"} 0x30`, 6 * time.Minute, []string{"No replica of Trellis leads, so no pod of an inference graph is placed."}},
			"nobody is scraped":       {`up 1x30`, 6 * time.Minute, []string{"No replica of Trellis leads, so no pod of an inference graph is placed."}},
			"the leader changes":      {lease + `pod="a"} 1x10 0x20` + "\n" + lease + `pod="b"} 0x12 1x18`, 20 * time.Minute, nil},
			"another operator's lead": {`leader_election_master_status{name="other"} 1x30`, 6 * time.Minute, []string{"No replica of Trellis leads, so no pod of an inference graph is placed."}},
		},
		"TrellisGangWaitsLong": {
			"for less than an hour": {`trellis_longest_wait_seconds 0+60x59`, 59 * time.Minute, nil},
			"for more":              {`trellis_longest_wait_seconds 0+60x90`, 70 * time.Minute, []string{"A gang has been waiting to be placed for 1h 10m 0s."}},
			"it is placed":          {`trellis_longest_wait_seconds 0+60x62 0x30`, 90 * time.Minute, nil},
		},
		"TrellisEvictionsRepeat": {
			"one":            {`trellis_gang_evictions_total{reason="Unschedulable"} 0x10 1x30`, 20 * time.Minute, nil},
			"one in minutes": {`trellis_gang_evictions_total{reason="Unschedulable"} 0+1x40` + "\n" + `trellis_gang_evictions_total{reason="SchedulerRefuses"} 0x40`, 30 * time.Minute, []string{"Gangs are released and cannot be bound where they were placed: Unschedulable."}},
		},
		"TrellisMoveDoesNotEnd": {
			"replicas wait for successors": {`trellis_replicas_moving{state="waiting"} 3x40`, 30 * time.Minute, nil},
			"one goes in time":             {`trellis_replicas_moving{state="overdue"} 1x10 0x30`, 30 * time.Minute, nil},
			"two cannot go":                {`trellis_replicas_moving{state="overdue"} 2x40`, 20 * time.Minute, []string{"Replicas that are to leave their nodes are overdue, and too few others serve: 2."}},
		},
		"TrellisReconcileErrors": {
			"now and then":         {`controller_runtime_reconcile_errors_total{controller="graph",` + ours + `} 0x20 1x40`, 60 * time.Minute, nil},
			"all the time":         {`controller_runtime_reconcile_errors_total{controller="graph",` + ours + `} 0+30x60`, 60 * time.Minute, []string{"The controller graph of Trellis keeps failing; its log says why."}},
			"of somebody else":     {`controller_runtime_reconcile_errors_total{controller="graph",job="x"} 0+30x60`, 60 * time.Minute, nil},
			"in another namespace": {`controller_runtime_reconcile_errors_total{controller="graph",job="trellis-controller-manager-metrics",namespace="x"} 0+30x60`, 60 * time.Minute, []string{"The controller graph of Trellis keeps failing; its log says why."}},
		},
		"TrellisWebhookFails": {
			"refusals are no failure": {`controller_runtime_webhook_requests_total{webhook="/validate",code="200",` + ours + `} 0+10x30`, 20 * time.Minute, nil},
			"errors":                  {`controller_runtime_webhook_requests_total{webhook="/validate",code="500",` + ours + `} 0+1x30`, 20 * time.Minute, []string{"The webhook /validate of Trellis answers with errors, so writes of deployments are refused."}},
		},
		"TrellisConversionFails": {
			"none":   {`trellis_conversion_failures_total 0x30`, 20 * time.Minute, nil},
			"before": {`trellis_conversion_failures_total 5x60`, 50 * time.Minute, nil},
			"now":    {`trellis_conversion_failures_total 0x5 0+1x30`, 20 * time.Minute, []string{"Objects cannot be converted between API versions, so reads and writes of them fail."}},
		},
		"TrellisCertificateNotKept": {
			"kept":          {`trellis_webhook_certificate_in_sync{pod="a"} 1x30`, 20 * time.Minute, nil},
			"made again":    {`trellis_webhook_certificate_in_sync{pod="a"} 1x5 0x3 1x30`, 20 * time.Minute, nil},
			"without":       {`up 1x30`, 20 * time.Minute, nil},
			"by one of two": {`trellis_webhook_certificate_in_sync{pod="a"} 1x30` + "\n" + `trellis_webhook_certificate_in_sync{pod="b"} 0x30`, 20 * time.Minute, []string{"The webhooks' certificate of Trellis cannot be kept in its Secret or is not trusted, so writes of deployments fail at the latest after a restart."}},
		},
		"TrellisTopologyLabelsMissing": {
			"all are there":    {`trellis_level_nodes_without_label{level="rack",resource="nvidia.com/gpu"} 0x30`, 20 * time.Minute, nil},
			"a node starts":    {`trellis_level_nodes_without_label{level="rack",resource="nvidia.com/gpu"} 0x5 1x12 0x30`, 17 * time.Minute, nil},
			"two have no rack": {`trellis_level_nodes_without_label{level="rack",resource="nvidia.com/gpu"} 2x30`, 20 * time.Minute, []string{"2 nodes with nvidia.com/gpu are in no rack, because a topology label is missing."}},
		},
	}
	tested := slices.Sorted(maps.Keys(scenarios))
	var all []string
	for _, r := range rulesOf(t) {
		all = append(all, r.Alert)
		for name, scenario := range scenarios[r.Alert] {
			t.Run(fmt.Sprintf("%s/%s", r.Alert, name), func(t *testing.T) {
				if got := firing(t, r, scenario.series, scenario.at); !slices.Equal(got, scenario.fires) {
					t.Errorf("after %s fires %q, want %q", scenario.at, got, scenario.fires)
				}
			})
		}
	}
	if slices.Sort(all); !slices.Equal(all, tested) {
		t.Errorf("tested are %v, want %v", tested, all)
	}
}
