// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// summary shows all objects of a graph in a form that a person can review: what Trellis adds in full, what the user wrote as a name or
// as the words "as written".
func summary(dgd *nvidiav1beta1.DynamoGraphDeployment, g *Graph) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", dgd.Name)
	for _, warning := range slices.Concat(notActedOn(dgd, ""), launchWarnings(dgd)) {
		fmt.Fprintf(&b, "  warning: %s\n", warning)
	}
	for _, sg := range g.ScalingGroups() {
		summariseGroup(&b, dgd.Component(sg.Spec.Component), sg)
	}
	for _, service := range g.KubernetesServices() {
		fmt.Fprintf(&b, "  Service %s: %s\n", service.Name, ofService(service))
	}
	for _, object := range brought(g) {
		fmt.Fprintf(&b, "  %s %s%s\n", object.GetObjectKind().GroupVersionKind().Kind, object.GetName(), about(object))
	}
	for _, name := range slices.Sorted(maps.Keys(g.Claims().Needed)) {
		fmt.Fprintf(&b, "  needs PersistentVolumeClaim %s for %s\n", name, strings.Join(g.Claims().Needed[name], ", "))
	}
	if g.NeedsSSHKeys() {
		b.WriteString("  Secret mpi-run-ssh-secret, unless it is there\n")
	}
	return b.String()
}

func summariseGroup(b *strings.Builder, spec *nvidiav1beta1.ComponentSpec, sg *trellisv1alpha1.ScalingGroup) {
	fmt.Fprintf(b, "  %s: ScalingGroup %s, %d replicas of %d pods, revision %s%s\n",
		sg.Spec.Component, sg.Name, sg.Spec.Replicas, PodsPerReplica(sg), sg.Spec.Revision, packing(sg))
	leader := podLines(spec, BuildPod(sg, 0, 0))
	fmt.Fprintf(b, "    pod %s\n%s", podName(sg.Name, sg.Spec.Multinode, 0, 0), strings.Join(leader, ""))
	if worker := BuildPod(sg, 0, 1); worker != nil {
		lines := podLines(spec, worker)
		more := slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return slices.Contains(leader, line) })
		fewer := slices.DeleteFunc(slices.Clone(leader), func(line string) bool { return slices.Contains(lines, line) })
		fmt.Fprintf(b, "    pod %s, where it differs\n", worker.Name)
		for _, line := range fewer {
			b.WriteString("    - " + line)
		}
		for _, line := range more {
			b.WriteString("    + " + line)
		}
	}
}

// podLines describe a pod, one line a fact.
func podLines(spec *nvidiav1beta1.ComponentSpec, pod *corev1.Pod) []string {
	var b strings.Builder
	fmt.Fprintf(&b, "      %s\n", ofPod(pod))
	labels := maps.Clone(pod.Labels)
	maps.DeleteFunc(labels, func(key, _ string) bool { return !strings.HasPrefix(key, "nvidia.com/") })
	fmt.Fprintf(&b, "      labels %s\n", pairs(labels))
	for _, c := range pod.Spec.InitContainers {
		fmt.Fprintf(&b, "      init %s\n", c.Name)
	}
	for i := range pod.Spec.Containers {
		summariseContainer(&b, spec, i, &pod.Spec.Containers[i])
	}
	return strings.SplitAfter(strings.TrimSuffix(b.String(), "\n")+"\n", "\n")[:strings.Count(b.String(), "\n")]
}

func packing(sg *trellisv1alpha1.ScalingGroup) string {
	if t := sg.Spec.Topology; packs(t) {
		return fmt.Sprintf(", gated, graph in one %q, units in one %q", t.GraphPackDomain, t.PackDomain)
	}
	if Gated(sg) {
		return ", gated"
	}
	return ""
}

func ofPod(pod *corev1.Pod) string {
	words := []string{"account " + pod.Spec.ServiceAccountName, fmt.Sprintf("grace %ds", *pod.Spec.TerminationGracePeriodSeconds)}
	if s := pod.Spec.SecurityContext; s != nil && s.FSGroup != nil {
		words = append(words, fmt.Sprintf("fsGroup %d", *s.FSGroup))
	}
	if len(pod.Spec.NodeSelector) > 0 {
		words = append(words, "nodes "+pairs(pod.Spec.NodeSelector))
	}
	for _, part := range []struct {
		set  bool
		name string
	}{
		{pod.Spec.Affinity != nil, "affinity"}, {len(pod.Spec.Tolerations) > 0, "tolerations"},
		{len(pod.Spec.ImagePullSecrets) > 0, "pull secrets"}, {len(pod.Spec.ResourceClaims) > 0, "resource claims"}, {pod.Spec.HostIPC, "host IPC"},
	} {
		if part.set {
			words = append(words, part.name)
		}
	}
	for _, v := range pod.Spec.Volumes {
		words = append(words, "volume "+ofVolume(&v))
	}
	return strings.Join(words, ", ")
}

func ofVolume(v *corev1.Volume) string {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.Name + " (claim " + v.PersistentVolumeClaim.ClaimName + ")"
	case v.ConfigMap != nil:
		return v.Name + " (ConfigMap " + v.ConfigMap.Name + ")"
	case v.Secret != nil:
		return v.Name + " (Secret " + v.Secret.SecretName + ")"
	case v.EmptyDir != nil && v.EmptyDir.SizeLimit != nil:
		return v.Name + " (" + v.EmptyDir.SizeLimit.String() + ")"
	}
	return v.Name
}

// summariseContainer prints the command only where it is not the user's.
func summariseContainer(b *strings.Builder, spec *nvidiav1beta1.ComponentSpec, index int, c *corev1.Container) {
	fmt.Fprintf(b, "      %s: %s\n", c.Name, c.Image)
	written := userContainer(spec, index, c.Name)
	command, asWritten := slices.Concat(c.Command, c.Args), slices.Concat(written.Command, written.Args)
	switch {
	case equality.Semantic.DeepEqual(command, asWritten):
	case len(asWritten) > 0 && len(command) > len(asWritten) && slices.Equal(command[:len(asWritten)], asWritten):
		fmt.Fprintf(b, "        command as written and %q\n", cut(command[len(asWritten):]))
	case len(asWritten) > 0 && len(command) > len(asWritten) && slices.Equal(command[len(command)-len(asWritten):], asWritten):
		fmt.Fprintf(b, "        command %q and as written\n", cut(command[:len(command)-len(asWritten)]))
	default:
		fmt.Fprintf(b, "        command %q\n", cut(command))
	}
	for _, e := range c.Env {
		fmt.Fprintf(b, "        $%s\n", ofVariable(&written, e))
	}
	for _, from := range c.EnvFrom {
		fmt.Fprintf(b, "        env from Secret %s\n", from.SecretRef.Name)
	}
	if len(c.Resources.Requests)+len(c.Resources.Limits) > 0 {
		fmt.Fprintf(b, "        requests %s; limits %s\n", amounts(c.Resources.Requests), amounts(c.Resources.Limits))
	}
	for _, claim := range c.Resources.Claims {
		fmt.Fprintf(b, "        claims %s\n", claim.Name)
	}
	var ports []string
	for _, p := range c.Ports {
		ports = append(ports, fmt.Sprintf("%s %d", p.Name, p.ContainerPort))
	}
	fmt.Fprintf(b, "        ports %s; live %s; ready %s; startup %s\n", strings.Join(ports, ", "), asked(c.LivenessProbe), asked(c.ReadinessProbe), asked(c.StartupProbe))
	for _, m := range c.VolumeMounts {
		fmt.Fprintf(b, "        %s at %s\n", m.Name, m.MountPath)
	}
}

// cut shortens long words, as scripts are; the hash tells when the rest changes.
func cut(words []string) []string {
	const most = 280
	out := slices.Clone(words)
	for i, word := range out {
		if len(word) > most {
			out[i] = word[:most] + "... " + shortHash(word)
		}
	}
	return out
}

// userContainer is a container as the user wrote it; the first of a pod is the main container, whatever v1alpha1 called it.
func userContainer(spec *nvidiav1beta1.ComponentSpec, index int, name string) corev1.Container {
	if spec.PodTemplate == nil {
		return corev1.Container{}
	}
	if index == 0 {
		name = mainContainerName
	}
	if i := indexContainer(spec.PodTemplate.Spec.Containers, name); i >= 0 {
		return spec.PodTemplate.Spec.Containers[i]
	}
	return corev1.Container{}
}

// ofVariable names a user's variable, and gives the value of one of ours.
func ofVariable(written *corev1.Container, e corev1.EnvVar) string {
	users := written.Env
	switch {
	case indexEnv(users, e.Name) >= 0:
		return e.Name
	case e.ValueFrom != nil && e.ValueFrom.FieldRef != nil:
		return e.Name + "=<" + e.ValueFrom.FieldRef.FieldPath + ">"
	case e.ValueFrom != nil:
		return e.Name
	}
	return e.Name + "=" + e.Value
}

func asked(p *corev1.Probe) string {
	if p == nil {
		return "-"
	}
	timing := fmt.Sprintf("(%d/%d/%d/%d)", p.InitialDelaySeconds, p.PeriodSeconds, p.TimeoutSeconds, p.FailureThreshold)
	switch {
	case p.HTTPGet != nil:
		return p.HTTPGet.Path + ":" + p.HTTPGet.Port.String() + timing
	case p.GRPC != nil:
		return fmt.Sprintf("grpc:%d", p.GRPC.Port) + timing
	case p.TCPSocket != nil:
		return "tcp:" + p.TCPSocket.Port.String() + timing
	}
	return "command" + timing
}

func ofService(s *corev1.Service) string {
	var ports []string
	for _, p := range s.Spec.Ports {
		ports = append(ports, fmt.Sprintf("%d to %s", p.Port, p.TargetPort.String()))
	}
	if s.Spec.ClusterIP == corev1.ClusterIPNone {
		ports = append(ports, "headless")
	}
	return strings.Join(ports, ", ") + " of " + pairs(s.Spec.Selector)
}

func about(object Object) string {
	switch o := object.(type) {
	case *corev1.Service:
		return ": " + ofService(o)
	case *corev1.PersistentVolumeClaim:
		return ": " + ptr.Deref(o.Spec.StorageClassName, "")
	case *corev1.ConfigMap:
		return ":\n      " + strings.ReplaceAll(strings.TrimSpace(o.Data[pickerConfigFile]), "\n", "\n      ")
	case *unstructured.Unstructured:
		return fmt.Sprintf(": %v", o.Object["spec"])
	}
	return ""
}

func pairs(m map[string]string) string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		out = append(out, key+"="+m[key])
	}
	return strings.Join(out, " ")
}
