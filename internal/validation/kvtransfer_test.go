// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/test/testutil/hub"
)

type policy = nvidiav1beta1.KVTransferPolicy

// transferring is a deployment with a policy; none for nil.
func transferring(p *policy) *nvidiav1beta1.DynamoGraphDeployment {
	dgd := hub.Of(newGraph(withImages))
	if p != nil {
		dgd.Spec.Experimental = &nvidiav1beta1.GraphExperimental{KVTransferPolicy: p}
	}
	return dgd
}

func TestTransferRules(t *testing.T) {
	const at = "spec.experimental.kvTransferPolicy"
	for name, c := range map[string]struct {
		policy policy
		want   []string
	}{
		"by key":      {policy: policy{LabelKey: "topology.kubernetes.io/zone", Domain: "zone"}},
		"by topology": {policy: policy{ClusterTopologyName: "gb200", Domain: "rack", Enforcement: "preferred", PreferredWeight: ptr.To(0.0)}},
		"neither": {policy{Domain: "zone"},
			[]string{at + ": Invalid value: exactly one of labelKey or clusterTopologyName is required; keep one"}},
		"both": {policy{LabelKey: "a", ClusterTopologyName: "gb200", Domain: "zone"},
			[]string{at + ": Invalid value: exactly one of labelKey or clusterTopologyName is required; keep one"}},
		"no key": {policy{LabelKey: "a/b/c", Domain: "zone"},
			[]string{at + `.labelKey: Invalid value: "a/b/c": not a node label key: a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')`}},
		"no domain": {policy{LabelKey: "a"},
			[]string{at + `.domain: Invalid value: "": name the level, e.g. rack; must match ^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`}},
		"enforcement": {policy{LabelKey: "a", Domain: "zone", Enforcement: "often"},
			[]string{at + `.enforcement: Unsupported value: "often": supported values: "preferred", "required"`}},
		"preferred without weight": {policy{LabelKey: "a", Domain: "zone", Enforcement: "preferred"},
			[]string{at + `.preferredWeight: Required value: preferredWeight is required when enforcement is preferred; set it from 0 to 1`}},
		"weight without preferred": {policy{LabelKey: "a", Domain: "zone", PreferredWeight: ptr.To(0.5)},
			[]string{at + `.preferredWeight: Forbidden: preferredWeight may only be set when enforcement is preferred; remove it, or set the enforcement`}},
		"weight": {policy{LabelKey: "a", Domain: "zone", Enforcement: "preferred", PreferredWeight: ptr.To(1.5)},
			[]string{at + `.preferredWeight: Invalid value: 1.5: must be from 0 to 1`}},
	} {
		if diff := cmp.Diff(c.want, texts(GraphCreate(FromHub(transferring(&c.policy))))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestTransferPolicyNeverChanges(t *testing.T) {
	refused := []string{"spec.experimental.kvTransferPolicy: Forbidden: is immutable and cannot be added, removed, or changed after creation; " +
		"delete and recreate the DynamoGraphDeployment to change the KV transfer policy"}
	a := &policy{LabelKey: "a", Domain: "zone"}
	for name, c := range map[string]struct {
		old, updated *policy
		want         []string
	}{
		"added":                   {nil, a, refused},
		"removed":                 {a, nil, refused},
		"changed":                 {a, &policy{LabelKey: "b", Domain: "zone"}, refused},
		"the default written out": {a, &policy{LabelKey: "a", Domain: "zone", Enforcement: "required"}, nil},
	} {
		if diff := cmp.Diff(c.want, texts(GraphUpdate(FromHub(transferring(c.updated)), FromHub(transferring(c.old))))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestTransferTopology(t *testing.T) {
	named := &policy{ClusterTopologyName: "gb200", Domain: "rack"}
	ct := &grovev1alpha1.ClusterTopology{Spec: grovev1alpha1.ClusterTopologySpec{Levels: []grovev1alpha1.TopologyLevel{{Domain: "zone"}, {Domain: "rack"}}}}
	ct.Name = "gb200"
	const name = `spec.experimental.kvTransferPolicy.clusterTopologyName: `
	for what, c := range map[string]struct {
		policy   *policy
		topology *grovev1alpha1.ClusterTopology
		want     []string
	}{
		"none":      {},
		"by key":    {policy: &policy{LabelKey: "a", Domain: "x"}},
		"there":     {policy: named, topology: ct},
		"not there": {policy: named, want: []string{name + `Not found: "gb200": ClusterTopology not found, nor a ClusterTopologyBinding of that name; ask a cluster admin to create it, or name one that exists (kubectl get clustertopologies)`}},
		"without domain": {policy: &policy{ClusterTopologyName: "gb200", Domain: "x"}, topology: ct, want: []string{
			`spec.experimental.kvTransferPolicy.domain: Not found: "x": domain "x" does not exist in ClusterTopology "gb200"; available domains: [zone, rack]`}},
	} {
		if diff := cmp.Diff(c.want, texts(TransferTopology(transferring(c.policy), c.topology))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
}
