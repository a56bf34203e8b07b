// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/field"
	"github.com/trellis-k8s/trellis/internal/render"
)

// graphWarnings are the warnings about accepted deployments. The topology argument is nil if the caller has not read the topology.
var graphWarnings = []struct {
	name string
	run  func(Written, *grovev1alpha1.ClusterTopology) []field.Text
}{
	{"preferred domain without effect", preferredWithoutEffect},
	{"spread without effect", spreadWithoutEffect},
	{"topology without placement", topologyWithoutPlacement},
	{"preferred key without effect", preferredKeyWithoutEffect},
	{"multinode on one host", multinodeOnHost},
	{"pods of one host network", sharedHostNetwork},
	{"multinode without a type", multinodeWithoutType},
	{"nodes outside of the topology", nodesOutside},
	{"mounts of unlisted claims", unlistedClaims},
	{"transfer policy without placement", transferWithoutPlacement},
	{"annotations that are not known", unknownAnnotations},
}

// deprecatedFields are fields that are accepted because existing manifests contain them, but that are deprecated or have no effect.
var deprecatedFields = []struct {
	at   []string
	set  func(component) bool
	text field.Text
}{
	{[]string{"dynamoNamespace"}, func(s component) bool { return s.alpha.DynamoNamespace != nil },
		field.Say("is deprecated and ignored: the Dynamo namespace is <namespace>-<name> of the DynamoGraphDeployment; remove it")},
	{[]string{"autoscaling"}, func(s component) bool {
		return s.alpha.Autoscaling != nil
	}, field.Say("is deprecated and ignored: set replicas instead")},
	{[]string{"pvc"}, func(s component) bool { return s.alpha.PVC != nil },
		field.Say("was removed and is ignored: list the claim in spec.pvcs and mount it with volumeMounts")},
	{[]string{"serviceName"}, func(s component) bool { return s.alpha.ServiceName != "" && s.alpha.ServiceName != s.name },
		field.Say("is ignored: the key in %s is the %s's name", field.Components, field.WordComponent)},
	{[]string{"multinode", "leader"}, func(s component) bool { return s.hasFormerRole(nvidiav1beta1.RoleLeader) },
		field.Say("is deprecated, and the next release ignores it: write its providerOverride into roles[leader], then remove it")},
	{[]string{"multinode", "worker"}, func(s component) bool { return s.hasFormerRole(nvidiav1beta1.RoleWorker) },
		field.Say("is deprecated, and the next release ignores it: write its providerOverride into roles[worker], then remove it")},
}

// GraphWarnings returns the warnings about an accepted deployment. notActedOn lists the fields without effect. GraphWarnings returns one
// line for equal warnings about the same field of several components; [Bounded] limits the total length.
func GraphWarnings(dgd Written, topology *grovev1alpha1.ClusterTopology, notActedOn []render.Ignored) []field.Text {
	if dgd.DynamoGraphDeployment == nil {
		return nil
	}
	var lines []field.Text
	for _, warning := range graphWarnings {
		lines = append(lines, warning.run(dgd, topology)...)
	}
	deprecated := map[string]bool{}
	for _, d := range deprecatedFields {
		var paths []*field.Path
		for _, s := range dgd.components() {
			if d.set(s) {
				paths = append(paths, s.path.Child(d.at[0], d.at[1:]...))
			}
		}
		deprecated[field.Component(-1, "*").Child(d.at[0], d.at[1:]...).String()] = true
		lines = append(lines, byKind(paths, func(kind *field.Path) field.Text { return field.Say("%s %s", kind, d.text) })...)
	}
	idle := slices.DeleteFunc(slices.Clone(notActedOn), func(ignored render.Ignored) bool {
		kind, _ := ignored.Path.Kind()
		return deprecated[kind.String()]
	})
	return append(lines, grouped(idle, func(i render.Ignored) *field.Path { return i.Path }, notActedOnText)...)
}

// notActedOnText returns the warning that a field has no effect, no effect under the deployment's provider, or affects only routing.
func notActedOnText(ignored render.Ignored, path *field.Path) field.Text {
	if ignored.OnlyRoutes {
		return field.Say("%s decides where requests go, and under the provider %s not where replicas go", path, ignored.Provider)
	}
	if ignored.Provider != "" {
		return field.Say("%s is accepted but not acted on by the provider %s", path, ignored.Provider)
	}
	return field.Say("%s is accepted but not acted on", path)
}

// multinodeOnHost warns about multinode replicas that are packed into one host.
func multinodeOnHost(dgd Written, topology *grovev1alpha1.ClusterTopology) []field.Text {
	inherited := ""
	if c := dgd.Spec.TopologyConstraint; c != nil {
		inherited = c.PackDomain
	}
	var names []string
	for _, s := range componentsOf(dgd.DynamoGraphDeployment) {
		own := ""
		if s.TopologyConstraint != nil {
			own = s.TopologyConstraint.PackDomain
		}
		if s.multinode() && isHost(topology, narrowest(topology, own, inherited)) {
			names = append(names, short(s.name))
		}
	}
	if len(names) == 0 {
		return nil
	}
	return []field.Text{line(field.Say("packDomain holds each replica of a multinode %s on one host; use rack or block for %s that span nodes",
		field.WordComponent, field.WordComponents), names)}
}

// multinodeWithoutType warns about multinode components without a type, because the Dynamo operator accepts multinode only for the types of
// workers.
func multinodeWithoutType(dgd Written, _ *grovev1alpha1.ClusterTopology) []field.Text {
	var names []string
	for _, s := range dgd.components() {
		if s.multinode() && s.explicitType() == "" {
			names = append(names, short(s.name))
		}
	}
	if len(names) == 0 {
		return nil
	}
	return []field.Text{line(field.Say("multinode without a %[1]s is refused by the Dynamo operator after 1.5; set %[1]s worker, prefill "+
		"or decode",
		field.WordType), names)}
}

// isHost reports whether a level consists of single nodes. It recognizes such a level by its label key or by its name.
func isHost(topology *grovev1alpha1.ClusterTopology, domain string) bool {
	if i := levelIndex(topology, domain); i >= 0 && topology.Spec.Levels[i].Key == corev1.LabelHostname {
		return true
	}
	return domain == "host" || domain == "hostname"
}

// unlistedClaims warns about mounted claims that spec.pvcs does not list. If such a claim does not exist in the cluster, the pods wait
// forever.
func unlistedClaims(dgd Written, _ *grovev1alpha1.ClusterTopology) []field.Text {
	var mounts []string
	for _, s := range dgd.components() {
		for _, m := range s.alpha.VolumeMounts {
			if !claimOf(s, m.Name) {
				mounts = append(mounts, short(s.name)+": "+short(m.Name))
			}
		}
	}
	if len(mounts) == 0 {
		return nil
	}
	each := field.Component(-1, "*")
	path := each.Child("podTemplate", "spec", "containers").Key(nvidiav1beta1.MainContainerName).Child("volumeMounts").
		InAlpha(each.Child("volumeMounts"))
	return []field.Text{line(field.Say("%s name claims that spec.pvcs does not list", path), mounts)}
}
