// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"slices"

	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/placement"
)

// tablesOf returns a table of the domains for a refusal and for each of its causes. It omits a level with a single domain if a narrower
// level follows.
func tablesOf(r *placement.Refusal) []Table {
	if r.Code == placement.CodeBaseGangWaits {
		return nil // the base gang's refusal has them
	}
	var list []Table
	for gang := ""; r != nil; r = r.Cause {
		if r.Gang != "" && len(list) > 0 {
			gang = r.Gang
		}
		if len(r.Domains) > 1 || len(r.Domains)+len(r.Outside) > 0 && r.Cause == nil {
			t := tableOf(gang, r)
			if len(list) > 0 {
				t.Outside = nil // the table before has them
			}
			list = append(list, t)
		}
		if gang == "" && r.Cause != nil && len(list) == 0 {
			gang = r.Cause.Gang
		}
	}
	return list
}

func tableOf(gang string, r *placement.Refusal) Table {
	t := Table{Gang: gang, Asks: r.Asks(), Level: r.LevelName, Within: r.Within.String(), Domains: rowsOf(r.Domains),
		Outside: rowsOf(r.Outside)}
	for _, n := range r.Need {
		t.Pods += n.Pods
	}
	if len(r.Domains) > 0 {
		t.Resource = r.Domains[0].Resource
	}
	return t
}

// rowsOf sorts the domains: first by the pods that they hold, then by free capacity, both in descending order, then by name.
func rowsOf(domains []placement.Domain) []DomainRow {
	rows := make([]DomainRow, 0, len(domains))
	for i := range domains {
		d := &domains[i]
		row := DomainRow{Domain: d.Path.String(), Holds: d.Holds, Hosts: d.Hosts, Open: d.Open, Free: d.Free, Largest: d.Largest}
		for _, e := range d.Excluded {
			row.Excluded = append(row.Excluded, Excluded{e.Reason.String(), e.Hosts})
		}
		rows = append(rows, row)
	}
	slices.SortStableFunc(rows, func(a, b DomainRow) int {
		return cmp.Or(cmp.Compare(b.Holds, a.Holds), cmp.Compare(b.Free, a.Free), cli.Natural(a.Domain, b.Domain))
	})
	return rows
}

// sum adds up several domains. Holds and Largest are the maximum over these domains.
func sum(rows []DomainRow) DomainRow {
	out := DomainRow{}
	counts := map[string]int{}
	for _, r := range rows {
		out.Hosts, out.Open, out.Free = out.Hosts+r.Hosts, out.Open+r.Open, out.Free+r.Free
		out.Holds, out.Largest = max(out.Holds, r.Holds), max(out.Largest, r.Largest)
		for _, e := range r.Excluded {
			counts[e.Reason] += e.Hosts
		}
	}
	for reason, hosts := range counts {
		out.Excluded = append(out.Excluded, Excluded{reason, hosts})
	}
	slices.SortFunc(out.Excluded, func(a, b Excluded) int { return cmp.Or(cmp.Compare(b.Hosts, a.Hosts), cmp.Compare(a.Reason, b.Reason)) })
	return out
}
