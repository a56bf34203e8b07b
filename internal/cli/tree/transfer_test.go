// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/trellis-k8s/trellis/internal/cli/text"
)

// split has prefill and decode replicas that belong into the same racks.
const split = `
apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeployment
metadata: {name: split, namespace: team-a}
spec:
  topologyConstraint: {topologyProfile: hall, packDomain: zone}
  experimental: {kvTransferPolicy: {clusterTopologyName: hall, domain: rack, enforcement: required}}
  services:
    Prefill:
      componentType: worker
      subComponentType: prefill
      replicas: 2
      resources: {limits: {gpu: "8"}}
      extraPodSpec: {mainContainer: {image: app}}
    Decode:
      componentType: worker
      subComponentType: decode
      replicas: 2
      resources: {limits: {gpu: "8"}}
      extraPodSpec: {mainContainer: {image: app}}
`

// TestTransfer: both roles are counted by domain, by the labels of nodes.
func TestTransfer(t *testing.T) {
	w := newWorld(t, 1, 2, 3)
	w.addGraph(split, "split-prefill-0 a-0-0\nsplit-prefill-1 a-0-1\nsplit-decode-0 a-0-2\nsplit-decode-1 a-1-0")
	w.addGraph(plain, "plain-worker-0 a-1-1")
	r := Build(w.scene())
	at := slices.IndexFunc(r.Graphs, func(d Deployment) bool { return d.Name == "split" })
	want := &Transfer{
		Level: "rack", Required: true, Prefill: 2, PrefillPaired: 2, Decode: 2, DecodePaired: 1,
		Domains: []TransferIn{{"zone-a/r0", 2, 1}, {"zone-a/r1", 0, 1}},
	}
	if diff := cmp.Diff(want, r.Graphs[at].Transfer, cmpopts.IgnoreUnexported(Transfer{})); diff != "" {
		t.Errorf("transfer:\n%s", diff)
	}
	if other := r.Graphs[1-at]; other.Transfer != nil {
		t.Errorf("%s has %+v", other.Name, other.Transfer)
	}
	drawn := r.Text(text.Page{})
	for _, part := range []string{
		"prefill alongside decode in each rack",
		"1 of 2 decode replicas have prefill in their rack, 2 of 2 prefill replicas have decode",
		"RACK PREFILL DECODE zone-a/r0 2 1 zone-a/r1 0 1",
	} {
		if !strings.Contains(strings.Join(strings.Fields(drawn), " "), part) {
			t.Errorf("%q is missing in\n%s", part, drawn)
		}
	}
}
