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

// Cost is what a measurement took of the machine, for one gang.
type Cost struct {
	// Programs is the CPU time by program, in milliseconds. The benchmark itself is "client".
	Programs map[string]float64
	// Writes that the API server was asked for, by resource and verb: "pods/binding POST".
	Writes map[string]float64
}

// add is c and other together.
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

// times is c, with all figures multiplied.
func (c Cost) times(factor float64) Cost {
	product := Cost{}.add(c)
	for _, figures := range []map[string]float64{product.Programs, product.Writes} {
		for name := range figures {
			figures[name] *= factor
		}
	}
	return product
}

// String lists programs that took a millisecond or more and writes of which there was one for ten gangs or more, the largest first.
func (c Cost) String() string {
	all := 0.0
	for _, ms := range c.Programs {
		all += ms
	}
	return fmt.Sprintf("%.0f ms (%s); writes: %s", all, largest(c.Programs, 1, 0), largest(c.Writes, 0.1, 1))
}

// Took is the CPU time alone, of programs that took a tenth of a millisecond or more.
func (c Cost) Took() string { return "CPU in ms: " + largest(c.Programs, 0.1, 1) }

// largest lists the figures that are not below the least.
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

// ForgetCosts of all rounds so far.
func (c *Cluster) ForgetCosts() { c.costs = nil }

// Cost of a gang, as the mean of the rounds in which a way was measured.
func (c *Cluster) Cost(way Way) Cost {
	rounds := c.costs[way.Name]
	sum := Cost{}
	for _, one := range rounds {
		sum = sum.add(one)
	}
	return sum.times(1 / math.Max(1, float64(len(rounds))))
}

// costSoFar is what all programs took, and what the API server was asked for, since they were started.
func (c *Cluster) costSoFar(ctx context.Context) (Cost, error) {
	writes, err := c.requested(ctx)
	return Cost{Programs: c.programs(), Writes: writes}, err
}

// programs sums up the CPU time of the processes of the sandbox, and of this one. Where the kernel does not tell (not Linux), it is empty.
func (c *Cluster) programs() map[string]float64 {
	used := map[string]float64{}
	all, err := procfs.AllProcs()
	if err != nil {
		return used // nothing to go by
	}
	for _, one := range all {
		name := ""
		if one.PID == os.Getpid() {
			name = "client"
		} else if environment, err := one.Environ(); err == nil && slices.ContainsFunc(environment, c.ofSandbox) {
			line, err := one.CmdLine()
			if err != nil || len(line) == 0 {
				continue // it has just ended
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

// ofSandbox: the sandbox marks the environment of its processes with its directory.
func (c *Cluster) ofSandbox(entry string) bool { return strings.HasSuffix(entry, "="+c.box.Dir()) }

// requested counts the writes that the API server was asked for, whatever it answered.
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

// writesIn sums up a counter of requests by resource, subresource and verb. Leases are left out: they are renewed whatever is deployed.
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

// spent records for a way what a round took since before.
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
