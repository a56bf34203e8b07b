// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package claims_test

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/trellis-k8s/trellis/internal/claims"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// TestMain keeps runs short; TRELLIS_CHECKS=1000 go test runs more.
func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("rapid.checks"); f != nil && f.Value.String() == f.DefValue {
		if err := f.Value.Set(cmp.Or(os.Getenv("TRELLIS_CHECKS"), "40")); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// drawObject draws a state of one of a few objects.
func drawObject(t *rapid.T) any {
	host := rapid.SampledFrom([]string{"a-1", "b-1"}).Draw(t, "host")
	switch rapid.IntRange(0, 5).Draw(t, "kind") {
	case 0:
		return class("gpu", rapid.SampledFrom([]string{`device.driver == "` + driver + `"`, "false"}).Draw(t, "takes"))
	case 1:
		return template("some", asks("gpu", int64(rapid.IntRange(1, 3).Draw(t, "count"))))
	case 2:
		s := slice(host, make([]string, rapid.IntRange(0, 3).Draw(t, "devices"))...)
		s.Spec.Pool.Generation = int64(rapid.IntRange(1, 2).Draw(t, "generation"))
		s.Name += fmt.Sprint(rapid.IntRange(0, 1).Draw(t, "slice"))
		return s
	case 3:
		c := claim(rapid.SampledFrom([]string{"theirs", "others"}).Draw(t, "claim"), asks("gpu", 1))
		if rapid.Bool().Draw(t, "has") {
			has(c, host, fmt.Sprintf("gpu-%d", rapid.IntRange(0, 2).Draw(t, "device")))
		}
		return c
	case 4:
		r := &resourcev1.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "broken"}}
		r.Spec.DeviceSelector = &resourcev1.DeviceTaintSelector{Pool: ptr.To(host)}
		r.Spec.Taint = resourcev1.DeviceTaint{Key: "broken", Effect: resourcev1.DeviceTaintEffectNoSchedule}
		return r
	}
	if rapid.Bool().Draw(t, "of a zone") {
		return networkOf(host[:1], rapid.IntRange(1, 2).Draw(t, "nics"))
	}
	return network("n", rapid.IntRange(1, 2).Draw(t, "nics"))
}

// TestStoreChanges: a store that followed changes answers as one that is filled with what is left.
func TestStoreChanges(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		followed, left := storeOf(), map[string]any{}
		c := clusterOf(followed)
		for i := range rapid.IntRange(1, 12).Draw(rt, "changes") {
			o := drawObject(rt)
			name := fmt.Sprintf("%T %s", o, o.(metav1.Object).GetName())
			if rapid.IntRange(0, 3).Draw(rt, "goes") == 0 {
				followed.Delete(o)
				delete(left, name)
			} else {
				followed.Set(o)
				left[name] = o
			}
			if i%3 == 0 { // an answer that is kept must not outlive what it is about
				answerOf(c)
			}
		}
		fresh := storeOf()
		for _, o := range left {
			fresh.Set(o)
		}
		if got, want := answerOf(c), answerOf(clusterOf(fresh)); got != want {
			rt.Fatalf("after changes: %s\nfrom scratch: %s", got, want)
		}
	})
}

// answerOf is where three pods go, or why they do not.
func answerOf(c *topology.Cluster) (text string) {
	c.Begin()
	defer c.Rollback()
	r := placement.PlanGraph(c, graphOf(none, pods(3, "x", "some")...), placement.Options{}).Replicas[0]
	if r.Refusal != nil {
		return r.Refusal.Message()
	}
	for _, p := range r.Pods {
		text += p.Node + " "
	}
	return text
}

// Hosts with like devices are asked about once, although each device has a UUID, and the next plan asks about none.
func TestAskedOnce(t *testing.T) {
	s, c := hall(128)
	before := s.Asked()
	for range 2 {
		c.Begin()
		placement.PlanGraph(c, graphOf(0, pods(16, "x", "four")...), placement.Options{})
		c.Rollback()
		if asked := s.Asked() - before; asked > 40 {
			t.Fatalf("the allocator was asked %d times about two kinds of hosts", asked)
		}
	}
	s.Set(template("four", asks("gpu", 4, `device.attributes["gpu.example.com"].uuid != ""`)))
	before = s.Asked()
	placement.PlanGraph(c, graphOf(0, pods(16, "x", "four")...), placement.Options{})
	if asked := s.Asked() - before; asked < 128 {
		t.Errorf("the allocator was asked %d times about 128 hosts that differ", asked)
	}
}

// A claim that is recreated under its name is counted by what it asks for now.
func TestClaimIsRecreated(t *testing.T) {
	s := storeOf(gpus(), slice("a-1", "h", "h", "h"), claim("shared", asks("gpu", 4)))
	c := clusterOf(s, slice("a-1", "h", "h", "h"))
	planned := func() *placement.Refusal {
		c.Begin()
		defer c.Rollback()
		return placement.PlanGraph(c, graphOf(topology.NoLevel, pods(1, "x", "@shared")...), placement.Options{}).Replicas[0].Refusal
	}
	if planned() == nil {
		t.Fatal("a host of three devices holds a claim of four")
	}
	again := claim("shared", asks("gpu", 3))
	again.UID = "2"
	s.Set(again)
	if r := planned(); r != nil {
		t.Errorf("a claim of three is refused: %s", r.Message())
	}
}

// A refusal names the pods' own template, also when the answer was found for pods of another one that asks for the same.
func TestNamesOwnTemplate(t *testing.T) {
	for name, tc := range map[string]struct {
		spec resourcev1.ResourceClaimSpec
		want string
	}{
		"too few devices":   {asks("gpu", 4), "4 hosts resource claim of template %s: 3 of 4 devices of class gpu free"},
		"no answer":         {asks("gpu", 1, `device.attributes["none"].x`), "resource claim of template %[1]s: claim ns/%[1]s: selector #0 on device"},
		"too few of a kind": {asks("gpu", 3, `device.attributes["gpu.example.com"].side == 0`), "4 hosts resource claim of template %s: 2 of 3 devices of class gpu free"},
	} {
		t.Run(name, func(t *testing.T) {
			s := storeOf(append(everywhere(3), gpus(), template("theirs", tc.spec), template("mine", tc.spec))...)
			c := clusterOf(s)
			for _, of := range []string{"theirs", "mine"} {
				asked := s.Asked()
				r := placement.PlanGraph(c, graphOf(none, pods(1, "x", of)...), placement.Options{}).Replicas[0]
				if want := fmt.Sprintf(tc.want, of); r.Refusal == nil || !strings.Contains(r.Refusal.Message(), want) {
					t.Errorf("%+v, want %q", r.Refusal.Message(), want)
				}
				if of == "mine" && s.Asked() > asked {
					t.Errorf("asked again")
				}
			}
		})
	}
}

// slow takes too long for every claim.
type slow struct{ asked int }

// Cost implements claims.Allocator.
func (s *slow) Cost(string) uint64 { return 1 }

// Allocate implements claims.Allocator.
func (s *slow) Allocate(claims.Question) ([]resourcev1.AllocationResult, error) {
	s.asked++
	return nil, claims.ErrTooLong
}

// An allocation that takes too long keeps pods off, and is not tried on every host, nor in every plan, until the devices change.
func TestTooLong(t *testing.T) {
	s := storeOf(gpus(), template("four", asks("gpu", 4)), slice("a-1", "h"), slice("a-2", "h", "h"), slice("b-1", "h", "h", "h"))
	slow := &slow{}
	s.Allocator = slow
	c := clusterOf(s)
	for _, want := range []int{2, 2, 4} {
		if want > 2 {
			s.Set(slice("b-2", "h", "h", "h", "h"))
		}
		r := placement.PlanGraph(c, graphOf(none, pods(1, "x", "four")...), placement.Options{}).Replicas[0]
		if r.Refusal == nil || !strings.Contains(r.Refusal.Message(), "4 hosts resource claim of template four: allocating them takes too long") {
			t.Errorf("not refused for that: %+v", r.Refusal)
		}
		if slow.asked > want {
			t.Errorf("asked %d times, want at most %d", slow.asked, want)
		}
	}
}

// What keeps claims from being counted is named.
func TestUncounted(t *testing.T) {
	beyond := slice("a-1", "h")
	beyond.Spec.Devices[0].Attributes["list"] = resourcev1.DeviceAttribute{StringValues: []string{"a"}}
	derived := changed(asks("gpu", 1), func(e *resourcev1.ExactDeviceRequest) {
		e.DerivedAttributes = []resourcev1.DeviceDerivedAttribute{{Name: "x/y", Expression: "1"}}
	})
	for name, tc := range map[string]struct {
		objects []any
		change  func(*claims.Store)
		pod     *corev1.Pod
		want    string
	}{
		"no claims":             {pod: pods(1, "x")[0], change: func(s *claims.Store) { s.Allocator = nil }},
		"counted":               {objects: []any{gpus(), template("some", asks("gpu", 1))}, pod: pods(1, "x", "some")[0]},
		"no allocator":          {pod: pods(1, "x", "some")[0], change: func(s *claims.Store) { s.Allocator = nil }, want: "they, their classes or devices are not known"},
		"nothing is known":      {pod: pods(1, "x", "some")[0], change: func(s *claims.Store) { s.Partial = true }, want: "they, their classes or devices are not known"},
		"the template is not":   {objects: []any{slice("a-1", "h")}, pod: pods(1, "x", "some")[0], change: func(s *claims.Store) { s.Partial = true }, want: "resource claim template some, or a device class of it, is not known"},
		"the class is not":      {objects: []any{slice("a-1", "h"), claim("mine", asks("gpu", 1))}, pod: pods(1, "x", "@mine")[0], change: func(s *claims.Store) { s.Partial = true }, want: "resource claim mine, or a device class of it, is not known"},
		"it does not exist":     {objects: []any{slice("a-1", "h")}, pod: pods(1, "x", "some")[0]},
		"a slice is beyond it":  {objects: []any{beyond}, pod: pods(1, "x", "some")[0], want: "ResourceSlice a-1-gpu.example.com has attributes that are lists"},
		"the request is beyond": {objects: []any{gpus(), template("some", derived)}, pod: pods(1, "x", "some")[0], want: "some has derived attributes"},
	} {
		t.Run(name, func(t *testing.T) {
			s := storeOf(tc.objects...)
			if tc.change != nil {
				tc.change(s)
			}
			if got := s.Uncounted(tc.pod); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}
