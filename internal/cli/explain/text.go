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

	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/cli/text"
	"github.com/trellis-k8s/trellis/internal/limit"
)

// MaxLines is the maximum number of lines of the text, without the advice. It does not apply to a wide page.
const MaxLines = 25

// maxNodes is the maximum number of hosts that a row names.
const maxNodes = 3

// Refs returns the deployment.
func (r Explanation) Refs() []cli.Ref {
	return []cli.Ref{{Kind: cli.Graph.Name, Group: cli.Graph.Group, Name: r.Name}}
}

// Text renders the report in at most [MaxLines] lines, plus the lines of the advice. It shortens the least useful parts first. A wide page
// shows everything.
func (r Explanation) Text(p text.Page) string {
	if p.Wide {
		return setting{p, ages{r.now}, everything}.set(&r)
	}
	b := roomy
	for _, tighter := range tightening {
		s := setting{p, ages{r.now}, b}
		if got := s.set(&r); strings.Count(got, "\n") <= MaxLines+s.adviceLines(&r) {
			return got
		}
		tighter(&b)
	}
	return (setting{p, ages{r.now}, b}).cut(&r)
}

// adviceLines counts the lines of the advice, with the empty line before the advice.
func (s setting) adviceLines(r *Explanation) int {
	if advice := s.advice(r); advice != "" {
		return 1 + strings.Count(advice, "\n")
	}
	return 0
}

// cut returns the text without the lines beyond MaxLines, but with all of the advice.
func (s setting) cut(r *Explanation) string {
	without := *r
	without.Advice, without.Withheld = nil, nil
	lines := strings.SplitAfter(s.set(&without), "\n")
	if len(lines)-1 > MaxLines {
		lines = append(lines[:MaxLines-1], "and more: -o wide shows all of it\n")
	}
	if advice := s.advice(r); advice != "" {
		lines = append(lines, "\n"+advice)
	}
	return strings.Join(lines, "")
}

// bounds are limits for the parts of the text.
type bounds struct {
	// Maximum numbers of rows of replicas, details about replicas, reasons for waiting, domains of a table, hosts to free, conditions,
	// events, notes.
	rows, details, waiting, domains, hosts, conditions, events, notes int
	// outer: maximum number of domains of a level except the narrowest. reasons: maximum number of reasons in a row.
	outer, reasons int
	// words bounds the length of a text, in bytes.
	words int
}

const all = 1 << 20

var (
	roomy = bounds{rows: 10, details: 4, waiting: 4, domains: 8, hosts: 5, conditions: 4, events: 4, notes: 4, outer: 4, reasons: 3,
		words: 600}
	everything = bounds{all, all, all, all, all, all, all, all, all, all, all}
	// tightening shortens the text step by step, in this order.
	tightening = []func(*bounds){
		func(b *bounds) { b.events = 2 },
		func(b *bounds) { b.hosts = 3 },
		func(b *bounds) { b.rows = 6 },
		func(b *bounds) { b.events = 1 },
		func(b *bounds) { b.domains = 6 },
		func(b *bounds) { b.events, b.conditions = 0, 2 },
		func(b *bounds) { b.words = 300 },
		func(b *bounds) { b.reasons = 2 },
		func(b *bounds) { b.details = 2 },
		func(b *bounds) { b.domains, b.hosts = 4, 2 },
		func(b *bounds) { b.rows, b.waiting = 4, 3 },
		func(b *bounds) { b.conditions, b.notes = 1, 2 },
		func(b *bounds) { b.hosts, b.waiting = 1, 2 },
		func(b *bounds) { b.domains, b.details = 3, 1 },
		func(b *bounds) { b.outer, b.reasons = 2, 1 },
		func(b *bounds) { b.conditions = 0 },
		func(b *bounds) { b.rows = 2 },
		func(b *bounds) { b.words, b.notes = 160, 1 },
		func(b *bounds) { b.hosts = 0 },
		func(b *bounds) { b.outer = 0 },
		func(b *bounds) { b.domains, b.waiting = 2, 1 },
		func(b *bounds) { b.details, b.words = 0, 120 },
		func(b *bounds) { b.notes = 0 },
	}
)

// ages describes how long ago a time was.
type ages struct{ now time.Time }

func (a ages) of(t *metav1.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return duration.HumanDuration(max(a.now.Sub(t.Time), 0))
}

// setting is a page with its bounds.
type setting struct {
	text.Page
	ages
	bounds
}

func (s setting) set(r *Explanation) string {
	sections := []string{s.head(r), s.replicas(r), s.waitingFor(r), s.advice(r), s.list("KV TRANSFER", r.Transfer, s.notes), s.result(r),
		s.list("CONDITIONS", s.conditionLines(r), s.conditions),
		s.list("EVENTS", s.eventLines(r), s.events), s.list("", r.Notes, s.notes)}
	sections = slices.DeleteFunc(sections, func(s string) bool { return s == "" })
	return strings.Join(sections, "\n")
}

// short limits a text to s.words bytes.
func (s setting) short(text string) string { return limit.Text(text, s.words) }

func (s setting) head(r *Explanation) string {
	line := fmt.Sprintf("DynamoGraphDeployment %s/%s", r.Namespace, r.Name)
	if r.State != "" {
		line += ": " + r.State
	}
	if r.Domain != "" {
		line += ", in " + r.Domain
	}
	return s.Wrap(line, "  ") + "\n"
}

func (s setting) result(r *Explanation) string {
	lines := s.Wrap(s.Head("OPERATOR")+" "+s.short(r.Result.Text), "  ") + "\n"
	if v := r.Result; v.Placed != nil && (!v.Agrees || !*v.Placed && len(r.Waiting) == 0) {
		lines += s.Wrap(s.short(fmt.Sprintf("  Its last report, %s old: %s: %s", s.of(v.Since), v.Reason, v.Message)), "    ") + "\n"
	}
	return lines
}

func (s setting) conditionLines(r *Explanation) []string {
	var lines []string
	for _, c := range r.Conditions {
		if c.Object == "" && c.Type == "Placed" {
			continue // shown under OPERATOR
		}
		if !s.Wide && r.givesReason(c.Message) {
			continue
		}
		head := strings.TrimPrefix(c.Object+" ", " ")
		lines = append(lines, fmt.Sprintf("%s%s=%s for %s, %s: %s", head, c.Type, s.Warn(c.Status), s.of(&c.Since), c.Reason, c.Message))
	}
	return lines
}

// eventLines returns the events. Unless the page is wide, it omits events whose reason is already shown as a reason for waiting.
func (s setting) eventLines(r *Explanation) []string {
	var lines []string
	for _, e := range r.Events {
		if s.Wide || !slices.ContainsFunc(r.Waiting, func(w Cause) bool { return w.Reason == e.Reason }) {
			lines = append(lines, fmt.Sprintf("%s ago %s %s %s: %s", s.of(&e.Time), e.Type, e.Reason, e.Object, e.Message))
		}
	}
	return lines
}

// list renders the first lines under a heading.
func (s setting) list(heading string, lines []string, most int) string {
	if len(lines) == 0 || most == 0 {
		return ""
	}
	if len(lines) == most+1 {
		most++ // the line itself is as short as "and 1 more"
	}
	var b strings.Builder
	if heading != "" {
		b.WriteString(s.Head(heading) + "\n")
	}
	for i, line := range lines {
		if i == most {
			fmt.Fprintf(&b, "and %d more; -o wide shows all of them\n", len(lines)-i)
			break
		}
		b.WriteString(s.Wrap(s.short(line), "  ") + "\n")
	}
	return b.String()
}
