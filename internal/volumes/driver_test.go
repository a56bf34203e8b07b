// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package volumes_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
	"github.com/trellis-k8s/trellis/internal/volumes"
)

// csiDriver is the driver, with preventPodSchedulingIfMissing.
func csiDriver(required *bool) *storagev1.CSIDriver {
	return &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driver},
		Spec: storagev1.CSIDriverSpec{PreventPodSchedulingIfMissing: required}}
}

// on are CSINodes of hosts with a driver that attaches any number of volumes.
func on(of string, hosts ...string) (list []any) {
	for _, host := range hosts {
		list = append(list, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: host},
			Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: of, NodeID: host}}}})
	}
	return list
}

// A CSIDriver with preventPodSchedulingIfMissing keeps pods with its volumes off nodes whose CSINode does not list the driver.
func TestMissingDriver(t *testing.T) {
	const missing = "CSI driver csi.example.com not installed"
	required := csiDriver(ptr.To(true))
	bound := []any{claim("models", "", boundTo("v")), pv("v", "", "")}
	wait := class("wait", driver, true)
	for name, tc := range map[string]struct {
		objects []any
		partial bool
		pods    []*corev1.Pod
		want    []string
		why     string
	}{
		"a bound volume":            {objects: append(on(driver, "b-2"), bound[0], bound[1], required), pods: pods(1, "1", "models"), want: []string{"b-2"}},
		"a volume to be made":       {objects: append(on(driver, "b-2"), claim("models", "wait"), wait, required), pods: pods(1, "1", "models"), want: []string{"b-2"}},
		"volumes of their own":      {objects: append(on(driver, "a-2", "b-2"), wait, required), pods: withOwn(pods(2, "4"), "wait"), want: []string{"a-2", "b-2"}},
		"more pods than such nodes": {objects: append(on(driver, "b-2"), bound[0], bound[1], required), pods: pods(2, "4", "models"), why: "3 hosts " + missing},
		"another driver on a node":  {objects: append(on("other.example.com", "a-1"), bound[0], bound[1], required), pods: pods(1, "1", "models"), why: "4 hosts " + missing},
		"not required":              {objects: append(on(driver, "b-2"), bound[0], bound[1], csiDriver(ptr.To(false))), pods: pods(1, "1", "models"), want: []string{"a-1"}},
		"not stated":                {objects: append(on(driver, "b-2"), bound[0], bound[1], csiDriver(nil)), pods: pods(1, "1", "models"), want: []string{"a-1"}},
		"no CSIDriver":              {objects: append(on(driver, "b-2"), bound...), pods: pods(1, "1", "models"), want: []string{"a-1"}},
		"CSINodes that are not all known": {partial: true, objects: append(on("other.example.com", "a-1"), bound[0], bound[1], required),
			pods: pods(1, "1", "models"), want: []string{"a-2"}},
	} {
		t.Run(name, func(t *testing.T) {
			store := volumes.NewStore()
			store.Partial = tc.partial
			for _, o := range tc.objects {
				store.Set(o)
			}
			c := topology.NewCluster()
			c.Binders = []topology.Binder{store}
			for _, n := range nodes() {
				c.SetNode(n)
			}
			r := placement.PlanGraph(c, graphOf(tc.pods), placement.Options{}).Replicas[0]
			switch {
			case tc.why != "":
				if r.Refusal == nil || !strings.Contains(r.Refusal.Message(), tc.why) {
					t.Fatalf("not refused for %q: %v, %+v", tc.why, r.Pods, r.Refusal)
				}
			case r.Refusal != nil:
				t.Fatal("refused: " + r.Refusal.Message())
			default:
				var got []string
				for _, p := range r.Pods {
					got = append(got, p.Node)
				}
				if slices.Sort(got); !slices.Equal(got, tc.want) {
					t.Errorf("planned on %v, want %v", got, tc.want)
				}
			}
		})
	}
}

// A driver that is installed on a node, or that begins to be required, changes the next answer.
func TestMissingDriverChanges(t *testing.T) {
	store, plan := planner()
	for _, o := range []any{claim("models", "", boundTo("v")), pv("v", "", "")} {
		store.Set(o)
	}
	got := []string{plan()}
	store.Set(csiDriver(ptr.To(true)))
	got = append(got, plan())
	store.Set(on(driver, "b-1")[0])
	got = append(got, plan())
	store.Delete(csiDriver(nil))
	got = append(got, plan())
	if want := []string{"a-1", "refused", "b-1", "a-1"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
