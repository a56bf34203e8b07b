// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// takesPorts gives a pod so many host ports, from a first one on.
func takesPorts(first, n int) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for i := range n {
			p.Spec.Containers[0].Ports = append(p.Spec.Containers[0].Ports, corev1.ContainerPort{HostPort: int32(first + i)})
		}
	}
}

// onePerHostOf gives a pod so many rules that keep pods with the same rule off its host.
func onePerHostOf(first, n int) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		onePerHost(p)
		anti := p.Spec.Affinity.PodAntiAffinity
		anti.RequiredDuringSchedulingIgnoredDuringExecution = nil
		for i := range n {
			key := "rule-" + strconv.Itoa(first+i)
			p.Labels[key] = "x"
			anti.RequiredDuringSchedulingIgnoredDuringExecution = append(anti.RequiredDuringSchedulingIgnoredDuringExecution, corev1.PodAffinityTerm{
				TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{key: "x"}},
			})
		}
	}
}

// requests gives a pod so many kinds of resources.
func requests(n int) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for i := range n {
			p.Spec.Containers[0].Resources.Requests[corev1.ResourceName("example.com/r-"+strconv.Itoa(i))] = amounts{"x": "1"}.list()["x"]
		}
	}
}

// busyNodes makes a cluster of nodes each with a pod, and returns how much is compared for a pod of a shape to be counted, bound and removed there.
func busyNodes(nodes int, there, asking func(*corev1.Pod)) uint64 {
	c := NewCluster()
	for i := range nodes {
		name := "n" + strconv.Itoa(i)
		c.SetNode(makeNode(name, at("a", "1"), amounts{gpu: "8"}))
		c.SetPod(makePod("there-"+name, name, nil, there))
	}
	s := ShapeOf(makePod("asks", "", nil, asking))
	fit(c, zoneRack, s)
	c.Why("n0", s)
	for _, name := range []string{"n0", "n1"} {
		pod := makePod("asks", name, nil, asking)
		c.SetPod(pod)
		fit(c, zoneRack, s)
	}
	c.DeletePod("ns/asks")
	fit(c, zoneRack, s)
	return c.Work()
}

// Twice as long lists cost twice as much, whatever other pods of the same nodes have.
func TestLongListsCostLinearly(t *testing.T) {
	for name, pods := range map[string]func(n int) (there, asking func(*corev1.Pod)){
		"host ports":    func(n int) (_, _ func(*corev1.Pod)) { return takesPorts(1, n), takesPorts(30_000, n) },
		"one per host":  func(n int) (_, _ func(*corev1.Pod)) { return onePerHostOf(0, n), onePerHostOf(n, n) },
		"resources":     func(n int) (_, _ func(*corev1.Pod)) { return requests(n), requests(n) },
		"ports of one":  func(n int) (_, _ func(*corev1.Pod)) { return takesPorts(1, n), takesPorts(30_000, 1) },
		"ports of none": func(n int) (_, _ func(*corev1.Pod)) { return takesPorts(1, n), func(*corev1.Pod) {} },
	} {
		t.Run(name, func(t *testing.T) {
			compared := func(n int) uint64 {
				there, asking := pods(n)
				return busyNodes(10, there, asking)
			}
			if short, long := compared(400), compared(1600); long > 5*short {
				t.Errorf("%d comparisons for lists of 400, %d for lists of 1,600", short, long)
			}
		})
	}
}

// Ports conflict as the kube-scheduler has it, whatever pods came and went on the node.
func TestPortsConflictLikeTheScheduler(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		port := rapid.Custom(func(t *rapid.T) hostPort {
			return hostPort{
				rapid.SampledFrom([]string{"TCP", "UDP"}).Draw(t, "protocol"),
				rapid.SampledFrom([]string{anyAddress, "10.0.0.1", "10.0.0.2"}).Draw(t, "ip"), int32(rapid.IntRange(1, 3).Draw(t, "port")),
			}
		})
		conflict := func(a, b hostPort) bool {
			return a.port == b.port && a.protocol == b.protocol && (a.ip == b.ip || a.ip == anyAddress || b.ip == anyAddress)
		}
		set := portSet{}
		var taken []hostPort
		for range rapid.IntRange(0, 12).Draw(t, "steps") {
			if p := port.Draw(t, "port"); len(taken) > 0 && rapid.Bool().Draw(t, "remove") {
				set.add(taken[0], -1)
				taken = taken[1:]
			} else {
				set.add(p, 1)
				taken = append(taken, p)
			}
			asked := port.Draw(t, "asked")
			want := slices.ContainsFunc(taken, func(p hostPort) bool { return conflict(p, asked) })
			if got := set.conflicts(asked); got != want {
				t.Fatalf("%v beside %v: conflicts %v, want %v", asked, taken, got, want)
			}
		}
		for _, p := range taken {
			set.add(p, -1)
		}
		if len(set) > 0 {
			t.Fatalf("ports are left of nobody: %v", set)
		}
	})
}

// BenchmarkHostPorts counts and binds a pod with many host ports on 100 nodes whose pods have as many others.
func BenchmarkHostPorts(b *testing.B) {
	for _, n := range []int{0, 500, 5000} {
		b.Run(fmt.Sprintf("ports=%d", n), func(b *testing.B) {
			for b.Loop() {
				work := busyNodes(100, takesPorts(1, n), takesPorts(30_000, n))
				b.ReportMetric(float64(work), "comparisons")
			}
		})
	}
}
