// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/cli/text"
	"github.com/trellis-k8s/trellis/internal/render"
)

// History lists the stored generations of one graph, the newest first.
type History struct {
	Namespace   string   `json:"namespace"`
	Name        string   `json:"name"`
	Generations []Stored `json:"generations"`

	now time.Time
}

// Stored is a stored generation.
type Stored struct {
	Revision int64 `json:"revision"`
	// Generation is the name of the generation; empty for workers without generations.
	Generation string    `json:"generation"`
	Created    time.Time `json:"created"`
	// State is "rolled out" for the last generation that was rolled out, "updating" for the generation to which the workers are changing,
	// "aborted", or empty.
	State string `json:"state,omitempty"`
	// Images of the workers, by component.
	Images map[string]string `json:"images,omitempty"`
}

// Generations makes the report.
func Generations(o Observed, revisions []appsv1.ControllerRevision, now time.Time) History {
	status := Build(o)
	h := History{Namespace: status.Namespace, Name: status.Name, Generations: []Stored{}, now: now}
	for i := range revisions {
		revision := &revisions[i]
		s := Stored{Revision: revision.Revision, Generation: revision.Labels[render.LabelWorkerHash], Created: revision.CreationTimestamp.Time,
			Images: imagesIn(revision)}
		switch s.Generation {
		case "":
		case status.Aborted:
			s.State = "aborted"
		case status.Target:
			s.State = "updating"
		case status.Generation:
			s.State = "rolled out"
		}
		h.Generations = append(h.Generations, s)
	}
	slices.SortFunc(h.Generations, func(a, b Stored) int {
		return cmp.Or(cmp.Compare(b.Revision, a.Revision), b.Created.Compare(a.Created))
	})
	return h
}

// imagesIn returns the images of the main containers, by component; nil if the stored generation cannot be read.
func imagesIn(revision *appsv1.ControllerRevision) map[string]string {
	stored, err := render.StoredIn(revision)
	if err != nil {
		return nil
	}
	return stored.Images()
}

// Refs returns the deployment.
func (h History) Refs() []cli.Ref { return refs(h.Name) }

// Text renders the report as a table.
func (h History) Text(p text.Page) string {
	if len(h.Generations) == 0 {
		return fmt.Sprintf("No generation of %s in %s is stored.\n", h.Name, h.Namespace)
	}
	rows := [][]string{{"REVISION", "GENERATION", "AGE", "STATE", "IMAGES"}}
	for _, s := range h.Generations {
		rows = append(rows, []string{
			fmt.Sprint(s.Revision), cmp.Or(s.Generation, "none"), duration.HumanDuration(h.now.Sub(s.Created)), cmp.Or(s.State, "-"),
			strings.Join(s.images(), ", "),
		})
	}
	return p.Table(rows, 0)
}

// images returns the distinct images.
func (s Stored) images() []string {
	var out []string
	for _, image := range s.Images {
		out = append(out, image)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
