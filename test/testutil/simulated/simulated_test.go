// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package simulated

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestShape(t *testing.T) {
	tests := map[string]struct {
		shape Shape
		want  Shape
		err   string
	}{
		"default":               {Shape{}, Shape{2, 2, 3, 4, 8}, ""},
		"one number":            {Shape{Zones: 5}, Shape{5, 2, 3, 4, 8}, ""},
		"no GPUs":               {Shape{GPUs: -1}, Shape{2, 2, 3, 4, 0}, ""},
		"negative":              {Shape{Racks: -1}, Shape{}, "racks: -1"},
		"too many":              {Shape{Zones: 100, Blocks: 100, Racks: 100}, Shape{}, "more than 100000 nodes"},
		"too many for integers": {Shape{Zones: 1 << 40}, Shape{}, "zones"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := tc.shape.Complete()
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("got %v, want an error with %q", err, tc.err)
				}
				return
			}
			if err != nil || got != tc.want {
				t.Errorf("got %+v (%v), want %+v", got, err, tc.want)
			}
		})
	}
}

func TestNodes(t *testing.T) {
	tests := map[string]struct {
		shape Shape
		names []string
		gpus  string
	}{
		"one of each":  {Shape{1, 1, 1, 1, 8}, []string{"zone-0-block-0-rack-0-host-0"}, "8"},
		"hosts":        {Shape{1, 1, 1, 2, 4}, []string{"zone-0-block-0-rack-0-host-0", "zone-0-block-0-rack-0-host-1"}, "4"},
		"without GPUs": {Shape{1, 1, 1, 1, 0}, []string{"zone-0-block-0-rack-0-host-0"}, "0"},
		"depth first":  {Shape{2, 1, 2, 1, 1}, []string{"zone-0-block-0-rack-0-host-0", "zone-0-block-0-rack-1-host-0", "zone-1-block-0-rack-0-host-0", "zone-1-block-0-rack-1-host-0"}, "1"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var names []string
			for _, n := range tc.shape.Nodes() {
				names = append(names, n.Name)
				if got := n.Status.Allocatable[GPU]; got.String() != tc.gpus {
					t.Errorf("%s has %s GPUs, want %s", n.Name, got.String(), tc.gpus)
				}
				// The name is the path of label values; a label value does not contain its parent's.
				if path := strings.Join([]string{n.Labels[ZoneKey], n.Labels[BlockKey], n.Labels[RackKey], "host"}, "-"); !strings.HasPrefix(n.Name, path) {
					t.Errorf("%s carries the labels of %s", n.Name, path)
				}
			}
			if diff := cmp.Diff(tc.names, names); diff != "" {
				t.Errorf("names (-want +got)\n%s", diff)
			}
		})
	}
	racks := map[string]bool{}
	for _, n := range DefaultShape.Nodes() {
		racks[n.Labels[RackKey]] = true
	}
	if len(racks) != DefaultShape.Racks {
		t.Errorf("%d rack values in 12 racks, want %d: they repeat on purpose", len(racks), DefaultShape.Racks)
	}
}
