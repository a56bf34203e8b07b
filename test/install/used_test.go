// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"maps"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/trellis-k8s/trellis/test/rights"
)

// notRecorded are rights that no recorded suite makes use of, and why they are there nevertheless.
var notRecorded = map[string]string{
	// An earlier deployment of the same name left it, or the picker's configuration is removed: a race, or a cluster with the inference extension.
	"/configmaps delete": "configuration of an endpoint picker that is not wanted any more",
	"inference.networking.k8s.io/inferencepools delete": "a pool that an earlier deployment of the same name left",
	// Scenarios make fewer generations than are kept.
	"apps/controllerrevisions delete":          "the sixth generation of a deployment",
	"resource.nvidia.com/computedomains patch": "a domain whose labels were changed",
	// The operator ended between making a group and releasing its pods.
	"scheduling.k8s.io/podgroups get":            "a group that is there already",
	"scheduling.k8s.io/compositepodgroups get":   "the parent of a group that is there already",
	"scheduling.k8s.io/compositepodgroups patch": "the parent's minGroupCount, which another client changed in the meantime",
	// API servers with the admission plugin OwnerReferencesPermissionEnforcement ask for these, for blockOwnerDeletion in what the operator makes.
	"nvidia.com/dynamographdeployments/finalizers update": "an owner reference to a deployment",
	"trellis.dev/scalinggroups/finalizers update":         "an owner reference to a scaling group",
	// An event that recurs within minutes is patched.
	"trellis-system: /events patch": "an event about the lease",
}

// The operator has the rights that suites make use of, and no other. Package rights compares the requests of each suite with its list.
func TestEveryRightIsUsed(t *testing.T) {
	shipped, err := rights.Shipped()
	if err != nil || len(shipped) < 100 {
		t.Fatal(len(shipped), err)
	}
	used, err := rights.Used("")
	if err != nil {
		t.Fatal(err)
	}
	have := sets.New[string]()
	for _, right := range shipped {
		have.Insert(right.String())
	}
	for _, right := range sets.List(have) {
		if _, excepted := notRecorded[right]; excepted == used.Has(right) {
			t.Errorf("%s: used %t, excepted %t", right, used.Has(right), excepted)
		}
	}
	if unknown := used.Union(sets.New(slices.Collect(maps.Keys(notRecorded))...)).Difference(have); len(unknown) > 0 {
		t.Errorf("no rights of the operator: %q", sets.List(unknown))
	}
}
