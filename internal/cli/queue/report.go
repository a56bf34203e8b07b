// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/cli/live"
	"github.com/trellis-k8s/trellis/internal/cli/text"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/newpod"
	"github.com/trellis-k8s/trellis/internal/topology"
	"github.com/trellis-k8s/trellis/internal/turns"
)

// Queue is what -o json writes.
type Queue struct {
	Waiting []Entry `json:"waiting"`
	// Missing are the deployments whose status counts pods that do not exist, and which so far do not report that they wait.
	Missing []Missing `json:"missing,omitempty"`
	// Elsewhere is how many wait in namespaces that are not listed.
	Elsewhere int `json:"elsewhere,omitempty"`
	// Notes on what the report cannot know.
	Notes []string `json:"notes,omitempty"`
	// Operator is there when the operator is silent, or when nothing is known of it.
	Operator *live.Heartbeat `json:"operator,omitempty"`

	only        string
	onlyMissing bool
	now         time.Time
}

// Entry is one deployment that is not placed whole.
type Entry struct {
	// Position in the order in which the operator plans, from 1, among all that wait for capacity; 0 for what waits for admission, which is
	// not planned.
	Position  int    `json:"position"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Priority is the lowest of its pods'.
	Priority int32 `json:"priority"`
	// Since is when it began to wait. Reason and Message are those of the condition Placed.
	Since   metav1.Time `json:"since"`
	Reason  string      `json:"reason"`
	Message string      `json:"message"`
}

// Build lists what waits.
func Build(s Deployments) Queue {
	var line turns.Line
	found := map[[2]string]Entry{}
	var unadmitted []Entry
	for _, dgd := range s.Graphs {
		if !waits(dgd) || dgd.DeletionTimestamp != nil {
			continue
		}
		c := live.Placed(dgd)
		w := Entry{
			Namespace: dgd.Namespace, Name: dgd.Name, Priority: s.priority(dgd), Since: c.LastTransitionTime, Reason: c.Reason, Message: c.Message,
		}
		if w.Reason == gang.CodeWaitingForAdmission {
			unadmitted = append(unadmitted, w)
			continue
		}
		found[[2]string{w.Namespace, w.Name}] = w
		line.Add(turns.Turn{Namespace: w.Namespace, Name: w.Name, Priority: w.Priority, Created: dgd.CreationTimestamp.Time})
	}
	r := Queue{Missing: s.missing(), Operator: s.Operator, only: s.Only, onlyMissing: s.OnlyMissing, now: s.Now}
	all := []Entry{}
	for next, ok := line.Next(); ok; next, ok = line.Next() {
		all = append(all, found[[2]string{next.Namespace, next.Name}])
	}
	for i := range all {
		all[i].Position = i + 1
	}
	slices.SortStableFunc(unadmitted, func(a, b Entry) int {
		return cmp.Or(a.Since.Compare(b.Since.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	all = append(all, unadmitted...)
	if s.Only != "" {
		waiting := len(all)
		all = slices.DeleteFunc(all, func(w Entry) bool { return !s.listed(w.Namespace) })
		r.Elsewhere = waiting - len(all)
	}
	r.Waiting = all
	if len(s.Denied) > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("You may not %s in the whole cluster, so the order is that of what you may see. "+
			"The ClusterRole trellis-planner-role has the missing rights.", s.Lacking()))
	}
	if s.PodsHidden {
		r.Notes = append(r.Notes, "You may not list pods in the whole cluster, so pods that are missing are not known.")
	}
	return r
}

// waits reports whether a deployment states that it is not placed whole.
func waits(dgd *nvidiav1beta1.DynamoGraphDeployment) bool {
	return meta.IsStatusConditionFalse(dgd.Status.Conditions, nvidiav1beta1.ConditionPlaced)
}

// priority of a deployment is that of its least important pod: a component's podTemplate may name a class of its own.
func (s Deployments) priority(dgd *nvidiav1beta1.DynamoGraphDeployment) int32 {
	admission := newpod.Objects{PriorityClasses: s.Priorities}
	of := func(class string) int32 {
		pod := &corev1.Pod{Spec: corev1.PodSpec{PriorityClassName: class}}
		admission.Rank(pod)
		return topology.PriorityOf(pod)
	}
	var all []int32
	for i := range dgd.Spec.Components {
		class := dgd.Spec.PriorityClassName
		if t := dgd.Spec.Components[i].PodTemplate; t != nil {
			class = cmp.Or(t.Spec.PriorityClassName, class)
		}
		all = append(all, of(class))
	}
	if len(all) == 0 {
		return of(dgd.Spec.PriorityClassName)
	}
	return slices.Min(all)
}

// position as it is printed.
func (w *Entry) position() string {
	if w.Position == 0 {
		return "-"
	}
	return strconv.Itoa(w.Position)
}

// Refs are the deployments that wait.
func (r Queue) Refs() []cli.Ref {
	refs := make([]cli.Ref, 0, len(r.Waiting))
	for _, w := range r.Waiting {
		refs = append(refs, cli.Ref{Kind: cli.Graph.Name, Group: cli.Graph.Group, Name: w.Name})
	}
	return refs
}

// Text is a table. Each row is followed by why it waits; on a wide page that is a column.
func (r Queue) Text(p text.Page) string {
	var b strings.Builder
	if len(r.Waiting) == 0 {
		b.WriteString(p.Wrap(r.nothing(), "  ") + "\n")
	} else {
		r.table(&b, p)
	}
	if len(r.Missing) > 0 {
		b.WriteString("\n" + r.missingText(p))
	}
	for _, note := range r.Notes {
		b.WriteString("\n" + p.Wrap(note, "  ") + "\n")
	}
	return b.String()
}

// nothing states that nothing waits, and where something does.
func (r Queue) nothing() string {
	said := "Nothing waits."
	switch {
	case r.onlyMissing:
		said = fmt.Sprintf("Namespace %s does not exist.", r.only)
	case len(r.Missing) > 0:
		said = "No deployment reports that it waits."
	case r.only != "":
		said = fmt.Sprintf("Nothing waits in namespace %s.", r.only)
	}
	switch r.Elsewhere {
	case 0:
		return said
	case 1:
		return said + " 1 deployment waits in another namespace; -A shows it."
	}
	return fmt.Sprintf("%s %d deployments wait in other namespaces; -A shows them.", said, r.Elsewhere)
}

func (r Queue) table(b *strings.Builder, p text.Page) {
	rows := [][]string{{"#", "GRAPH", "PRIORITY", "WAITING", "REASON"}}
	if p.Wide {
		rows[0] = append(rows[0], "MESSAGE")
	}
	for _, w := range r.Waiting {
		row := []string{
			w.position(), w.Namespace + "/" + w.Name, strconv.Itoa(int(w.Priority)),
			duration.HumanDuration(max(r.now.Sub(w.Since.Time), 0)), p.Warn(w.Reason),
		}
		if p.Wide {
			row = append(row, w.Message)
		}
		rows = append(rows, row)
	}
	if p.Wide {
		b.WriteString(p.Table(rows, 0, 2))
		return
	}
	for i, row := range strings.Split(strings.TrimSuffix(text.Table(rows, 2, 0, 2), "\n"), "\n") {
		if i == 0 {
			b.WriteString(p.Head(row) + "\n")
			continue
		}
		b.WriteString(row + "\n" + p.Wrap("    "+r.Waiting[i-1].Message, "    ") + "\n")
	}
}
