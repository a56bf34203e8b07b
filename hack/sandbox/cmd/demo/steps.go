// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/test/testutil/simulated"
)

// lostLevel is the topology level that the demo removes.
const lostLevel = "rack"

// jsonpath output formats of conditions and events, one line each.
const (
	conditionsPath = `jsonpath={range .status.conditions[*]}{.type}={.status} {.message}{"\n"}{end}`
	placedPath     = `jsonpath={range .status.conditions[?(@.type=="Placed")]}{.reason}: {.message}{end}`
	eventsPath     = `jsonpath={range .items[*]}{.type} {.reason} {.involvedObject.name}: {.message}{"\n"}{end}`
)

func (d *demo) applyTopology(ctx context.Context) error {
	d.stage.say("A ClusterTopology maps the levels of the network to node labels, the broadest first.")
	if err := d.run(ctx, "apply", "-f", d.samples.topologyFile); err != nil {
		return err
	}
	for _, l := range d.samples.topology.Spec.Levels {
		fmt.Fprintf(d.stage, "  %-8s %s\n", l.Domain, l.Key)
	}
	d.sum("a ClusterTopology of %d levels", len(d.samples.topology.Spec.Levels))
	return nil
}

// applyGraphs applies one graph after the other, each when the previous one is Ready, so that every demo places them in the same way.
func (d *demo) applyGraphs(ctx context.Context) error {
	var longest time.Duration
	for _, g := range d.samples.graphs {
		l, err := d.watchFor(ctx, []string{g.graph.Name}, want{kind: nvidiav1beta1.ConditionReady, status: metav1.ConditionTrue})
		if err != nil {
			return err
		}
		if err := d.run(ctx, "apply", "-f", g.file); err != nil {
			return err
		}
		if err := l.each(func(s sighting) {
			fmt.Fprintf(d.stage, "%s is Ready %s after it was created\n", d.stage.bold(s.name), seconds(s.after))
			longest = max(longest, s.after)
		}); err != nil {
			return err
		}
	}
	d.sum("%d graphs packed and Ready within %s of their creation", len(d.samples.graphs), seconds(longest))
	return nil
}

func (d *demo) showPlacement(ctx context.Context) error {
	if err := d.run(ctx, "trellis", "tree"); err != nil {
		return err
	}
	fmt.Fprintln(d.stage)
	if err := d.run(ctx, "get", "dgd,sg,ctopo"); err != nil {
		return err
	}
	d.sum("the placement as a tree: zone, block, rack, host, pod")
	return nil
}

// overload scales a component to one replica more than the cluster, zone or block that it is packed into can hold, and then back.
func (d *demo) overload(ctx context.Context) error {
	shape := simulated.DefaultShape
	p, err := d.samples.packedIn(lostLevel, shape.Hosts)
	if err != nil {
		return err
	}
	racks, where := int32(shape.Zones*shape.Blocks*shape.Racks), "The cluster"
	switch p.within {
	case "zone":
		racks, where = int32(shape.Blocks*shape.Racks), "A zone"
	case "block":
		racks, where = int32(shape.Racks), "A block"
	}
	if p.within != "" {
		d.stage.say("All of %s sits in one %s.", p.graph, p.within)
	}
	d.stage.say("Each replica of %s/%s fills a %s. %s has %d of them; now there are to be %d replicas:", p.graph, p.component, lostLevel,
		where, racks, racks+1)
	if err := d.explainOverload(ctx, p, racks+1); err != nil {
		return err
	}
	if err := d.drawMap(ctx); err != nil {
		return err
	}
	fmt.Fprintln(d.stage)
	d.stage.say("Replicas without capacity wait as a unit: none of their pods holds a GPU. Back to %d:", p.replicas)
	l, err := d.watchFor(ctx, []string{p.graph}, want{kind: nvidiav1beta1.ConditionReady, status: metav1.ConditionTrue})
	if err != nil {
		return err
	}
	if err := d.scale(ctx, p, p.replicas); err != nil {
		return err
	}
	d.sum("replicas that do not fit waiting as a unit, with the reason")
	return l.each(func(s sighting) { fmt.Fprintf(d.stage, "%s is Ready again\n", d.stage.bold(s.name)) })
}

// explainOverload scales a component and prints the status of the graph after the controller has considered all replicas.
func (d *demo) explainOverload(ctx context.Context, p packed, replicas int32) error {
	considered := func(dgd *nvidiav1beta1.DynamoGraphDeployment, c *metav1.Condition) bool {
		return c.Reason == placement.CodeInsufficientCapacity && dgd.Status.Components[p.component].Replicas == replicas &&
			!strings.Contains(c.Message, "being created")
	}
	l, err := d.watchFor(ctx, []string{p.graph}, want{nvidiav1beta1.ConditionPlaced, metav1.ConditionFalse, considered})
	if err != nil {
		return err
	}
	if err := d.scale(ctx, p, replicas); err != nil {
		return err
	}
	if err := l.each(func(sighting) {}); err != nil {
		return err
	}
	return d.run(ctx, "get", "dgd/"+p.graph, "-o", placedPath)
}

func (d *demo) scale(ctx context.Context, p packed, replicas int32) error {
	replicasOnly := fmt.Sprintf(`{"spec":{"services":{%q:{"replicas":%d}}}}`, p.component, replicas)
	return d.run(ctx, "patch", "dynamographdeployments.v1alpha1.nvidia.com/"+p.graph, "--type=merge", "-p", replicasOnly)
}

func (d *demo) showRefusals(ctx context.Context) error {
	for i, r := range d.samples.rejected {
		if i > 0 {
			fmt.Fprintln(d.stage)
		}
		if r.why != "" {
			d.stage.say("%s", r.why)
		}
		if err := d.refused(ctx, "apply", "-f", r.file); err != nil {
			return err
		}
	}
	fmt.Fprintln(d.stage)
	d.stage.say("And what a graph was created with, it keeps:")
	if err := d.refused(ctx, "patch", "dgd/"+d.samples.graphs[0].graph.Name, "--type=merge", "-p",
		`{"spec":{"topologyConstraint":{"packDomain":"host"}}}`); err != nil {
		return err
	}
	d.sum("%d wrong manifests and one forbidden change refused, each with path and fix", len(d.samples.rejected))
	return nil
}

// loseLevel removes a level from the topology and adds it again.
func (d *demo) loseLevel(ctx context.Context) error {
	index, err := d.samples.level(lostLevel)
	if err != nil {
		return err
	}
	users := d.samples.usersOf(lostLevel)
	if len(users) == 0 {
		return fmt.Errorf("no sample uses the level %q", lostLevel)
	}
	before, err := d.pods(ctx)
	if err != nil {
		return err
	}
	l, err := d.watchFor(ctx, users, want{kind: nvidiav1beta1.ConditionTopologyLevelsAvailable, status: metav1.ConditionFalse})
	if err != nil {
		return err
	}
	d.stage.say("The administrator removes the level %s. Admission warns, and lets it happen:", lostLevel)
	patch, err := json.Marshal([]map[string]string{{"op": "remove", "path": fmt.Sprintf("/spec/levels/%d", index)}})
	if err != nil {
		return err
	}
	if err := d.run(ctx, "patch", "ctopo/"+d.samples.topology.Name, "--type=json", "-p", string(patch)); err != nil {
		return err
	}
	if err := l.each(func(sighting) {}); err != nil {
		return err
	}
	if err := d.showLoss(ctx, users, before); err != nil {
		return err
	}
	if err := d.restoreLevel(ctx, users); err != nil {
		return err
	}
	d.sum("a level lost and restored: condition, event, and every pod still running where it was")
	return nil
}

// showLoss prints how graphs report the missing level.
func (d *demo) showLoss(ctx context.Context, users []string, before map[string]types.UID) error {
	fmt.Fprintln(d.stage)
	d.stage.say("Graphs that use it say so, in a condition and in an event:")
	if err := d.run(ctx, "get", "dgd/"+users[0], "-o", conditionsPath); err != nil {
		return err
	}
	for _, user := range users {
		if err := d.awaitEvent(ctx, user, nvidiav1beta1.ReasonTopologyLevelsUnavailable); err != nil {
			return err
		}
	}
	fmt.Fprintln(d.stage)
	if err := d.run(ctx, "get", "events", "--field-selector", "reason="+nvidiav1beta1.ReasonTopologyLevelsUnavailable, "-o",
		eventsPath); err != nil {
		return err
	}
	fmt.Fprintln(d.stage)
	d.stage.say("Pods run on where they are:")
	if err := d.run(ctx, "get", "pods", "-l", "nvidia.com/dynamo-graph-deployment-name="+users[0]); err != nil {
		return err
	}
	after, err := d.pods(ctx)
	if err != nil {
		return err
	}
	if !maps.Equal(before, after) {
		return fmt.Errorf("the pods are not those that ran before: had %d, have %d", len(before), len(after))
	}
	d.stage.say("All %d pods of the demo are the same as before: none was moved or restarted.", len(after))
	return nil
}

func (d *demo) restoreLevel(ctx context.Context, users []string) error {
	fmt.Fprintln(d.stage)
	d.stage.say("The level is restored:")
	l, err := d.watchFor(ctx, users, want{kind: nvidiav1beta1.ConditionTopologyLevelsAvailable, status: metav1.ConditionTrue})
	if err != nil {
		return err
	}
	if err := d.run(ctx, "apply", "-f", d.samples.topologyFile); err != nil {
		return err
	}
	return l.each(func(s sighting) {
		fmt.Fprintf(d.stage, "%s: %s is %s again\n", d.stage.bold(s.name), s.condition.Type, s.condition.Status)
	})
}

// pods are the UIDs of the pods by name and node, without pods that are being deleted. A pod that does not run is an error.
func (d *demo) pods(ctx context.Context) (map[string]types.UID, error) {
	c, err := newClient(d.sandbox)
	if err != nil {
		return nil, err
	}
	list := &corev1.PodList{}
	if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	uids := map[string]types.UID{}
	for i := range list.Items {
		p := &list.Items[i]
		if p.DeletionTimestamp != nil {
			continue
		}
		if p.Status.Phase != corev1.PodRunning {
			return nil, fmt.Errorf("pod %s is %s", p.Name, p.Status.Phase)
		}
		uids[p.Name+" on "+p.Spec.NodeName] = p.UID
	}
	return uids, nil
}
