// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"

	"github.com/trellis-k8s/trellis/internal/scheduler"
)

// alerting converts an alert to Prometheus' own rule.
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

// firing evaluates an alert every minute until a time, and returns the summaries of the alerts that fire at that time.
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
		"TrellisGangNeedsAction": {
			"nothing waits":       {`trellis_gangs_waiting{reason="NeverFits"} 0x30`, 20 * time.Minute, nil},
			"for capacity":        {`trellis_gangs_waiting{reason="InsufficientCapacity"} 3x30`, 20 * time.Minute, nil},
			"hosts that are lost": {`trellis_gangs_waiting{reason="DomainGone"} 0x5 1x10 0x15`, 20 * time.Minute, nil},
			"for two reasons": {`trellis_gangs_waiting{reason="NeverFits"} 2x30` + "\n" + `trellis_gangs_waiting{reason="NoDomain"} 1x30`, 20 * time.Minute, []string{
				"Gangs wait until a person acts: 1 with the reason NoDomain.", "Gangs wait until a person acts: 2 with the reason NeverFits."}},
		},
		"TrellisCreationRefused": {
			"none":         {`trellis_graphs_reporting{condition="Placed",reason="CreationRefused"} 0x30`, 20 * time.Minute, nil},
			"other causes": {`trellis_graphs_reporting{condition="Placed",reason="InsufficientCapacity"} 4x30`, 20 * time.Minute, nil},
			"two":          {`trellis_graphs_reporting{condition="Placed",reason="CreationRefused"} 2x30`, 20 * time.Minute, []string{"2 deployments have pods or scaling groups that the API server refuses to create."}},
		},
		"TrellisDeploymentNeedsAction": {
			"none":              {`trellis_graphs_reporting{condition="Valid",reason="Invalid"} 0x30`, 20 * time.Minute, nil},
			"waits for quota":   {`trellis_graphs_reporting{condition="QuotaReserved",reason="QuotaPending"} 1x30`, 20 * time.Minute, nil},
			"an invalid one":    {`trellis_graphs_reporting{condition="Valid",reason="Invalid"} 1x30`, 20 * time.Minute, []string{"1 deployments report Invalid in the condition Valid."}},
			"no Kueue is there": {`trellis_graphs_reporting{condition="QuotaReserved",reason="KueueNotInstalled"} 1x30`, 20 * time.Minute, []string{"1 deployments report KueueNotInstalled in the condition QuotaReserved."}},
		},
		"TrellisRolloutStuck": {
			"progress":     {`trellis_longest_rollout_stall_seconds 0+60x30 0+60x30`, 55 * time.Minute, nil},
			"a deadline":   {`trellis_graphs_reporting{condition="RolledOut",reason="ProgressDeadlineExceeded"} 1x30` + "\n" + `trellis_longest_rollout_stall_seconds 0+60x30`, 20 * time.Minute, []string{"An update makes no progress: its progress deadline is over, or no replica has become available for an hour."}},
			"for an hour":  {`trellis_longest_rollout_stall_seconds 0+60x90`, 70 * time.Minute, []string{"An update makes no progress: its progress deadline is over, or no replica has become available for an hour."}},
			"not so long":  {`trellis_longest_rollout_stall_seconds 0+60x90`, 50 * time.Minute, nil},
			"just running": {`trellis_graphs_reporting{condition="RolledOut",reason="RollingOut"} 3x90`, 70 * time.Minute, nil},
		},
		"TrellisRolloutInPlace": {
			"none":      {`trellis_rollouts_in_place 0x30`, 20 * time.Minute, nil},
			"for short": {`trellis_rollouts_in_place 0x5 1x10 0x15`, 20 * time.Minute, nil},
			"one":       {`trellis_rollouts_in_place 1x30`, 20 * time.Minute, []string{"1 components are updated one replica at a time, because their queue has no quota for a surplus replica."}},
		},
		"TrellisQuotaWaitsLong": {
			"for short":        {`trellis_longest_report_seconds{condition="QuotaReserved"} 0+60x90`, 50 * time.Minute, nil},
			"another one":      {`trellis_longest_report_seconds{condition="RolledOut"} 0+60x90`, 70 * time.Minute, nil},
			"more than 1 hour": {`trellis_longest_report_seconds{condition="QuotaReserved"} 0+60x90`, 70 * time.Minute, []string{"A deployment has been without the quota of Kueue for 1h 10m 0s."}},
		},
		"TrellisCapacityRequestsFail": {
			"before":        {`trellis_capacity_requests_failed_total{reason="CapacityRequestEnded"} 5x60`, 50 * time.Minute, nil},
			"not requested": {`trellis_capacity_requests_failed_total{reason="CapacityNotRequested"} 0+1x60`, 50 * time.Minute, nil},
			"one": {`trellis_capacity_requests_failed_total{reason="CapacityRequestEnded"} 0x10 1x30` + "\n" + `trellis_capacity_requests_failed_total{reason="CapacityRequestRefused"} 0x60`,
				25 * time.Minute, []string{"Requests for nodes fail: CapacityRequestEnded."}},
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
			"of another program":   {`controller_runtime_reconcile_errors_total{controller="graph",job="x"} 0+30x60`, 60 * time.Minute, nil},
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

// TestWaitReasonsThatNeedAction checks that the alert fires for exactly the wait reasons that need action, and that the runbook has each of
// them.
func TestWaitReasonsThatNeedAction(t *testing.T) {
	if !registered(t)["trellis_gangs_waiting"] {
		t.Fatal("there is no metric of the gangs that wait")
	}
	all := rulesOf(t)
	i := slices.IndexFunc(all, func(r rule) bool { return r.Alert == "TrellisGangNeedsAction" })
	_, section, _ := strings.Cut(string(read(t, runbook)), "\n## TrellisGangNeedsAction\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, reason := range scheduler.WaitReasons() {
		needed := scheduler.NeedsAction(reason)
		fires := firing(t, all[i], fmt.Sprintf(`trellis_gangs_waiting{reason=%q} 1x30`, reason), 20*time.Minute)
		if len(fires) > 0 != needed {
			t.Errorf("%s needs a person: %t; the alert fires: %q", reason, needed, fires)
		}
		if listed := strings.Contains(section, "\n| `"+reason+"` |"); listed != needed {
			t.Errorf("%s needs a person: %t; the runbook lists it: %t", reason, needed, listed)
		}
	}
}
