// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/graph"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/test/testutil/apiserver"
)

// A service that lists little leaves its share of the space to the others.
func TestSpaceForPlacesIsShared(t *testing.T) {
	of := func(name string, replicas, length int) service {
		sg := &trellisv1alpha1.ScalingGroup{}
		for n := range replicas {
			sg.Status.Placements = append(sg.Status.Placements, trellisv1alpha1.ReplicaPlacement{Replica: int32(n), Domain: strings.Repeat("l", length), Bound: true})
		}
		return service{name: name, group: sg}
	}
	got := placesOf([]service{of("large", 64, 8000), of("small", 1, 10), of("larger", 64, 9000), {name: "none"}})
	total := 0
	for _, p := range got {
		total += gang.SizeOfPlacements(p.listed)
	}
	if large, larger := len(got["large"].listed), len(got["larger"].listed); len(got["small"].listed) != 1 || large < 15 || larger < 13 || total > placementBytes {
		t.Errorf("%d, %d and %d are listed in %d bytes", len(got["small"].listed), large, larger, total)
	}
}

// components are as many as a deployment may have.
const components = 25

// A deployment with the most components, each with more replicas than are listed, in domains with the longest paths: its status is stored, and a
// condition says what it leaves out. With short paths all is there.
func TestStatusAtTheMaximum(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := nvidiav1beta1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	env := &envtest.Environment{CRDDirectoryPaths: []string{filepath.Join("..", "..", "..", "config", "crd", "bases")}, ErrorIfCRDPathMissing: true}
	apiserver.Start(t, env)
	c, err := client.New(env.Config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	for name, domain := range map[string]string{
		"short":   "zone/rack",
		"longest": strings.Join(slices.Repeat([]string{strings.Repeat("l", 63)}, 16), "/"),
	} {
		t.Run(name, func(t *testing.T) {
			dgd := &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
			o := observed{groups: map[string]*trellisv1alpha1.ScalingGroup{}, result: gang.Result{Wanted: 400 * components, Placed: 400 * components, Score: 1}, judged: true}
			o.provider = providerView{ProviderChoice: graph.ProviderChoice{Name: "Gates"}, state: provider.Ready()}
			wanted := &graph.Graph{}
			for i := range components {
				component := fmt.Sprintf("component-%d-%s", i, strings.Repeat("n", 40))
				dgd.Spec.Components = append(dgd.Spec.Components, nvidiav1beta1.ComponentSpec{Name: component, Type: nvidiav1beta1.ComponentTypeWorker, Replicas: ptr.To[int32](400)})
				wanted.Services = append(wanted.Services, graph.Service{Name: component})
				sg := &trellisv1alpha1.ScalingGroup{Spec: trellisv1alpha1.ScalingGroupSpec{Service: component, Replicas: 400}}
				for n := range int32(400) {
					sg.Status.Placements = append(sg.Status.Placements, trellisv1alpha1.ReplicaPlacement{Replica: n, Domain: domain, Bound: n%2 == 0})
				}
				o.groups[component] = sg
			}
			if err := c.Create(t.Context(), dgd); err != nil {
				t.Fatal(err)
			}
			o.dgd, o.settled = dgd, dgd
			status := statusOf(o, wanted, nil, nil)
			changed := dgd.DeepCopy()
			changed.Status = status
			if err := c.Status().Patch(t.Context(), changed, client.MergeFrom(dgd)); err != nil {
				t.Fatal(err)
			}
			stored := &nvidiav1beta1.DynamoGraphDeployment{}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(dgd), stored); err != nil {
				t.Fatal(err)
			}
			raw, err := json.Marshal(stored)
			if err != nil || len(raw) > 512<<10 {
				t.Errorf("%d bytes are stored: %v", len(raw), err)
			}
			condition := meta.FindStatusCondition(stored.Status.Conditions, nvidiav1beta1.ConditionPlacementsComplete)
			listed := map[string]int{"short": maxPlacements, "longest": 9}[name]
			if (condition == nil) != (listed == maxPlacements) || condition != nil && (condition.Status != metav1.ConditionFalse ||
				!strings.Contains(condition.Message, dgd.Spec.Components[0].Name+fmt.Sprintf(" lists %d of 64", listed))) {
				t.Errorf("the condition is %+v", condition)
			}
			if len(stored.Status.Components) != components {
				t.Errorf("%d components", len(stored.Status.Components))
			}
			for component, s := range stored.Status.Components {
				if n := len(s.Placements); n != listed && n != min(listed+1, maxPlacements) || s.Placements[0].Domain != domain || s.Placements[1].Replica != 2 {
					t.Errorf("%s lists %d places, want %d", component, len(s.Placements), listed)
				}
			}
			o.dgd = stored
			if again := statusOf(o, wanted, nil, nil); !equality.Semantic.DeepEqual(again, stored.Status) {
				t.Error("it would be written again")
			}
		})
	}
}
