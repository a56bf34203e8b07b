// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package assignment

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Freed hosts are read as they were written, and are within their size. A change of any field is a change of the record.
func TestFreedHosts(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	with := func(edit func(*Freed)) *Record {
		f := &Freed{
			Hosts: []string{"a0", "a1"}, Domain: topology.Path{"z", "a"}, Until: at.Add(500 * time.Millisecond), Replicas: 2, GPUs: 8, MaxGPUs: 16,
			Graphs: []types.NamespacedName{{Namespace: "ns", Name: "g1"}, {Namespace: "ns", Name: "g2"}},
		}
		edit(f)
		return &Record{Freed: f}
	}
	same := func(*Freed) {}
	spec := with(same).Encode("uid")
	again := Decode(&spec)
	want := *with(same).Freed
	want.Until = at
	if diff := cmp.Diff(&want, again.Freed); diff != "" {
		t.Errorf("read again (-want +got):\n%s", diff)
	}
	if !again.Equal(with(same)) || !again.Clone().Equal(again) {
		t.Error("a record differs from itself")
	}
	raw, err := json.Marshal(spec.Freed)
	if err != nil || len(raw) > with(same).Freed.bytes() {
		t.Errorf("%d bytes, at most %d were expected: %v", len(raw), with(same).Freed.bytes(), err)
	}
	if full, none := with(same).Room(), (&Record{}).Room(); none-full != with(same).Freed.bytes() {
		t.Errorf("they take %d bytes of the record", none-full)
	}
	for name, edit := range map[string]func(*Freed){
		"hosts":    func(f *Freed) { f.Hosts = f.Hosts[:1] },
		"domain":   func(f *Freed) { f.Domain = f.Domain[:1] },
		"until":    func(f *Freed) { f.Until = f.Until.Add(time.Second) },
		"replicas": func(f *Freed) { f.Replicas-- },
		"GPUs":     func(f *Freed) { f.GPUs-- },
		"maxGPUs":  func(f *Freed) { f.MaxGPUs = 0 },
		"graphs":   func(f *Freed) { f.Graphs = f.Graphs[1:] },
	} {
		if other := with(edit); other.Equal(again) || again.Equal(other) {
			t.Errorf("a change of %s is none", name)
		}
	}
	if none := (&Record{}); none.Equal(again) || again.Equal(none) {
		t.Error("a record without freed hosts is equal")
	}
	spec = trellisv1alpha1.GraphPlacementSpec{Freed: &trellisv1alpha1.FreedHosts{Replicas: 1}}
	if got := Decode(&spec).Freed; got != nil {
		t.Errorf("without hosts: %v", got)
	}
}
