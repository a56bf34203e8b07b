// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"strings"

	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/cli/text"
	"github.com/trellis-k8s/trellis/internal/limit"
)

// maxPlaces is the maximum number of domains that a line lists.
const maxPlaces = 3

// Refs returns the deployment.
func (r Status) Refs() []cli.Ref {
	return []cli.Ref{{Kind: cli.Graph.Name, Group: cli.Graph.Group, Name: r.Name}}
}

// Text renders the report as a table.
func (r Status) Text(p text.Page) string {
	rows := [][]string{{"COMPONENT", "READY", "UPDATED", "WHERE", "WAITING FOR"}}
	for _, s := range r.Components {
		waiting := append(s.Waiting, "")
		ready := fmt.Sprintf("%d/%d", s.Ready, s.Desired)
		if s.Ready == s.Desired {
			ready = p.Good(ready)
		} else {
			ready = p.Warn(ready)
		}
		rows = append(rows, []string{s.Name, ready, fmt.Sprint(s.Updated), s.where(p), waiting[0]})
		for _, more := range s.Waiting[min(1, len(s.Waiting)):] {
			rows = append(rows, []string{"", "", "", "", more})
		}
	}
	var b strings.Builder
	b.WriteString(p.Wrap(r.headline(), "  ") + "\n\n" + p.Table(rows, 1, 2))
	if notes := r.notes(); len(notes) > 0 {
		b.WriteString("\n" + p.Wrap(strings.Join(notes, "\n"), "  ") + "\n")
	}
	return b.String()
}

// headline summarizes the graph.
func (r Status) headline() string {
	line := fmt.Sprintf("%s in %s is %s", r.Name, r.Namespace, r.word())
	if r.Domain != "" {
		line += ", placed in " + r.Domain
	}
	return line
}

func (r Status) word() string {
	switch {
	case r.Done:
		return "ready"
	case r.Deleting:
		return "being deleted"
	case r.Outdated:
		return "not ready (pods that its status counts are missing or not ready)"
	case r.Behind && r.Ready:
		return "ready; a change is being taken up"
	case r.Ready:
		return "ready, and not finished"
	case r.Reason == "":
		return "new: the operator has not processed it yet; is it running?"
	}
	return fmt.Sprintf("not ready (%s)", r.Reason)
}

// notes returns the lines below the table.
func (r Status) notes() []string {
	var notes []string
	if u := r.Update; u != nil && u.Phase != "" {
		note := "rolling update: " + u.Phase
		if len(u.UpdatedComponents) > 0 {
			note += ", updated: " + strings.Join(u.UpdatedComponents, ", ")
		}
		notes = append(notes, note)
	}
	for _, c := range r.Components {
		if line := c.generations(); line != "" {
			notes = append(notes, line)
		}
	}
	if s := r.Restart; s != nil && s.Phase != "" {
		note := fmt.Sprintf("restart %q: %s", s.ObservedID, s.Phase)
		if len(s.InProgress) > 0 {
			note += ", now: " + strings.Join(s.InProgress, ", ")
		}
		notes = append(notes, note)
	}
	notes = append(notes, r.problems()...)
	if how := r.howToAbort(); how != "" {
		notes = append(notes, how)
	}
	if !r.Ready && r.State == "failed" {
		notes = append(notes, r.Message)
	}
	return append(notes, r.unknown()...)
}

// problems renders the conditions that report a problem.
func (r Status) problems() (lines []string) {
	for _, c := range r.Components {
		for _, u := range c.Unhealthy {
			lines = append(lines, fmt.Sprintf("%s of %s is %s, %s: %s", u.Type, c.Name, u.Status, u.Reason, u.Message))
		}
	}
	for _, c := range r.Conditions {
		lines = append(lines, fmt.Sprintf("%s is %s, %s: %s", c.Type, c.Status, c.Reason, c.Message))
	}
	return lines
}

// unknown describes what the report lacks because the user may not list objects. It returns nothing for a graph that is Done.
func (r Status) unknown() (lines []string) {
	if r.PodsHidden && !r.Done {
		lines = append(lines, "you may not list pods in this namespace, so what single pods wait for is not known")
	}
	if r.GroupsHidden && !r.Done {
		lines = append(lines, "scalinggroups are not installed, or you may not list them, so why pods do not start is not known")
	}
	return lines
}

func (s Component) where(p text.Page) string {
	var places []string
	for _, at := range s.Where {
		place := at.Domain
		if at.Replicas > 1 {
			place += fmt.Sprintf(" (%d)", at.Replicas)
		}
		places = append(places, place)
	}
	if !p.Wide {
		places = limit.First(places, maxPlaces, "")
	}
	return strings.Join(places, ", ")
}

// line renders a component as a single line.
func (s Component) line() string {
	line := fmt.Sprintf("%s: %d/%d ready, %d updated", s.Name, s.Ready, s.Desired, s.Updated)
	if where := s.where(text.Page{}); where != "" {
		line += ", in " + where
	}
	if len(s.Waiting) > 0 {
		line += "; waiting: " + strings.Join(s.Waiting, ", ")
	}
	return line
}

// lines renders the report as lines for a log.
func (r Status) lines() []string {
	var lines []string
	for _, s := range r.Components {
		lines = append(lines, s.line())
	}
	return append(append(lines, r.notes()...), r.headline())
}

// Changes returns the lines that the previous report did not contain.
func (r Status) Changes(before *Status) []string {
	known := map[string]bool{}
	if before != nil {
		for _, line := range before.lines() {
			known[line] = true
		}
	}
	var changes []string
	for _, line := range r.lines() {
		if !known[line] {
			changes = append(changes, line)
		}
	}
	return changes
}
