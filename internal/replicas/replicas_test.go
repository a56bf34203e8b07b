// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

// deployment is g of one component decode, with so many replicas, with an adapter or without.
func deployment(withAdapter bool, replicas int32) *nvidiav1beta1.DynamoGraphDeployment {
	decode := nvidiav1beta1.ComponentSpec{Name: "Decode", Replicas: &replicas}
	if withAdapter {
		decode.ScalingAdapter = &nvidiav1beta1.ScalingAdapter{}
	}
	return &nvidiav1beta1.DynamoGraphDeployment{
		ObjectMeta: metav1.ObjectMeta{Name: "g", UID: "1"},
		Spec:       nvidiav1beta1.DynamoGraphDeploymentSpec{Components: []nvidiav1beta1.ComponentSpec{decode}},
	}
}

// adapterOf is the adapter that Trellis makes for it.
func adapterOf(dgd *nvidiav1beta1.DynamoGraphDeployment, replicas int32) nvidiav1beta1.DynamoGraphDeploymentScalingAdapter {
	return nvidiav1beta1.DynamoGraphDeploymentScalingAdapter{
		ObjectMeta: metav1.ObjectMeta{Name: "g-decode", OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(dgd, nvidiav1beta1.GroupVersion.WithKind("DynamoGraphDeployment")),
		}},
		Spec: nvidiav1beta1.DynamoGraphDeploymentScalingAdapterSpec{
			Replicas: replicas, DGDRef: nvidiav1beta1.ScaledComponent{Name: "g", ComponentName: "Decode"},
		},
	}
}

func TestOneOwner(t *testing.T) {
	type adapter = nvidiav1beta1.DynamoGraphDeploymentScalingAdapter
	cases := map[string]struct {
		withAdapter bool
		deployment  int32
		adapter     int32
		change      func(*nvidiav1beta1.DynamoGraphDeployment, *adapter)
		has         map[string]int32
		wantCarried map[string]int32
		wantRefused string
		wantActedOn int32
	}{
		"both agree":                             {withAdapter: true, deployment: 2, adapter: 2, has: map[string]int32{"Decode": 2}, wantActedOn: 2},
		"the adapter was scaled":                 {withAdapter: true, deployment: 2, adapter: 5, has: map[string]int32{"Decode": 2}, wantCarried: map[string]int32{"Decode": 5}, wantActedOn: 2},
		"the deployment was overwritten":         {withAdapter: true, deployment: 2, adapter: 5, has: map[string]int32{"Decode": 5}, wantCarried: map[string]int32{"Decode": 5}, wantActedOn: 5},
		"scaled before anything was made":        {withAdapter: true, deployment: 2, adapter: 5, wantCarried: map[string]int32{"Decode": 5}, wantActedOn: 2},
		"to zero":                                {withAdapter: true, deployment: 2, adapter: 0, has: map[string]int32{"Decode": 2}, wantCarried: map[string]int32{"Decode": 0}, wantActedOn: 2},
		"from zero":                              {withAdapter: true, deployment: 0, adapter: 3, has: map[string]int32{"Decode": 0}, wantCarried: map[string]int32{"Decode": 3}, wantActedOn: 0},
		"switched off, the adapter not yet gone": {deployment: 2, adapter: 5, has: map[string]int32{"Decode": 5}, wantActedOn: 2},
		"the adapter is being deleted": {
			withAdapter: true, deployment: 2, adapter: 5, wantActedOn: 2,
			change: func(_ *nvidiav1beta1.DynamoGraphDeployment, a *adapter) { a.DeletionTimestamp = &metav1.Time{} },
		},
		"the adapter of an earlier deployment of this name": {
			withAdapter: true, deployment: 2, adapter: 5, wantActedOn: 2,
			change: func(dgd *nvidiav1beta1.DynamoGraphDeployment, _ *adapter) { dgd.UID = "2" },
		},
		"an adapter of another name": {
			withAdapter: true, deployment: 2, adapter: 5, wantActedOn: 2,
			change: func(_ *nvidiav1beta1.DynamoGraphDeployment, a *adapter) { a.Name = "mine" },
		},
		"more than the service may have": {
			withAdapter: true, deployment: 1, adapter: 3, has: map[string]int32{"Decode": 1}, wantActedOn: 1, wantRefused: "must have exactly 1 replica",
			change: func(dgd *nvidiav1beta1.DynamoGraphDeployment, _ *adapter) {
				dgd.Component("Decode").Type = "epp"
			},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dgd := deployment(c.withAdapter, c.deployment)
			a := adapterOf(dgd, c.adapter)
			if c.change != nil {
				c.change(dgd, &a)
			}
			before := dgd.DeepCopy()
			adapters := []adapter{a}
			carried, refused := ToCarry(dgd, adapters, 0)
			if c.wantCarried == nil {
				c.wantCarried = map[string]int32{}
			}
			if diff := cmp.Diff(c.wantCarried, carried); diff != "" {
				t.Errorf("carried (-want +got):\n%s", diff)
			}
			if got := refused["Decode"]; !strings.Contains(got, c.wantRefused) || c.wantRefused == "" && got != "" {
				t.Errorf("refused with %q, want %q", got, c.wantRefused)
			}
			if got := Of(Settled(dgd, adapters, c.has).Component("Decode")); got != c.wantActedOn {
				t.Errorf("acted on %d replicas, want %d", got, c.wantActedOn)
			}
			if diff := cmp.Diff(before, dgd); diff != "" {
				t.Errorf("the deployment itself was changed:\n%s", diff)
			}
		})
	}
}

// Users, autoscalers and two controllers with news that may be late act in any order, with no webhook there to help. No pod is made or
// deleted for a number that the owner of the day has not given, and in the end everybody shows the owner's number.
func TestNobodyButTheOwnerMovesReplicas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dgd := deployment(true, 2)
		a := adapterOf(dgd, 2)
		adapters := []nvidiav1beta1.DynamoGraphDeploymentScalingAdapter{a}
		group := int32(2)
		given := map[int32]bool{2: true} // by the adapter
		number := rapid.Int32Range(0, 6)
		carry := func(*rapid.T) {
			carried, _ := ToCarry(dgd, adapters, 0)
			for name, n := range carried {
				dgd.Component(name).Replicas = &n
			}
		}
		act := func(t *rapid.T) {
			group = Of(Settled(dgd, adapters, map[string]int32{"Decode": group}).Component("Decode"))
			if !given[group] {
				t.Fatalf("the group was given %d replicas, which no autoscaler asked for", group)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"autoscaler": func(t *rapid.T) {
				adapters[0].Spec.Replicas = number.Draw(t, "replicas")
				given[adapters[0].Spec.Replicas] = true
			},
			"overwrite": func(t *rapid.T) {
				n := number.Draw(t, "replicas")
				dgd.Component("Decode").Replicas = &n
			},
			"carry": carry,
			"act":   act,
		})
		carry(t)
		act(t)
		if last := adapters[0].Spec.Replicas; group != last || Of(dgd.Component("Decode")) != last {
			t.Fatalf("the adapter says %d, the deployment %d, the group %d", last, Of(dgd.Component("Decode")), group)
		}
	})
}

func TestAdapterName(t *testing.T) {
	long := strings.Repeat("n", 253)
	cases := map[string]struct{ dgd, component, want string }{
		"camel case":         {"sglang-agg", "VllmDecodeWorker", "sglang-agg-vllmdecodeworker"},
		"a dot stays":        {"g", "Decode.v2", "g-decode.v2"},
		"63 and 63 fit":      {long[:63], strings.Repeat("S", 63), long[:63] + "-" + strings.Repeat("s", 63)},
		"too long is hashed": {long, "Decode", long[:244] + "-"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := AdapterName(c.dgd, c.component)
			if got != c.want && (len(got) != 253 || !strings.HasPrefix(got, c.want)) {
				t.Errorf("got %q (%d), want %q", got, len(got), c.want)
			}
		})
	}
	if AdapterName(long, "A") == AdapterName(long, "B") {
		t.Error("two services share a shortened name")
	}
}

// Of two adapters the one that scales in is carried first, and one that would exceed the limit is refused with the numbers.
func TestAdaptersWithinTheLimit(t *testing.T) {
	dgd := deployment(true, 40)
	dgd.Spec.Components = append(dgd.Spec.Components, nvidiav1beta1.ComponentSpec{Name: "Prefill", Replicas: ptr.To[int32](50), ScalingAdapter: &nvidiav1beta1.ScalingAdapter{}})
	prefill := func(n int32) nvidiav1beta1.DynamoGraphDeploymentScalingAdapter {
		a := adapterOf(dgd, n)
		a.Name, a.Spec.DGDRef.ComponentName = "g-prefill", "Prefill"
		return a
	}
	for name, c := range map[string]struct {
		decode, prefill int32
		carried         map[string]int32
		refused         string
	}{
		"both fit":               {50, 50, map[string]int32{"Decode": 50}, ""},
		"capacity is made first": {90, 10, map[string]int32{"Decode": 90, "Prefill": 10}, ""},
		"one does not fit":       {60, 51, map[string]int32{"Prefill": 51}, "Decode: spec.replicas: Invalid value: 60: the graph asks for 110 pods"},
		"more than the API does": {65537, 50, map[string]int32{}, "Decode: spec.replicas: Invalid value: 65537: must be at most 65536"},
	} {
		t.Run(name, func(t *testing.T) {
			carried, refused := ToCarry(dgd, []nvidiav1beta1.DynamoGraphDeploymentScalingAdapter{adapterOf(dgd, c.decode), prefill(c.prefill)}, 100)
			if diff := cmp.Diff(c.carried, carried); diff != "" {
				t.Errorf("carried (-want +got):\n%s", diff)
			}
			said := ""
			for component, why := range refused {
				said += component + ": " + why
			}
			if !strings.HasPrefix(said, c.refused) || (said == "") != (c.refused == "") {
				t.Errorf("refused %q, want %q", said, c.refused)
			}
		})
	}
}
