// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// server is the suite as one test uses it.
type server struct {
	*suite
	t *testing.T
}

// newServer returns the suite. The first call starts it.
func newServer(t *testing.T) *server {
	t.Helper()
	if err := startShared(); err != nil {
		t.Fatal(err)
	}
	return &server{suite: shared, t: t}
}

func (s *server) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// create creates an object, and deletes it when the test ends.
func (s *server) create(object client.Object) {
	s.t.Helper()
	s.must(s.tryCreate(object))
}

// tryCreate returns the answer to the creation of an object, which it deletes when the test ends if it was accepted.
func (s *server) tryCreate(object client.Object) error {
	err := s.admin.Create(s.t.Context(), object)
	if err == nil {
		s.deleteAfter(object)
	}
	return err
}

// deleteAfter deletes an object when the test ends, if it is there.
func (s *server) deleteAfter(object client.Object) {
	s.t.Cleanup(func() { s.must(client.IgnoreNotFound(s.admin.Delete(context.Background(), object))) })
}

// get reads an object by its name.
func (s *server) get(object client.Object) {
	s.t.Helper()
	s.must(s.admin.Get(s.t.Context(), client.ObjectKeyFromObject(object), object))
}

// wantGone fails the test if an object is there.
func (s *server) wantGone(object client.Object) {
	s.t.Helper()
	if err := s.admin.Get(s.t.Context(), client.ObjectKeyFromObject(object), object); !apierrors.IsNotFound(err) {
		s.t.Errorf("want %s gone, got %v", object.GetName(), err)
	}
}

// wantRefused fails the test unless an answer blames the client, with a 4xx, and has all of the texts.
func (s *server) wantRefused(err error, texts ...string) {
	s.t.Helper()
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Code < 400 || status.Status().Code > 499 {
		s.t.Errorf("want a 4xx, got %v", err)
		return
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			s.t.Errorf("want a refusal with %q, got %.2000s", text, err)
		}
	}
}

// want fails the test unless an answer is a refusal with the texts; without texts, unless it is an acceptance.
func (s *server) want(err error, texts ...string) {
	s.t.Helper()
	if len(texts) == 0 {
		s.must(err)
		return
	}
	s.wantRefused(err, texts...)
}

// warnings returns what the API server warns of while f runs, which must succeed.
func (s *server) warnings(f func() error) []string {
	s.t.Helper()
	s.warned.take()
	s.must(f())
	return s.warned.take()
}

// wantWarnings fails the test unless the API server warns of the lines, in any order, and of nothing else while f runs.
func (s *server) wantWarnings(f func() error, lines ...string) {
	s.t.Helper()
	got := s.warnings(f)
	slices.Sort(got)
	slices.Sort(lines)
	if diff := cmp.Diff(lines, got); diff != "" {
		s.t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

// wantWarning fails the test unless the API server warns of a line, maybe among others, while f runs.
func (s *server) wantWarning(f func() error, line string) {
	s.t.Helper()
	if got := s.warnings(f); !slices.Contains(got, line) {
		s.t.Errorf("want the warning %q, got %q", line, got)
	}
}

// eventually waits until is returns true.
func (s *server) eventually(what string, is func() bool) {
	s.t.Helper()
	look := func(context.Context) (bool, error) { return is(), nil }
	if err := wait.PollUntilContextTimeout(s.t.Context(), lookEvery, patience, true, look); err != nil {
		s.t.Fatalf("waiting until %s: %v", what, err)
	}
}

// stays fails the test if is returns false within a time.
func (s *server) stays(what string, within time.Duration, is func() bool) {
	s.t.Helper()
	look := func(context.Context) (bool, error) { return !is(), nil }
	if wait.PollUntilContextTimeout(s.t.Context(), lookEvery, within, true, look) == nil {
		s.t.Fatalf("no longer: %s", what)
	}
}

// warnings collects what the API server warns a client of.
type warnings struct {
	mu    sync.Mutex
	lines []string
}

// HandleWarningHeaderWithContext implements rest.WarningHandlerWithContext.
func (w *warnings) HandleWarningHeaderWithContext(_ context.Context, _ int, _ string, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, text)
}

// take returns the warnings since it was called last.
func (w *warnings) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines := w.lines
	w.lines = nil
	return lines
}
