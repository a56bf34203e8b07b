// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
	"github.com/trellis-k8s/trellis/internal/whatif"
)

// steps are the changes that free a domain.
type steps struct {
	// uncordon and repair are names of hosts to uncordon and to repair. taints are the commands that remove taints.
	uncordon, repair, taints []string
	// byNamespace contains the pods without a controller, and byController the pods with a controller. namespaces and controllers are the
	// keys of these maps, in order.
	byNamespace, byController map[string][]string
	namespaces, controllers   []string
	// graphs are the commands that scale in or delete deployments. lost describes the effects of these commands on the deployments. manual
	// lists the steps without a command.
	graphs, lost, manual []string
}

// freeingAdvice returns the change that places a refused replica by freeing hosts. It returns nil without obstacles:
// [whatif.Planner.Obstacles] returns obstacles only if a trial without them has placed the replica.
func freeingAdvice(r *placement.Refusal, domain topology.Path, obstacles []whatif.Obstacle) *Advice {
	if len(obstacles) == 0 {
		return nil
	}
	s := steps{byNamespace: map[string][]string{}, byController: map[string][]string{}}
	for i := range obstacles {
		s.host(&obstacles[i])
	}
	where := ""
	if len(domain) > 0 {
		where = " in " + domain.String()
	}
	a := &Advice{Effect: fmt.Sprintf("%s-%d fits%s after these changes", r.Component, r.Ordinal, where)}
	if len(s.lost) > 0 {
		a.Effect += ": " + strings.Join(s.lost, ", ")
	}
	a.Effect += "."
	if len(s.uncordon) > 0 {
		a.Commands = append(a.Commands, "kubectl uncordon "+strings.Join(s.uncordon, " "))
	}
	a.Commands = append(a.Commands, s.taints...)
	for _, namespace := range s.namespaces {
		a.Commands = append(a.Commands, fmt.Sprintf("kubectl delete pod -n %s %s", namespace, strings.Join(s.byNamespace[namespace], " ")))
	}
	a.Commands = append(a.Commands, s.graphs...)
	if len(s.repair) > 0 {
		a.Manual = append(a.Manual, "Repair "+strings.Join(s.repair, ", ")+": kubectl describe node shows what is wrong.")
	}
	for _, controller := range s.controllers {
		a.Manual = append(a.Manual, fmt.Sprintf("Scale in or move %s, which started %s: deleted alone, a pod is started again.", controller,
			strings.Join(s.byController[controller], ", ")))
	}
	a.Manual = append(a.Manual, s.manual...)
	return a
}

// host adds the steps for one host.
func (s *steps) host(o *whatif.Obstacle) {
	if o.Cordoned {
		s.uncordon = append(s.uncordon, o.Node)
	}
	if o.Broken {
		s.repair = append(s.repair, o.Node)
	}
	for _, taint := range o.Taints {
		s.taints = append(s.taints, untaint(o.Node, taint))
	}
	for i := range o.Pods {
		s.pod(&o.Pods[i])
	}
}

// untaint returns the command that removes a taint in the form "key=value:Effect".
func untaint(node, taint string) string { return fmt.Sprintf("kubectl taint node %s %s-", node, taint) }

// pod adds the step that removes one pod.
func (s *steps) pod(o *whatif.Occupant) {
	switch o.Way.Kind {
	case whatif.WayPod:
		if s.byNamespace[o.Namespace] == nil {
			s.namespaces = append(s.namespaces, o.Namespace)
		}
		s.byNamespace[o.Namespace] = append(s.byNamespace[o.Namespace], o.Name)
	case whatif.WayController:
		kind, name, _ := strings.Cut(o.Way.Controller, " ")
		controller := fmt.Sprintf("%s %s/%s", kind, o.Namespace, name)
		if s.byController[controller] == nil {
			s.controllers = append(s.controllers, controller)
		}
		s.byController[controller] = append(s.byController[controller], o.Name)
	case whatif.WayPlanned:
		s.manual = appendNew(s.manual, fmt.Sprintf("Leave the deployment of pod %s out of the plan.", o.NamespacedName))
	case whatif.WayDelete:
		s.graphs = appendNew(s.graphs, fmt.Sprintf("kubectl delete dgd -n %s %s", o.Way.Graph.Namespace, o.Way.Graph.Name))
		s.lost = appendNew(s.lost, fmt.Sprintf("%s is deleted", o.Way.Graph))
	case whatif.WayScaleIn:
		s.scaleIn(&o.Way)
	}
}

// scaleIn adds the command that scales a component in.
func (s *steps) scaleIn(w *whatif.Way) {
	what := fmt.Sprintf("%s of %s is scaled in to %d", w.Component, w.Graph, w.To)
	switch {
	case w.Adapter != "":
		s.graphs = appendNew(s.graphs, fmt.Sprintf("kubectl scale dgdsa -n %s %s --replicas=%d", w.Graph.Namespace, w.Adapter, w.To))
	case w.Index >= 0:
		s.graphs = appendNew(s.graphs, fmt.Sprintf(
			`kubectl patch dgd -n %s %s --type=json -p '[{"op":"replace","path":"/spec/components/%d/replicas","value":%d}]'`,
			w.Graph.Namespace, w.Graph.Name, w.Index, w.To))
	default:
		s.manual = appendNew(s.manual, fmt.Sprintf("Scale %s of %s in to %d replicas.", w.Component, w.Graph, w.To))
	}
	s.lost = appendNew(s.lost, what)
}

func appendNew(list []string, text string) []string {
	if slices.Contains(list, text) {
		return list
	}
	return append(list, text)
}

// remedy returns the steps on a host itself, such as uncordoning it. It omits the removal of pods.
func remedy(o whatif.Obstacle) string {
	var parts []string
	if o.Cordoned {
		parts = append(parts, "kubectl uncordon "+o.Node)
	}
	if o.Broken {
		parts = append(parts, "repair it: kubectl describe node "+o.Node)
	}
	for _, taint := range o.Taints {
		parts = append(parts, untaint(o.Node, taint))
	}
	return strings.Join(parts, "; ")
}
