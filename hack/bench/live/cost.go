// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/procfs"
	"k8s.io/client-go/kubernetes"
)

// Cost is the cost of a measurement, per gang.
type Cost struct {
	// Programs is the CPU time by program, in milliseconds. The benchmark itself is "client".
	Programs map[string]float64
	// Writes is the number of write requests to the API server, by resource and verb: "pods/binding POST".
	Writes map[string]float64
}

// add returns the sum of c and other.
func (c Cost) add(other Cost) Cost {
	sum := Cost{Programs: map[string]float64{}, Writes: map[string]float64{}}
	for _, one := range []Cost{c, other} {
		for name, value := range one.Programs {
			sum.Programs[name] += value
		}
		for name, value := range one.Writes {
			sum.Writes[name] += value
		}
	}
	return sum
}

// times returns c with all figures multiplied.
func (c Cost) times(factor float64) Cost {
	product := Cost{}.add(c)
	for _, figures := range []map[string]float64{product.Programs, product.Writes} {
		for name := range figures {
			figures[name] *= factor
		}
	}
	return product
}

// String lists programs with at least one millisecond and writes with at least one per ten gangs, the largest first.
func (c Cost) String() string {
	all := 0.0
	for _, ms := range c.Programs {
		all += ms
	}
	return fmt.Sprintf("%.0f ms (%s); writes: %s", all, largest(c.Programs, 1, 0), largest(c.Writes, 0.1, 1))
}

// Took lists only the CPU time of programs with at least a tenth of a millisecond.
func (c Cost) Took() string { return "CPU in ms: " + largest(c.Programs, 0.1, 1) }

// largest lists the figures that are at least least.
func largest(figures map[string]float64, least float64, digits int) string {
	names := slices.SortedFunc(maps.Keys(figures), func(a, b string) int {
		return cmp.Or(cmp.Compare(figures[b], figures[a]), cmp.Compare(a, b))
	})
	var parts []string
	for _, name := range names {
		if figures[name] >= least {
			parts = append(parts, fmt.Sprintf("%s %.*f", name, digits, figures[name]))
		}
	}
	return strings.Join(parts, ", ")
}

// ForgetCosts discards the costs of all rounds so far.
func (c *Cluster) ForgetCosts() { c.costs = nil }

// Cost returns the cost of a gang, as the mean of the rounds in which a way was measured.
func (c *Cluster) Cost(way Way) Cost {
	rounds := c.costs[way.Name]
	sum := Cost{}
	for _, one := range rounds {
		sum = sum.add(one)
	}
	return sum.times(1 / math.Max(1, float64(len(rounds))))
}

// costSoFar returns the CPU time of all programs, and the write requests to the API server, since their start.
func (c *Cluster) costSoFar(ctx context.Context) (Cost, error) {
	writes, err := c.requested(ctx)
	return Cost{Programs: c.programs(), Writes: writes}, err
}

// programs sums up the CPU time of the sandbox's processes, and of this process. It is empty if the kernel does not provide it (not Linux).
func (c *Cluster) programs() map[string]float64 {
	used := map[string]float64{}
	all, err := procfs.AllProcs()
	if err != nil {
		return used // no information
	}
	for _, one := range all {
		name := ""
		if one.PID == os.Getpid() {
			name = "client"
		} else if environment, err := one.Environ(); err == nil && slices.ContainsFunc(environment, c.ofSandbox) {
			line, err := one.CmdLine()
			if err != nil || len(line) == 0 {
				continue // the process has just ended
			}
			name = filepath.Base(line[0])
		}
		if name == "" {
			continue
		}
		if stat, err := one.Stat(); err == nil {
			used[name] += 1000 * stat.CPUTime()
		}
	}
	return used
}

// ofSandbox reports whether a process belongs to the sandbox: the sandbox puts its directory into the environment of its processes.
func (c *Cluster) ofSandbox(entry string) bool { return strings.HasSuffix(entry, "="+c.box.Dir()) }

// requested counts the write requests to the API server, including failed ones.
func (c *Cluster) requested(ctx context.Context) (map[string]float64, error) {
	config, err := c.box.RESTConfig()
	if err != nil {
		return nil, err
	}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	text, err := clients.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the metrics of the API server: %w", err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("the metrics of the API server: %w", err)
	}
	return writesIn(families["apiserver_request_total"]), nil
}

// writesIn sums up a counter of requests by resource, subresource and verb. Leases are left out, because they are renewed whatever is
// deployed.
func writesIn(family *dto.MetricFamily) map[string]float64 {
	writes := map[string]float64{}
	for _, m := range family.GetMetric() {
		labels := map[string]string{}
		for _, l := range m.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		switch labels["verb"] {
		case "POST", "PUT", "PATCH", "APPLY", "DELETE":
		default:
			continue
		}
		if labels["resource"] == "" || labels["resource"] == "leases" || labels["resource"] == "nodes" {
			continue
		}
		name := labels["resource"]
		if labels["subresource"] != "" {
			name += "/" + labels["subresource"]
		}
		writes[name+" "+labels["verb"]] += m.GetCounter().GetValue()
	}
	return writes
}

// spent records a way's cost of a round, which began at before.
func (c *Cluster) spent(ctx context.Context, way Way, gangs int, before Cost) error {
	after, err := c.costSoFar(ctx)
	if err != nil {
		return err
	}
	if c.costs == nil {
		c.costs = map[string][]Cost{}
	}
	c.costs[way.Name] = append(c.costs[way.Name], after.add(before.times(-1)).times(1/float64(gangs)))
	return nil
}
