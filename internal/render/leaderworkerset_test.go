// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/test/testutil/hub"
)

func TestGroupOf(t *testing.T) {
	labelled := map[string]string{LabelScalingGroup: "g", LabelGroupUID: "label"}
	cases := map[string]struct {
		owner  string
		labels map[string]string
		uid    types.UID
	}{
		"our own":                                    {"ScalingGroup", nil, "owner"},
		"our own, whatever its labels say":           {"ScalingGroup", labelled, "owner"},
		"of a LeaderWorkerSet's StatefulSet":         {"StatefulSet", labelled, "label"},
		"of another StatefulSet":                     {"StatefulSet", map[string]string{LabelScalingGroup: "g"}, ""},
		"of a namespace that is not managed":         {"StatefulSet", map[string]string{LabelGroupUID: "label"}, ""},
		"a copy by hand, with labels and all":        {"", labelled, ""},
		"a copy in a Deployment, labels and all":     {"ReplicaSet", labelled, ""},
		"somebody else's":                            {"", nil, ""},
		"of a StatefulSet and without any label":     {"StatefulSet", nil, ""},
		"of a DaemonSet, which never is one of ours": {"DaemonSet", labelled, ""},
	}
	for name, c := range cases {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: c.labels}}
		if c.owner != "" {
			pod.OwnerReferences = []metav1.OwnerReference{{Kind: c.owner, Name: "g", UID: "owner", Controller: ptr.To(true)}}
		}
		group, uid, ok := GroupOf(pod)
		if ok != (c.uid != "") || uid != c.uid && ok || ok && group != "g" {
			t.Errorf("%s: %q %q %v, want %q", name, group, uid, ok, c.uid)
		}
		sg := &trellisv1alpha1.ScalingGroup{ObjectMeta: metav1.ObjectMeta{UID: c.uid}}
		if Member(pod, sg) != ok {
			t.Errorf("%s: member %v", name, !ok)
		}
	}
}

func TestChooseWorkload(t *testing.T) {
	for annotation, want := range map[string]string{"": "", specs.Pods: "", specs.LeaderWorkerSet: specs.LeaderWorkerSet, "Jobs": "Jobs"} {
		dgd := &nvidiav1alpha1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{AnnotationWorkload: annotation}}}
		if got := ChooseWorkload(hub.Of(dgd)); got != want {
			t.Errorf("%q: %q, want %q", annotation, got, want)
		}
	}
}

// TestWorkloadIsOfMultinodeServices: pods of others are Trellis' own.
func TestWorkloadIsOfMultinodeServices(t *testing.T) {
	dgd := &nvidiav1alpha1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Name: "g", Namespace: "ns"}}
	dgd.Spec.Services = map[string]*nvidiav1alpha1.ServiceSpec{"One": {}, "Many": {Multinode: &nvidiav1alpha1.MultinodeSpec{NodeCount: 2}}}
	g, err := Resolve(hub.Of(dgd), Inputs{Provider: specs.Gates.Name, Workload: specs.LeaderWorkerSet})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][2]string{ // the first pod, and how an autoscaler finds one of each replica
		"One":  {"g-one-0", "nvidia.com/dynamo-graph-deployment-name=g,trellis.dev/scaling-group=g-one"},
		"Many": {"g-many-r0-0", "nvidia.com/dynamo-graph-deployment-name=g,trellis.dev/role=leader,trellis.dev/scaling-group=g-many"},
	}
	for _, sg := range g.ScalingGroups() {
		pod := BuildPod(sg, 0, 0)
		if got := [2]string{pod.Name, OnePodPerReplica(sg)}; got != want[sg.Spec.Component] {
			t.Errorf("%s: %q", sg.Spec.Component, got)
		}
		if ordinal, index, ok := ReplicaOf(pod); !ok || ordinal != 0 || index != 0 {
			t.Errorf("%s: reads as %d %d %v", sg.Spec.Component, ordinal, index, ok)
		}
	}
}

// TestHeadlessServices: pods have their DNS names from a Service of ours only where they are ours.
func TestHeadlessServices(t *testing.T) {
	for of, want := range map[[2]string]bool{
		{specs.Gates.Name}: true, {specs.PodGroup.Name}: true, {specs.KAI.Name}: true, {specs.Grove.Name}: false, {specs.Gates.Name, specs.LeaderWorkerSet}: false,
	} {
		dgd := &nvidiav1alpha1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Name: "g", Namespace: "ns"}}
		dgd.Spec.Services = map[string]*nvidiav1alpha1.ServiceSpec{"Many": {Multinode: &nvidiav1alpha1.MultinodeSpec{NodeCount: 2}}}
		g, err := Resolve(hub.Of(dgd), Inputs{Provider: of[0], Workload: of[1]})
		if err != nil {
			t.Fatal(err)
		}
		if made := len(g.KubernetesServices()) == 2; made != want {
			t.Errorf("%+v: made is %v", of, made)
		}
	}
}
