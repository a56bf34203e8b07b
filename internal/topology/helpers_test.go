// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"flag"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestMain keeps property runs short; TRELLIS_CHECKS=10000 go test -count=1 runs the full number.
func TestMain(m *testing.M) {
	checks := os.Getenv("TRELLIS_CHECKS")
	if checks == "" {
		checks = "300"
	}
	flag.Parse()
	if f := flag.Lookup("rapid.checks"); f != nil && f.Value.String() == f.DefValue {
		if err := f.Value.Set(checks); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

const gpu = "nvidia.com/gpu"

var zoneRack = Levels{{"zone", "z"}, {"rack", "r"}}

// amounts are resources by name.
type amounts map[string]string

func (a amounts) list() corev1.ResourceList {
	list := corev1.ResourceList{}
	for name, value := range a {
		list[corev1.ResourceName(name)] = resource.MustParse(value)
	}
	return list
}

// makeNode makes a ready node with 110 pod slots.
func makeNode(name string, labels map[string]string, a amounts, change ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	n.Status.Allocatable = a.list()
	if _, set := a["pods"]; !set {
		n.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("110")
	}
	for _, f := range change {
		f(n)
	}
	return n
}

// makePod makes a pod with one container; node may be empty.
func makePod(name, node string, a amounts, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	p.Spec.NodeName = node
	p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: a.list()}}}
	for _, f := range change {
		f(p)
	}
	return p
}

func at(zone, rack string) map[string]string {
	labels := map[string]string{}
	if zone != "" {
		labels["z"] = zone
	}
	if rack != "" {
		labels["r"] = rack
	}
	return labels
}

// fit asks a cluster how many pods of a shape fit a path.
func fit(c *Cluster, levels Levels, s *Shape, path ...string) int {
	t := c.Tree(levels, nil)
	d, found := t.Find(path)
	if !found {
		return -1
	}
	return t.View(s).Fit(d)
}
