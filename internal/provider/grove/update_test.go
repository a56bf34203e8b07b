// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package grove_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/grove"
	"github.com/trellis-k8s/trellis/test/testutil/providertest"
)

// written is a set as it was last written, and looked at by Grove, alongside the groups as they are wanted.
type written struct {
	g   grove.Input
	pcs *grove.PodCliqueSet
}

func (w *written) write(generation int64) {
	w.pcs = grove.Render(w.g, grove.Schema{Shape: grove.ShapePack})
	w.pcs.Generation, w.pcs.Status.ObservedGeneration = generation, ptr.To(generation)
}

func (w *written) restart(id string) {
	for _, sg := range w.g.Groups {
		sg.Spec.Restart = &trellisv1alpha1.Restart{ID: id}
	}
}

// TestCurrent: Grove counts by a service's template as it is wanted once the set has it and Grove has looked at the set.
func TestCurrent(t *testing.T) {
	cases := map[string]struct {
		change     func(w *written)
		deep, flat bool
	}{
		"looked at":                   {func(*written) {}, true, true},
		"never looked at":             {func(w *written) { w.pcs.Status.ObservedGeneration = nil }, false, false},
		"changed since":               {func(w *written) { w.pcs.Generation++ }, false, false},
		"another revision wanted":     {func(w *written) { w.g.Groups[0].Spec.Revision = "next" }, false, true},
		"it is written":               {func(w *written) { w.g.Groups[0].Spec.Revision = "next"; w.write(2) }, true, true},
		"a restart wanted":            {func(w *written) { w.g.Groups[1].Spec.Restart = &trellisv1alpha1.Restart{ID: "one"} }, true, false},
		"a restart written":           {func(w *written) { w.restart("one"); w.write(2) }, true, true},
		"the next restart":            {func(w *written) { w.restart("one"); w.write(2); w.restart("two") }, false, false},
		"one of its cliques is amiss": {func(w *written) { w.pcs.Spec.Template.Cliques = w.pcs.Spec.Template.Cliques[1:] }, false, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dgd := providertest.Deployment(t, `
metadata: {name: g, namespace: ns}
spec:
  services:
    Deep: {componentType: worker, multinode: {nodeCount: 2}}
    Flat: {componentType: worker}`)
			w := &written{g: providertest.Grove(t, dgd)}
			w.write(1)
			c.change(w)
			if deep, flat := grove.Current(w.g, w.g.Groups[0], w.pcs), grove.Current(w.g, w.g.Groups[1], w.pcs); deep != c.deep || flat != c.flat {
				t.Errorf("Deep %v, Flat %v; want %v, %v", deep, flat, c.deep, c.flat)
			}
		})
	}
}

// TestUpdated: an update is over when it has an end, under whichever name this Grove reports it.
func TestUpdated(t *testing.T) {
	running, ended := &grove.UpdateProgress{}, &grove.UpdateProgress{UpdateEndedAt: &metav1.Time{}}
	for name, c := range map[string]struct {
		status grove.PodCliqueSetStatus
		want   bool
	}{
		"never updated":     {grove.PodCliqueSetStatus{}, true},
		"on its way":        {grove.PodCliqueSetStatus{UpdateProgress: running}, false},
		"over":              {grove.PodCliqueSetStatus{UpdateProgress: ended}, true},
		"older, on its way": {grove.PodCliqueSetStatus{RollingUpdateProgress: running}, false},
		"older, over":       {grove.PodCliqueSetStatus{RollingUpdateProgress: ended}, true},
	} {
		if got := grove.Updated(&grove.PodCliqueSet{Status: c.status}); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
