// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
)

// reporting sets conditions of a deployment, each written "type status reason", that have lasted for so long.
func (m measured) reporting(dgd *nvidiav1beta1.DynamoGraphDeployment, since time.Duration, conditions ...string) {
	dgd.Status.Conditions = nil
	for _, short := range conditions {
		f := strings.Fields(short)
		dgd.Status.Conditions = append(dgd.Status.Conditions, metav1.Condition{
			Type: f[0], Status: metav1.ConditionStatus(f[1]), Reason: f[2], LastTransitionTime: metav1.NewTime(m.clock.Now().Add(-since)),
		})
	}
}

// Deployments count by what they report, in the polarity of the condition. A reason that no one knows has no series of its own.
func TestReportedProblems(t *testing.T) {
	m := measure(t, Options{})
	o := m.wants(1, 1)
	m.reporting(o.DGD, 0, "Placed True AllReplicasPlaced", "QuotaReserved True QuotaReserved", "OwnershipConflict False OwnershipConflictResolved")
	m.pass(gatherEvery)
	before := m.readings()
	m.reporting(o.DGD, time.Hour-gatherEvery, "Placed False CreationRefused", "QuotaReserved False QuotaPending", "OwnershipConflict True OwnershipConflict",
		"Valid False FromATenant", "Ready False x", "Foreign False x")
	m.pass(gatherEvery)
	m.expect("reporting", before, "trellis_graphs_reporting OwnershipConflict OwnershipConflict: 1", "trellis_graphs_reporting Placed CreationRefused: 1",
		"trellis_graphs_reporting QuotaReserved QuotaPending: 1", "trellis_graphs_reporting Valid other: 1", "trellis_longest_report_seconds OwnershipConflict: 3600",
		"trellis_longest_report_seconds Placed: 3600", "trellis_longest_report_seconds QuotaReserved: 3600", "trellis_longest_report_seconds Valid: 3600")
	o.DGD.DeletionTimestamp = &metav1.Time{Time: m.clock.Now()}
	m.pass(gatherEvery)
	if got := changes(before, m.readings()); len(got) > 0 {
		t.Errorf("of a deployment that is deleted: %q", got)
	}
}

// An update counts from the last progress of any component, and not while it is paused.
func TestUpdatesThatStall(t *testing.T) {
	m := measure(t, Options{})
	o := m.wants(1, 1)
	progress := func(at time.Duration, paused, inPlace bool) *trellisv1alpha1.RolloutProgress {
		return &trellisv1alpha1.RolloutProgress{Time: metav1.NewTime(m.clock.Now().Add(-at)), Paused: paused, InPlace: inPlace}
	}
	for name, tc := range map[string]struct {
		groups         []*trellisv1alpha1.RolloutProgress
		doneAgo        time.Duration
		stall, inPlace float64
	}{
		"none":                       {nil, 0, 0, 0},
		"one":                        {[]*trellisv1alpha1.RolloutProgress{progress(time.Hour, false, false)}, 0, 3600, 0},
		"in place":                   {[]*trellisv1alpha1.RolloutProgress{progress(time.Minute, false, true)}, 0, 60, 1},
		"paused":                     {[]*trellisv1alpha1.RolloutProgress{progress(time.Hour, true, false)}, 0, 0, 0},
		"two":                        {[]*trellisv1alpha1.RolloutProgress{progress(time.Hour, false, false), progress(time.Minute, false, false)}, 0, 60, 0},
		"one of two is paused":       {[]*trellisv1alpha1.RolloutProgress{progress(time.Hour, false, false), progress(time.Hour, true, false)}, 0, 0, 0},
		"another component was done": {[]*trellisv1alpha1.RolloutProgress{progress(time.Hour, false, false)}, 30 * time.Second, 30, 0},
	} {
		var groups []trellisv1alpha1.ScalingGroup
		for _, p := range tc.groups {
			sg := o.Groups[0].DeepCopy()
			sg.Status.Progress = p
			groups = append(groups, *sg)
		}
		if tc.doneAgo > 0 {
			sg := o.Groups[0].DeepCopy()
			sg.Status.Conditions = []metav1.Condition{{
				Type: trellisv1alpha1.ConditionRolledOut, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(m.clock.Now().Add(-tc.doneAgo)),
			}}
			groups = append(groups, *sg)
		}
		r := &readings{}
		r.updates(groups, m.clock.Now())
		if stall, inPlace := gaugeOf(t, r.metrics[1]), gaugeOf(t, r.metrics[0]); stall != tc.stall || inPlace != tc.inPlace {
			t.Errorf("%s: %v seconds and %v in place, want %v and %v", name, stall, inPlace, tc.stall, tc.inPlace)
		}
	}
}

// codesIn are the reasons that a package has constants of.
func codesIn(t *testing.T, pkg string) (codes []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", pkg, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files of %s: %v", pkg, err)
	}
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, is := n.(*ast.ValueSpec)
			if !is || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, "Code") {
				return true
			}
			if literal, is := spec.Values[0].(*ast.BasicLit); is {
				code, err := strconv.Unquote(literal.Value)
				if err != nil {
					t.Fatal(err)
				}
				codes = append(codes, code)
			}
			return true
		})
	}
	return codes
}

// Every reason that a gang may wait for has a series, from the beginning, and either needs a person or does not. Pods outside of their domain
// run, and do not wait.
func TestWaitReasonsHaveSeries(t *testing.T) {
	codes := slices.DeleteFunc(append(codesIn(t, "gang"), codesIn(t, "placement")...), gang.IsOutside)
	want, got := slices.Sorted(slices.Values(codes)), slices.Sorted(slices.Values(WaitReasons()))
	if !slices.Equal(want, got) {
		t.Errorf("the reasons in the code are\n%q\nthose with a metric\n%q", want, got)
	}
	series := measure(t, Options{}).readings()
	for _, reason := range codes {
		for _, name := range []string{"trellis_gangs_waiting " + reason, "trellis_graphs_reporting Placed " + reason} {
			if _, there := series[name]; !there {
				t.Errorf("no series %s", name)
			}
		}
	}
}

func gaugeOf(t *testing.T, metric prometheus.Metric) float64 {
	t.Helper()
	m := dto.Metric{}
	if err := metric.Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetGauge().GetValue()
}
