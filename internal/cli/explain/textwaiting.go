// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/cli/text"
	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/placement"
)

func (s setting) waitingFor(r *Explanation) string {
	if len(r.Waiting) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString(s.Head("WHY IT WAITS") + "\n")
	for i := range r.Waiting {
		if i == s.waiting {
			fmt.Fprintf(&b, "and %s; -o wide shows all of them\n", text.Count(len(r.Waiting)-i, "more reason"))
			break
		}
		s.cause(&b, &r.Waiting[i])
	}
	return b.String()
}

// cause explains why some replicas wait. It renders the message, then the tables of domains, then the hosts to free.
func (s setting) cause(b *strings.Builder, w *Cause) {
	who := make([]string, 0, len(w.Who))
	for _, g := range w.Who {
		who = append(who, g.Component+"-"+text.Ranges(g.Replicas))
	}
	message := w.Message
	if len(w.Tables) > 0 || w.Reason == placement.CodeBaseGangWaits {
		message = w.Asks
	}
	message = s.short(message)
	if w.Reason == nvidiav1beta1.ReasonCreationRefused {
		message = limit.Middle(w.Message, s.words) // the gangs that wait before it come last in the message
	}
	b.WriteString(s.Wrap(fmt.Sprintf("%s: %s: %s", s.short(strings.Join(who, ", ")), s.Warn(w.Reason), message), "  ") + "\n")
	for i := range w.Tables {
		t := &w.Tables[i]
		if t.Gang != "" {
			b.WriteString(s.Wrap(s.short(fmt.Sprintf("  there %s %s", t.Gang, t.Asks)), "    ") + "\n")
		}
		most := s.domains
		if i < len(w.Tables)-1 && !s.Wide {
			most = min(most, s.outer)
		}
		if most > 0 {
			b.WriteString(s.indented(s.table(t, most)))
		}
	}
	s.freeing(b, w)
}

// indented indents every line by two spaces.
func (s setting) indented(lines string) string {
	return "  " + strings.ReplaceAll(strings.TrimSuffix(lines, "\n"), "\n", "\n  ") + "\n"
}

// table renders a row for each of the first domains, a row for the other domains, a row for all domains, and a row for the domains in which
// the gang may not be placed.
func (s setting) table(t *Table, most int) string {
	rows := [][]string{{strings.ToUpper(t.Level), "HOSTS", free(t.Resource), "FITS", "HOSTS THAT TAKE NO POD"}}
	shown := t.Domains
	if len(shown) > most+1 { // the row for the rest takes a row as well
		shown = shown[:most]
	}
	for _, d := range shown {
		rows = append(rows, s.row(t, d.Domain, d))
	}
	if rest := t.Domains[len(shown):]; len(rest) > 0 {
		name := fmt.Sprintf("... and %d more", len(rest))
		if rest[0].Holds < shown[len(shown)-1].Holds {
			name += " with less"
		}
		rows = append(rows, s.row(t, name, sum(rest)))
	}
	if len(t.Domains) > 1 {
		all := s.row(t, fmt.Sprintf("all %d %ss", len(t.Domains), t.Level), sum(t.Domains))
		all[3] = "" // a gang has to fit in one of them
		rows = append(rows, all)
	}
	if len(t.Outside) > 0 {
		all := s.row(t, "not in "+t.Within, sum(t.Outside))
		all[len(all)-1] = fmt.Sprintf("the graph is in %s", t.Within)
		rows = append(rows, all)
	}
	return s.Narrower(2).Table(rows, 1, 2, 3) // it is indented
}

// row renders one domain, or the sum of several domains, as a row of the table.
func (s setting) row(t *Table, name string, d DomainRow) []string {
	if name == "" {
		name = "all hosts"
	}
	amount := ""
	if t.Resource != "" {
		amount = placement.Amount(t.Resource, d.Free)
	}
	return []string{name, strconv.Itoa(d.Hosts), amount, fmt.Sprintf("%d of %d", d.Holds, t.Pods), s.reasonsOf(t, d.Excluded)}
}

// reasonsOf lists the most frequent reasons why hosts take no pod, with the number of hosts for each reason. If s.reasons is below
// roomy.reasons, all taints count as one reason.
func (s setting) reasonsOf(t *Table, list []Excluded) string {
	if s.reasons < roomy.reasons {
		list = oneTaint(list)
	}
	parts := make([]string, 0, len(list))
	for i, e := range list {
		if i == s.reasons && len(list) > s.reasons+1 {
			hosts := 0
			for _, e := range list[i:] {
				hosts += e.Hosts
			}
			parts = append(parts, fmt.Sprintf("%d others", hosts))
			break
		}
		reason := e.Reason
		if strings.HasSuffix(t.Resource, "/gpu") && strings.HasSuffix(reason, " "+t.Resource) {
			reason = strings.TrimSuffix(reason, t.Resource) + "GPUs" // as in the column's heading
		}
		parts = append(parts, fmt.Sprintf("%d %s", e.Hosts, reason))
	}
	return strings.Join(parts, ", ")
}

// oneTaint replaces the counts of all taints with their sum.
func oneTaint(list []Excluded) []Excluded {
	var out []Excluded
	tainted := 0
	for _, e := range list {
		if strings.HasPrefix(e.Reason, "taint ") {
			tainted += e.Hosts
		} else {
			out = append(out, e)
		}
	}
	if tainted > 0 {
		out = append(out, Excluded{"tainted", tainted})
	}
	slices.SortStableFunc(out, func(a, b Excluded) int { return cmp.Compare(b.Hosts, a.Hosts) })
	return out
}

// free returns the column heading for free capacity.
func free(resource string) string {
	switch {
	case resource == "":
		return "FREE"
	case strings.HasSuffix(resource, "/gpu"):
		return "FREE GPUS"
	}
	return "FREE " + resource
}

// freeing renders the domain that is easiest to free, and the steps for its hosts.
func (s setting) freeing(b *strings.Builder, w *Cause) {
	if len(w.Freeing) == 0 || s.hosts == 0 {
		return
	}
	where := "Easiest to free is " + w.FreeingDomain
	if w.FreeingDomain == "" {
		where = "To free capacity in the cluster"
	}
	b.WriteString(s.Wrap("  "+where+"; "+w.thatFit()+" once these hosts are freed:", "    ") + "\n")
	rows, more, most := make([][]string, 0, len(w.Freeing)), w.FreeingMore, s.hosts
	if len(w.Freeing)+more == most+1 {
		most++ // the line itself is as short as "and 1 more"
	}
	for i := range w.Freeing {
		if i >= most {
			more += len(w.Freeing) - i
			break
		}
		h := &w.Freeing[i]
		rows = append(rows, []string{"   " + h.Name, h.Reason, h.way(s.Wide)})
	}
	p := s.Page
	p.Color = false // its first row is not a heading
	b.WriteString(p.Table(rows))
	if more > 0 {
		fmt.Fprintf(b, "   and %d more\n", more)
	}
}

// thatFit names the replicas that fit once the hosts are freed; "it fits" if all replicas fit.
func (w *Cause) thatFit() string {
	if len(w.FreeingFits) == 0 {
		return "it fits"
	}
	names, replicas := make([]string, 0, len(w.FreeingFits)), 0
	for _, g := range w.FreeingFits {
		names, replicas = append(names, g.Component+"-"+text.Ranges(g.Replicas)), replicas+len(g.Replicas)
	}
	if replicas == 1 {
		return "only " + names[0] + " fits"
	}
	return "only " + strings.Join(names, ", ") + " fit"
}

// maxUsers is the maximum number of pods that are named for a host.
const maxUsers = 4

// way names the pods that use the missing resource on the host. They have to be removed before a pod of the gang fits. The section WHAT
// HELPS contains the commands for this.
func (h *Host) way(wide bool) string {
	var users []string
	more := h.PodsMore
	for i, pod := range h.Pods {
		if i >= maxUsers && !wide {
			more += len(h.Pods) - i
			break
		}
		part := fmt.Sprintf("%s (%s)", pod.Pod, placement.Amount(pod.Resource, pod.Amount))
		if pod.Planned {
			part += " planned"
		}
		users = append(users, part)
	}
	if more > 0 {
		users = append(users, fmt.Sprintf("%d more", more))
	}
	if len(users) == 0 {
		return ""
	}
	return "used by " + strings.Join(users, ", ")
}
