// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"strings"

	"github.com/onsi/ginkgo/v2"
	"k8s.io/apimachinery/pkg/util/sets"
)

// PassOn passes what the operators of this process asked for on to the first process, whose Check looks at that of all:
//
//	var _ = AfterSuite(rights.Of("operator").PassOn)
func (s *Suite) PassOn() {
	s.mu.Lock()
	defer s.mu.Unlock()
	ginkgo.AddReportEntry(s.entry("used"), strings.Join(sets.List(s.used), "\n"), ginkgo.ReportEntryVisibilityNever)
	ginkgo.AddReportEntry(s.entry("without"), strings.Join(sets.List(s.without), "\n"), ginkgo.ReportEntryVisibilityNever)
}

// gather reads what the processes of a report have passed on.
func (s *Suite) gather(report ginkgo.Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	into := map[string]sets.Set[string]{s.entry("used"): s.used, s.entry("without"): s.without}
	for _, spec := range report.SpecReports {
		for _, entry := range spec.ReportEntries {
			if calls, ok := into[entry.Name]; ok {
				calls.Insert(strings.Split(entry.StringRepresentation(), "\n")...).Delete("")
			}
		}
	}
}

func (s *Suite) entry(kind string) string { return "rights of " + s.name + ", " + kind }
