// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package filters

import (
	"flag"
	"os"
	"testing"

	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"pgregory.net/rapid"

	"github.com/trellis-k8s/trellis/test/testutil/smallworld"
)

// TestMain keeps runs short; TRELLIS_CHECKS=2000 go test runs more checks.
func TestMain(m *testing.M) {
	metrics.Register() // the framework records metrics
	flag.Parse()
	if f := flag.Lookup("rapid.checks"); f != nil && f.Value.String() == f.DefValue {
		checks := os.Getenv("TRELLIS_CHECKS")
		if checks == "" {
			checks = "60"
		}
		if err := f.Value.Set(checks); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// TestAffinity draws required pod affinity and anti-affinity, and topology spread.
func TestAffinity(t *testing.T) { compare(t, smallworld.Draw) }

// TestVolumes draws volumes that pods use through claims.
func TestVolumes(t *testing.T) { compare(t, smallworld.DrawVolumes) }

// TestClaims draws devices that pods claim, or request as a resource that a DeviceClass serves.
func TestClaims(t *testing.T) { compare(t, smallworld.DrawClaims) }

// TestPartitions draws devices that are partitions of cards.
func TestPartitions(t *testing.T) { compare(t, smallworld.DrawPartitions) }

// TestRequests draws CPUs that pods request in init containers, in sidecars, as a unit and as overhead, and bound pods that are resized.
func TestRequests(t *testing.T) { compare(t, smallworld.DrawRequests) }

// TestFeatures draws features of the kubelet that only some nodes declare.
func TestFeatures(t *testing.T) { compare(t, smallworld.DrawFeatures) }

// TestMixed draws all of these, and ports and node affinity, in one world.
func TestMixed(t *testing.T) { compare(t, smallworld.DrawMixed(4, 4)) }

func compare(t *testing.T, draw func(*rapid.T) smallworld.World) {
	rapid.Check(t, func(rt *rapid.T) {
		w := draw(rt)
		w.Check(rt, newScheduler(t, w.Nodes, w.Devices, w.Objects()...))
	})
}
