// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/trellis-k8s/trellis/internal/cli/text"
)

// Bounds of the text; the JSON form has all replicas.
const (
	maxRows    = 24
	maxWaiting = 6
	maxNodes   = 3
)

// Text renders the report for a terminal of 100 columns; long names may need more.
func (r Report) Text(now time.Time) string {
	ages := ages{now}
	sections := []string{r.head(), r.replicasText(ages), r.waitingText(), r.resultText(ages), r.conditionsText(ages), r.eventsText(ages), r.notesText()}
	sections = slices.DeleteFunc(sections, func(s string) bool { return s == "" })
	return strings.Join(sections, "\n")
}

// ages tells how long ago something was.
type ages struct{ now time.Time }

func (a ages) of(t *metav1.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return duration.HumanDuration(max(a.now.Sub(t.Time), 0))
}

func (r Report) head() string {
	line := fmt.Sprintf("DynamoGraphDeployment %s/%s", r.Namespace, r.Name)
	if r.State != "" {
		line += ": " + r.State
	}
	if r.Domain != "" {
		line += ", in " + r.Domain
	}
	return line + "\n"
}

// replicasText has one row for all replicas that have everything in common.
func (r Report) replicasText(a ages) string {
	type row struct{ service, state, since, domain, detail string }
	var order []row
	ordinals, nodes := map[row][]int{}, map[row][]string{}
	for i := range r.Replicas {
		one := &r.Replicas[i]
		key := row{one.Service, one.State, a.of(one.Since), one.place(), one.detail()}
		if ordinals[key] == nil {
			order = append(order, key)
		}
		ordinals[key], nodes[key] = append(ordinals[key], one.Replica), append(nodes[key], one.Nodes...)
	}
	rows := [][]string{{"REPLICA", "STATE", "SINCE", "DOMAIN", "HOSTS"}}
	var details details
	for i, key := range order {
		if i == maxRows {
			rest := 0
			for _, other := range order[i:] {
				rest += len(ordinals[other])
			}
			rows = append(rows, []string{fmt.Sprintf("and %d more replicas; -o json has all of them", rest)})
			break
		}
		hosts := slices.Compact(slices.Sorted(slices.Values(nodes[key])))
		rows = append(rows, []string{key.service + "-" + text.Ranges(ordinals[key]), key.state, key.since, key.domain, some(hosts, maxNodes)})
		details.add(key.service, key.detail, ordinals[key])
	}
	if len(order) == 0 {
		return ""
	}
	return text.Table(rows, 2) + details.text()
}

// place is where a replica is, or with an arrow where it would go now.
func (r *Replica) place() string {
	if r.WouldGo != "" {
		return "-> " + r.WouldGo
	}
	return r.Domain
}

func (r *Replica) detail() string {
	parts := []string{r.Detail}
	if r.WouldGo != "" && r.State == StateGated {
		parts = append(parts, "there is capacity for it now in "+r.WouldGo)
	}
	if r.Preempts != "" {
		parts = append(parts, "pods of lower priority would free capacity: "+r.Preempts)
	}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "; ")
}

// details are what there is to say below the table, once for all replicas it holds for.
type details []struct {
	service, text string
	replicas      []int
}

func (d *details) add(service, detail string, replicas []int) {
	if detail == "" {
		return
	}
	for i := range *d {
		if one := &(*d)[i]; one.service == service && one.text == detail {
			one.replicas = append(one.replicas, replicas...)
			slices.Sort(one.replicas)
			return
		}
	}
	*d = append(*d, struct {
		service, text string
		replicas      []int
	}{service, detail, slices.Clone(replicas)})
}

func (d *details) text() string {
	var b strings.Builder
	for _, one := range *d {
		b.WriteString(text.Wrap(fmt.Sprintf("%s-%s: %s", one.service, text.Ranges(one.replicas), one.text), "  ") + "\n")
	}
	return b.String()
}

// some lists the first few names and counts the rest.
func some(names []string, limit int) string {
	if len(names) > limit {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:limit], " "), len(names)-limit)
	}
	return strings.Join(names, " ")
}

func (r Report) waitingText() string {
	if len(r.Waiting) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("WHY IT WAITS\n")
	for i := range r.Waiting {
		if i == maxWaiting {
			fmt.Fprintf(&b, "and %d more reasons; -o json has all of them\n", len(r.Waiting)-i)
			break
		}
		r.Waiting[i].write(&b)
	}
	return b.String()
}

func (w *Waiting) write(b *strings.Builder) {
	who := make([]string, 0, len(w.Who))
	for _, g := range w.Who {
		who = append(who, g.Service+"-"+text.Ranges(g.Replicas))
	}
	b.WriteString(text.Wrap(fmt.Sprintf("%s: %s", strings.Join(who, ", "), w.Reason), "  ") + "\n")
	b.WriteString(text.Wrap("    "+w.Message, "    ") + "\n")
	if len(w.Freeing) == 0 {
		return
	}
	where := "Easiest to free is " + w.FreeingDomain
	if w.FreeingDomain == "" {
		where = "To free capacity in the cluster"
	}
	fmt.Fprintf(b, "    %s; these hosts take no pod now, the easiest first:\n", where)
	rows := make([][]string, 0, len(w.Freeing))
	for i := range w.Freeing {
		h := &w.Freeing[i]
		rows = append(rows, []string{"     ", h.Name, h.Reason, h.way()})
	}
	if w.FreeingMore > 0 {
		rows = append(rows, []string{"     ", fmt.Sprintf("and %d more", w.FreeingMore)})
	}
	b.WriteString(text.Table(rows, 1))
}

// way is what would make the host take a pod.
func (h *Host) way() string {
	if len(h.Pods) == 0 {
		return h.Remedy
	}
	parts := make([]string, 0, len(h.Pods)+1)
	for _, pod := range h.Pods {
		part := fmt.Sprintf("%s (%d)", pod.Pod, pod.Amount)
		if pod.Planned {
			part += " planned"
		}
		parts = append(parts, part)
	}
	if h.PodsMore > 0 {
		parts = append(parts, fmt.Sprintf("%d more", h.PodsMore))
	}
	return "used by " + strings.Join(parts, ", ")
}

func (r Report) resultText(a ages) string {
	lines := []string{text.Wrap(r.Result.Text, "  ")}
	if v := r.Result; v.Placed != nil && (!v.Agrees || !*v.Placed && len(r.Waiting) == 0) {
		lines = append(lines, text.Wrap(fmt.Sprintf("  Its last report, %s old: %s: %s", a.of(v.Since), v.Reason, v.Message), "    "))
	}
	return "OPERATOR\n" + strings.Join(lines, "\n") + "\n"
}

func (r Report) conditionsText(a ages) string {
	var b strings.Builder
	for _, c := range r.Conditions {
		if c.Object == "" && c.Type == "Placed" {
			continue // stands under OPERATOR
		}
		head := strings.TrimPrefix(c.Object+" ", " ")
		b.WriteString(text.Wrap(fmt.Sprintf("%s%s=%s for %s, %s: %s", head, c.Type, c.Status, a.of(&c.Since), c.Reason, c.Message), "  ") + "\n")
	}
	if b.Len() == 0 {
		return ""
	}
	return "CONDITIONS\n" + b.String()
}

func (r Report) eventsText(a ages) string {
	if len(r.Events) == 0 {
		return ""
	}
	var b strings.Builder
	for _, e := range r.Events {
		b.WriteString(text.Wrap(fmt.Sprintf("%s ago %s %s %s: %s", a.of(&e.Time), e.Type, e.Reason, e.Object, e.Message), "  ") + "\n")
	}
	return "EVENTS\n" + b.String()
}

func (r Report) notesText() string {
	var b strings.Builder
	for _, note := range r.Notes {
		b.WriteString(text.Wrap(note, "  ") + "\n")
	}
	return b.String()
}
