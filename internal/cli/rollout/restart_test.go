// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/whatif"
)

// A restart is requested only after a yes.
func TestConfirm(t *testing.T) {
	for answer, want := range map[string]error{
		"y\n": nil, "YES\n": nil, "y": nil, "\n": errNotConfirmed, "": errNotConfirmed, "no\n": errNotConfirmed, "yesterday\n": errNotConfirmed,
		strings.Repeat("y", 1<<20): errNotConfirmed,
	} {
		var out strings.Builder
		if err := confirm(strings.NewReader(answer), &out, "It stops."); !errors.Is(err, want) {
			t.Errorf("%.8q: %v, want %v", answer, err, want)
		}
		if got := out.String(); got != "It stops.\nRestart it? [y/N] " {
			t.Errorf("asked %q", got)
		}
	}
}

// The question tells what the restart does, and what a plan of now places after it.
func TestRestartQuestion(t *testing.T) {
	w := newWorld(t)
	for strategy, want := range map[nvidiav1beta1.RestartStrategyType]string{
		nvidiav1beta1.RestartStrategySequential: "The components of llm in team-a restart one after the other, as in a rolling update.",
		nvidiav1beta1.RestartStrategyParallel: "All pods of llm in team-a stop, and all start again when none is left. It does not serve meanwhile.\n" +
			"Planned now: zone-1 holds all 4 packed replicas.",
	} {
		if diff := cmp.Diff(want, restartQuestion(w.Graph, strategy, "Planned now: zone-1 holds all 4 packed replicas.")); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
	if got := expected(whatif.World{}, w.Graph); got != "" {
		t.Errorf("no replica is packed, and yet: %s", got)
	}
}

// unreadable fails every list with an error.
type unreadable struct {
	client.Reader
	err error
}

func (u unreadable) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return u.err
}

// TestExpectedWithoutTheCluster: the question gives the cause for which the cluster cannot be read.
func TestExpectedWithoutTheCluster(t *testing.T) {
	for cause, err := range map[string]error{
		"connection refused": errors.New("connection refused"),
		"you may not list":   apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", errors.New("no rule")),
	} {
		got := expectedOf(t.Context(), unreadable{err: err}, newWorld(t).Graph)
		if !strings.HasPrefix(got, "Where the pods would be placed is not known: ") || !strings.Contains(got, cause) {
			t.Errorf("%v: %s", err, got)
		}
	}
}

// The request is for this deployment only, and Parallel removes the order of a former request.
func TestRestartPatch(t *testing.T) {
	w := newWorld(t)
	w.Graph.UID = "one"
	for strategy, want := range map[nvidiav1beta1.RestartStrategyType]string{
		nvidiav1beta1.RestartStrategySequential: `{"metadata":{"uid":"one"},"spec":{"restart":{"id":"20260501T120000.000Z","strategy":{"type":"Sequential"}}}}`,
		nvidiav1beta1.RestartStrategyParallel:   `{"metadata":{"uid":"one"},"spec":{"restart":{"id":"20260501T120000.000Z","strategy":{"order":null,"type":"Parallel"}}}}`,
	} {
		got, err := restartPatch(w.Graph, restartID(noon), strategy)
		if err != nil || string(got) != want {
			t.Errorf("%s: %s (%v), want %s", strategy, got, err, want)
		}
	}
}
