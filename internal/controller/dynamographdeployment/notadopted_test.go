// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Placed says that something is being created only while nothing keeps it from that.
func TestPlacedPromisesNothing(t *testing.T) {
	quota := &groupFailure{errors.New("creating ScalingGroup g-work: exceeded quota")}
	creating := gang.Waiting{Component: "work", Ordinal: 1, Code: gang.CodeCreating, Message: gang.BeingCreated}
	needs := &placement.Refusal{
		Code: placement.CodeInsufficientCapacity, LevelName: "rack",
		Need: []placement.Need{{Pods: 2, Requests: []topology.Request{{Name: "nvidia.com/gpu", Amount: 8}}}},
	}
	reserved := gang.Waiting{Component: "work", Ordinal: 1, Code: needs.Code, Message: needs.Message(), Refusal: needs}
	reserved.Noted("2 hosts in z/a are reserved for it until 03:11 UTC")
	refused := func(o *observed) {
		o.groups["work"].Status.Conditions = []metav1.Condition{{Type: trellisv1alpha1.ConditionPodsInSync, Status: metav1.ConditionFalse, Message: "exceeded quota: pods"}}
	}
	for name, c := range map[string]struct {
		result          gang.Result
		change          func(*observed)
		failure         error
		reason, message string
	}{
		"groups are created": {
			gang.Result{Creating: true}, nil, errors.New("creating Service g-work: no"), gang.CodeCreating, "the scaling groups are being created",
		},
		"a group is refused": {
			gang.Result{Creating: true}, nil, errors.Join(errors.New("creating Service g-work: no"), quota), nvidiav1beta1.ReasonCreationRefused,
			"scaling groups cannot be created: creating ScalingGroup g-work: exceeded quota",
		},
		"groups of an earlier deployment": {
			gang.Result{Creating: true}, nil, errors.Join(&groupFailure{&leftover{"ScalingGroup g-work"}}), gang.CodeCreating,
			"the scaling groups are created when those of an earlier deployment of this name are gone",
		},
		"pods are created": {
			gang.Result{Wanted: 2, Placed: 1, Waiting: []gang.Waiting{creating}}, nil, nil, gang.CodeCreating, "1 of 2 packed replicas are placed. work-1: its pods are being created",
		},
		"pods are refused": {
			gang.Result{Wanted: 2, Placed: 1, Waiting: []gang.Waiting{creating}}, refused, nil, nvidiav1beta1.ReasonCreationRefused,
			"1 of 2 packed replicas are placed. work-1: its pods cannot be created: exceeded quota: pods",
		},
		"others wait for those that are refused": {
			gang.Result{Wanted: 2, Waiting: []gang.Waiting{{Component: "front", Code: gang.CodeCreating, Message: gang.BeingCreated}, creating}}, refused, nil, nvidiav1beta1.ReasonCreationRefused,
			"0 of 2 packed replicas are placed. work-1: its pods cannot be created: exceeded quota: pods; 1 more waits",
		},
		"hosts are reserved": {
			gang.Result{Wanted: 2, Placed: 1, Waiting: []gang.Waiting{reserved}}, nil, nil, placement.CodeInsufficientCapacity,
			"1 of 2 packed replicas are placed. work-1: needs 2 pods x 8 nvidia.com/gpu in one rack; 2 hosts in z/a are reserved for it until 03:11 UTC",
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := fine()
			if o.result = c.result; c.change != nil {
				c.change(&o)
			}
			got := meta.FindStatusCondition(statusOf(o, resolved, nil, c.failure).Conditions, nvidiav1beta1.ConditionPlaced)
			if got == nil || got.Status != metav1.ConditionFalse || got.Reason != c.reason || got.Message != c.message {
				t.Errorf("got %+v, want %s: %s", got, c.reason, c.message)
			}
			if last := len(c.result.Waiting) - 1; last >= 0 && o.result.Waiting[last] != c.result.Waiting[last] {
				t.Error("what the scheduler said was changed")
			}
		})
	}
}

// As many orphans are named as fit, scaling groups first, each whole, and the others are counted.
func TestOrphansCondition(t *testing.T) {
	o := fine()
	o.dgd.Namespace = strings.Repeat("n", 63)
	if c := orphansCondition(o); c != nil {
		t.Errorf("no orphans, and %+v", c)
	}
	var orphans []client.Object
	for i := range 40 {
		for _, kind := range []string{"Service", "ScalingGroup", "Ingress"} {
			object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%02d", strings.Repeat("x", 60), i)}}
			object.SetGroupVersionKind(trellisv1alpha1.GroupVersion.WithKind(kind))
			if kind == "Service" {
				object.APIVersion = "v1"
			}
			orphans = append(orphans, object)
		}
	}
	o.notAdopted = notAdopted(orphans, &render.Graph{}, errors.Join(errors.New("no"), &groupFailure{orphanOf(orphans[1], strings.Repeat("long ", 300))}))
	got := orphansCondition(o).message
	if len(got) > limit.Condition || !strings.HasPrefix(got, "objects of an earlier deployment of this name have no owner and are not adopted (1: long ") {
		t.Errorf("%d bytes: %s", len(got), got)
	}
	_, command, _ := strings.Cut(got, "kubectl delete -n "+o.dgd.Namespace)
	command, more, _ := strings.Cut(command, "; ")
	names := strings.Fields(command)
	if len(names) < 3 || more != fmt.Sprintf("%d more are named when these are gone", 121-len(names)) {
		t.Errorf("%d are named, and %q", len(names), more)
	}
	for _, name := range names {
		if len(name) != len("scalinggroups.trellis.dev/")+63 || !strings.HasPrefix(name, "scalinggroups.trellis.dev/") {
			t.Errorf("%q is no scaling group, or not whole", name)
		}
	}
	last := o.notAdopted[len(o.notAdopted)-1]
	if last.resource() != "services/"+last.name {
		t.Errorf("the last is %s", last.resource())
	}
}

func TestWhyNotAdopted(t *testing.T) {
	group := func(change func(*trellisv1alpha1.ScalingGroupSpec)) *trellisv1alpha1.ScalingGroup {
		sg := fine().groups["work"].DeepCopy()
		change(&sg.Spec)
		return sg
	}
	for want, change := range map[string]func(*trellisv1alpha1.ScalingGroupSpec){
		"":          func(s *trellisv1alpha1.ScalingGroupSpec) { s.Replicas, s.Revision, s.Provider = 7, "other", "KAI" },
		whyNoChild:  func(s *trellisv1alpha1.ScalingGroupSpec) { s.Component = "WORK" },
		whyShape:    func(s *trellisv1alpha1.ScalingGroupSpec) { s.Multinode = true },
		whyTopology: func(s *trellisv1alpha1.ScalingGroupSpec) { s.Topology.Levels[0].Key = "other" },
	} {
		if got := whyNotAdopted(fine().groups["work"], group(change)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := whyNotAdopted(group(func(s *trellisv1alpha1.ScalingGroupSpec) { s.Topology = nil }), fine().groups["work"]); got != whyTopology {
		t.Errorf("a constraint that is wanted no longer: %q", got)
	}
}
