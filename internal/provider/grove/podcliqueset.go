// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package grove

import (
	"encoding/json"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/provider/kai"
	"github.com/trellis-k8s/trellis/internal/render"
)

const (
	startAnyOrder = "CliqueStartupTypeAnyOrder"
	// terminationDelay is the time after which Grove recreates a broken gang. It equals Dynamo's value.
	terminationDelay = 15 * time.Minute
)

// Input is one deployment to render for Grove.
type Input struct {
	Namespace, Name string
	// Queue of KAI Scheduler; "" if Grove uses another scheduler.
	Queue string
	// UpdateStrategy of the deployment; "" for Grove's default.
	UpdateStrategy string
	// Overrides are the deployment's overrides of topology constraints.
	Overrides render.Overrides
	// Groups are the scaling groups of the deployment, one per component.
	Groups []*trellisv1alpha1.ScalingGroup
}

// Render returns the PodCliqueSet of the deployment. The caller sets owner references.
func Render(g Input, d Schema) *PodCliqueSet {
	n := nameAll(g.Name, g.Groups)
	t := constraint.TopologyOf(g.Groups)
	pcs := &PodCliqueSet{
		TypeMeta: metav1.TypeMeta{APIVersion: groupVersion.String(), Kind: PodCliqueSetKind.Kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: n.set, Labels: map[string]string{
			render.LabelGraph: render.LabelValue(g.Name)}},
		Spec: PodCliqueSetSpec{Replicas: 1, Template: Template{
			CliqueStartupType:     startAnyOrder,
			HeadlessServiceConfig: &HeadlessServiceConfig{PublishNotReadyAddresses: true},
			PriorityClassName:     render.PriorityClass(g.Groups),
			TerminationDelay:      &metav1.Duration{Duration: terminationDelay},
			TopologyConstraint:    overridden(d.constraint(t, constraint.OfGraph(t)), g.Overrides.Set),
		}},
	}
	if g.UpdateStrategy != "" && d.UpdateStrategy {
		pcs.Spec.UpdateStrategy = &UpdateStrategy{Type: g.UpdateStrategy}
	}
	template := &pcs.Spec.Template
	for _, sg := range render.SortedGroups(g.Groups) {
		own := g.Overrides.Components[sg.Spec.Component]
		unit := overridden(d.constraint(sg.Spec.Topology, unit(sg.Spec.Topology)), own.Unit)
		if !sg.Spec.Multinode {
			clique := g.clique(n, sg, &sg.Spec.Roles[0], n.of(sg), templateReplicas(sg), render.MinAvailable(sg))
			clique.TopologyConstraint = unit
			template.Cliques = append(template.Cliques, clique)
			continue
		}
		group := ScalingGroup{Name: n.of(sg), Replicas: ptr.To(templateReplicas(sg)), MinAvailable: ptr.To(render.MinAvailable(sg)),
			TopologyConstraint: unit}
		for i := range sg.Spec.Roles {
			role := &sg.Spec.Roles[i]
			name, override := n.of(sg)+leaderSuffix, own.Leader
			if role.Name == render.RoleWorker {
				name, override = n.of(sg)+workerSuffix, own.Worker
			}
			clique := g.clique(n, sg, role, name, role.Count, role.Count)
			clique.TopologyConstraint = overridden(nil, override)
			template.Cliques = append(template.Cliques, clique)
			group.CliqueNames = append(group.CliqueNames, name)
		}
		template.PodCliqueScalingGroups = append(template.PodCliqueScalingGroups, group)
	}
	return pcs
}

// overridden merges an override of the deployment into a constraint.
func overridden(c *TopologyConstraint, override json.RawMessage) *TopologyConstraint {
	if len(override) == 0 {
		return c
	}
	out := TopologyConstraint{}
	if c != nil {
		out = *c
		if c.Pack != nil {
			out.Pack = ptr.To(*c.Pack)
		}
	}
	if json.Unmarshal(override, &out) != nil { // it was parsed before
		return c
	}
	return &out
}

// clique makes one clique, without a constraint. In a multinode component, the scaling group has the constraint; a clique has a constraint
// only if an override sets it.
func (g Input) clique(n names, sg *trellisv1alpha1.ScalingGroup, role *trellisv1alpha1.Role, name string, replicas,
	minAvailable int32) Clique {
	c := Clique{
		Name:        name,
		Labels:      maps.Clone(role.Template.Labels),
		Annotations: maps.Clone(role.Template.Annotations),
		Spec:        CliqueSpec{RoleName: name, PodSpec: n.podSpec(sg, role), Replicas: replicas, MinAvailable: ptr.To(minAvailable)},
	}
	if c.Labels == nil {
		c.Labels = map[string]string{}
	}
	maps.Copy(c.Labels, render.Selector(sg.Spec.Graph, sg.Name))
	c.Labels[render.LabelRole] = role.Name
	c.Labels[render.LabelRevision] = render.LabelValue(sg.Spec.Revision)
	if sg.Spec.Restart != nil { // Grove replaces the pods of a clique whose annotations change
		if c.Annotations == nil {
			c.Annotations = map[string]string{}
		}
		c.Annotations[render.AnnotationRestart] = sg.Spec.Restart.ID
	}
	if g.Queue != "" && (c.Spec.PodSpec.SchedulerName == "" || c.Spec.PodSpec.SchedulerName == kai.SchedulerName) {
		c.Spec.PodSpec.SchedulerName = kai.SchedulerName
		c.Labels[kai.LabelQueue] = render.LabelValue(g.Queue)
	}
	return c
}

// QueueOf returns the queue that the cliques of a PodCliqueSet name; "" for none. Callers keep this queue, because Grove replaces the pods
// of a clique when the clique's labels change.
func QueueOf(pcs *PodCliqueSet) string {
	for i := range pcs.Spec.Template.Cliques {
		if queue := pcs.Spec.Template.Cliques[i].Labels[kai.LabelQueue]; queue != "" {
			return queue
		}
	}
	return ""
}

// templateReplicas returns the number of replicas for the template. Grove requires at least minAvailable replicas there. The created object
// is then scaled to the number that [Scales] returns.
func templateReplicas(sg *trellisv1alpha1.ScalingGroup) int32 {
	return max(sg.Spec.Replicas, render.MinAvailable(sg))
}

// unit returns the constraint of a component. Grove does not allow a component's preferred level to be broader than the graph's preferred
// level. If it is broader, unit uses the graph's preferred level instead, which satisfies both preferences.
func unit(t *trellisv1alpha1.ResolvedTopology) constraint.Domains {
	graph, unit := constraint.OfGraph(t), constraint.OfComponent(t)
	if graph.Preferred != "" && unit.Preferred != "" && constraint.Level(t, unit.Preferred) < constraint.Level(t, graph.Preferred) {
		unit.Preferred = graph.Preferred
	}
	return unit
}

// constraint converts a constraint to the schema's shape; nil if the schema can express no part of it.
func (d Schema) constraint(t *trellisv1alpha1.ResolvedTopology, c constraint.Domains) *TopologyConstraint {
	switch {
	case c.Empty(), d.Shape == ShapeNone:
		return nil
	case d.Shape == ShapePack:
		return &TopologyConstraint{TopologyName: t.ClusterTopology, Pack: &Pack{Required: c.Required, Preferred: c.Preferred}}
	case c.Required == "":
		return nil
	case d.Shape == ShapeNamed:
		return &TopologyConstraint{TopologyName: t.ClusterTopology, PackDomain: c.Required}
	}
	return &TopologyConstraint{PackDomain: c.Required}
}

// Scale is the number of replicas to write to the scale subresource of an object that Grove made.
type Scale struct {
	Made
	Replicas int32
}

// Scales returns the wanted number of replicas of every component. To scale a component, Trellis writes to the object that Grove made, not
// to the template.
func Scales(g Input) []Scale {
	var out []Scale
	for _, sg := range render.SortedGroups(g.Groups) {
		out = append(out, Scale{Made: MadeOf(g, sg), Replicas: sg.Spec.Replicas})
	}
	return out
}
