// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/kubernetes"
)

// spent is the CPU time of the sandbox's programs since their start, and the write requests to the API server, by resource and verb.
type spent struct {
	cpu    map[string]time.Duration
	writes map[string]int64
}

// spentSoFar reads all processes of the sandbox. They have its directory in their environment.
func spentSoFar(ctx context.Context) spent {
	GinkgoHelper()
	s := spent{cpu: map[string]time.Duration{}, writes: writesSoFar(ctx)}
	all, err := filepath.Glob("/proc/[0-9]*")
	Expect(err).NotTo(HaveOccurred())
	for _, process := range all {
		environment, _ := os.ReadFile(filepath.Join(process, "environ"))
		line, _ := os.ReadFile(filepath.Join(process, "cmdline"))
		if program, _, _ := strings.Cut(string(line), "\x00"); program != "" && strings.Contains(string(environment), "="+cluster.Dir()+"\x00") {
			s.cpu[filepath.Base(program)] += cpuOf(process)
		}
	}
	return s
}

// cpuOf returns the CPU time of a process: the kernel counts it in hundredths of a second, in the 14th and 15th fields.
func cpuOf(process string) time.Duration {
	stat, _ := os.ReadFile(filepath.Join(process, "stat"))
	_, rest, _ := strings.Cut(string(stat), ") ") // the 2nd field is a name
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0 // the process has just ended
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond
}

var (
	writeCounter = regexp.MustCompile(`(?m)^apiserver_request_total\{([^}]*verb="(APPLY|POST|PUT|PATCH|DELETE)"[^}]*)\} (\S+)$`)
	ofResource   = regexp.MustCompile(`resource="([^"]*)"`)
	subresource  = regexp.MustCompile(`subresource="([^"]+)"`)
)

// writesSoFar returns the number of write requests to the API server. Leases and nodes are left out, because they are renewed whatever is
// deployed.
func writesSoFar(ctx context.Context) map[string]int64 {
	GinkgoHelper()
	config, err := cluster.RESTConfig()
	Expect(err).NotTo(HaveOccurred())
	clients, err := kubernetes.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	text, err := clients.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	Expect(err).NotTo(HaveOccurred())
	writes := map[string]int64{}
	for _, m := range writeCounter.FindAllStringSubmatch(string(text), -1) {
		resource := ofResource.FindStringSubmatch(m[1])
		if resource == nil || resource[1] == "leases" || resource[1] == "nodes" {
			continue
		}
		what := resource[1]
		if sub := subresource.FindStringSubmatch(m[1]); sub != nil {
			what += "/" + sub[1]
		}
		n, err := strconv.ParseFloat(m[3], 64)
		Expect(err).NotTo(HaveOccurred())
		writes[what+" "+m[2]] += int64(n)
	}
	return writes
}

// since returns the difference to an earlier measurement.
func (s spent) since(before spent) spent {
	out := spent{cpu: map[string]time.Duration{}, writes: map[string]int64{}}
	for what, n := range s.writes {
		out.writes[what] = n - before.writes[what]
	}
	for name, cpu := range s.cpu {
		out.cpu[name] = cpu - before.cpu[name]
	}
	return out
}

// all returns the CPU time of all programs together.
func (s spent) all() (sum time.Duration) {
	for _, cpu := range s.cpu {
		sum += cpu
	}
	return sum
}

// String lists the CPU time and the writes per gang, the largest first.
func (s spent) String() string {
	var programs, requests []string
	for _, name := range mostFirst(s.cpu) {
		if ms := s.cpu[name].Milliseconds() / costGangs; ms > 0 {
			programs = append(programs, fmt.Sprintf("%s %d", name, ms))
		}
	}
	all := int64(0)
	for _, what := range mostFirst(s.writes) {
		all += s.writes[what]
		if s.writes[what] > 0 {
			requests = append(requests, fmt.Sprintf("%s %.1f", what, float64(s.writes[what])/costGangs))
		}
	}
	return fmt.Sprintf("for each gang %d ms of CPU (%s) and %.1f writes (%s)", s.all().Milliseconds()/costGangs, strings.Join(programs, ", "),
		float64(all)/costGangs, strings.Join(requests, ", "))
}

// mostFirst returns the keys in the order of their values, the largest first.
func mostFirst[N cmp.Ordered](of map[string]N) []string {
	return slices.SortedFunc(maps.Keys(of), func(a, b string) int { return cmp.Or(cmp.Compare(of[b], of[a]), cmp.Compare(a, b)) })
}
