// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/internal/cli"
)

// namespace is the namespace of all objects of the demo.
const namespace = "default"

// patience is the time limit of each wait of the demo.
const patience = time.Minute

func newClient(s *sandbox.Sandbox) (client.WithWatch, error) {
	config, err := s.RESTConfig()
	if err != nil {
		return nil, err
	}
	scheme, err := cli.NewScheme()
	if err != nil {
		return nil, err
	}
	return client.NewWithWatch(config, client.Options{Scheme: scheme})
}

// sighting is a condition of a graph that has reached the wanted status.
type sighting struct {
	name      string
	condition metav1.Condition
	// after is the time since the watch first saw the graph.
	after time.Duration
}

// want describes the condition to wait for: its type and status, and with also a further test.
type want struct {
	kind   string
	status metav1.ConditionStatus
	also   func(*nvidiav1beta1.DynamoGraphDeployment, *metav1.Condition) bool
}

// lookout watches graphs until each has the wanted condition.
type lookout struct {
	want      want
	waiting   []string
	seen      map[string]time.Time
	last      map[string]string
	sightings chan sighting
	failed    chan error
}

// watchFor starts the watch. Callers call it before they change anything, so that the watch sees every result of the change.
func (d *demo) watchFor(ctx context.Context, names []string, wanted want) (*lookout, error) {
	c, err := newClient(d.sandbox)
	if err != nil {
		return nil, err
	}
	w, err := c.Watch(ctx, &nvidiav1beta1.DynamoGraphDeploymentList{}, client.InNamespace(namespace))
	if err != nil {
		return nil, fmt.Errorf("watching DynamoGraphDeployments: %w", err)
	}
	l := &lookout{
		want: wanted, waiting: slices.Clone(names), seen: map[string]time.Time{}, last: map[string]string{},
		sightings: make(chan sighting, len(names)), failed: make(chan error, 1),
	}
	go l.look(ctx, w)
	return l, nil
}

func (l *lookout) look(ctx context.Context, w watch.Interface) {
	defer close(l.sightings)
	defer w.Stop()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for len(l.waiting) > 0 {
		select {
		case <-ctx.Done():
			l.failed <- ctx.Err()
			return
		case <-deadline.C:
			l.failed <- l.late()
			return
		case e, open := <-w.ResultChan():
			if !open {
				l.failed <- errors.New("the API server ended the watch")
				return
			}
			if dgd, ok := e.Object.(*nvidiav1beta1.DynamoGraphDeployment); ok {
				l.note(dgd, time.Now())
			}
		}
	}
}

func (l *lookout) note(dgd *nvidiav1beta1.DynamoGraphDeployment, now time.Time) {
	i := slices.Index(l.waiting, dgd.Name)
	if i < 0 {
		return
	}
	if l.seen[dgd.Name].IsZero() {
		l.seen[dgd.Name] = now
	}
	c := meta.FindStatusCondition(dgd.Status.Conditions, l.want.kind)
	if c == nil {
		return
	}
	l.last[dgd.Name] = c.Message
	if c.Status == l.want.status && (l.want.also == nil || l.want.also(dgd, c)) {
		l.waiting = slices.Delete(l.waiting, i, i+1)
		l.sightings <- sighting{dgd.Name, *c, now.Sub(l.seen[dgd.Name])}
	}
}

// late is the error after the time limit: it lists the graphs without the wanted condition, each with its last message.
func (l *lookout) late() error {
	lines := make([]string, 0, len(l.waiting))
	for _, name := range l.waiting {
		lines = append(lines, fmt.Sprintf("  %s: %s", name, l.last[name]))
	}
	return fmt.Errorf("%s did not become %s within %s for\n%s", l.want.kind, l.want.status, patience, strings.Join(lines, "\n"))
}

// each calls f with every sighting as it arrives, and returns after the last graph.
func (l *lookout) each(f func(sighting)) error {
	for s := range l.sightings {
		f(s)
	}
	select {
	case err := <-l.failed:
		return err
	default:
		return nil
	}
}

// awaitEvent waits for an event of a graph, which the API server has a moment after the condition of the graph.
func (d *demo) awaitEvent(ctx context.Context, graph, reason string) error {
	c, err := newClient(d.sandbox)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	w, err := c.Watch(ctx, &corev1.EventList{}, client.InNamespace(namespace))
	if err != nil {
		return fmt.Errorf("watching events: %w", err)
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		if event, ok := e.Object.(*corev1.Event); ok && event.InvolvedObject.Name == graph && event.Reason == reason {
			return nil
		}
	}
	return fmt.Errorf("no event %s for %s within %s", reason, graph, patience)
}
