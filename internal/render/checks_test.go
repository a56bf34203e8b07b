// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
)

// reporter is what checks need of testing.T and rapid.T alike.
type reporter interface {
	Helper()
	Errorf(format string, args ...any)
}

// checkObjects holds everything made for a graph, with the pods of one replica of each component, against the API server's rules that matter.
func checkObjects(t reporter, g *Graph, ordinal int32) {
	t.Helper()
	var pods []*corev1.Pod
	for _, sg := range g.ScalingGroups() {
		checkMeta(t, &sg.ObjectMeta)
		if PodsPerReplica(sg) < 1 || sg.Spec.Multinode != (PodsPerReplica(sg) > 1) {
			t.Errorf("%s: %d pods a replica", sg.Name, PodsPerReplica(sg))
		}
		for index := range PodsPerReplica(sg) {
			pod := BuildPod(sg, ordinal, index)
			pods = append(pods, pod)
			checkPod(t, pod)
			if o, i, ok := ReplicaOf(pod); !ok || o != ordinal || i != index {
				t.Errorf("%s: ReplicaOf = %d %d %v", pod.Name, o, i, ok)
			}
		}
		if BuildPod(sg, ordinal, PodsPerReplica(sg)) != nil || BuildPod(sg, ordinal, -1) != nil {
			t.Errorf("%s: a pod beyond the replica", sg.Name)
		}
	}
	for _, service := range g.KubernetesServices() {
		checkService(t, service, pods)
	}
}

func checkMeta(t reporter, meta *metav1.ObjectMeta) {
	t.Helper()
	if errs := validation.IsDNS1123Label(meta.Name); len(errs) > 0 {
		t.Errorf("name %q: %v", meta.Name, errs)
	}
	for key, value := range meta.Labels {
		if errs := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...); len(errs) > 0 {
			t.Errorf("%s: label %s=%s: %v", meta.Name, key, value, errs)
		}
	}
}

func checkPod(t reporter, pod *corev1.Pod) {
	t.Helper()
	checkMeta(t, &pod.ObjectMeta)
	for field, name := range map[string]string{"hostname": pod.Spec.Hostname, "subdomain": pod.Spec.Subdomain} {
		if errs := validation.IsDNS1123Label(name); name != "" && len(errs) > 0 {
			t.Errorf("%s: %s %q: %v", pod.Name, field, name, errs)
		}
	}
	volumes, containers := map[string]bool{}, map[string]bool{}
	for _, v := range pod.Spec.Volumes {
		if errs := validation.IsDNS1123Label(v.Name); len(errs) > 0 || volumes[v.Name] {
			t.Errorf("%s: volume %q: %v, twice %v", pod.Name, v.Name, errs, volumes[v.Name])
		}
		volumes[v.Name] = true
	}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if containers[list[i].Name] {
				t.Errorf("%s: two containers %q", pod.Name, list[i].Name)
			}
			containers[list[i].Name] = true
			checkContainer(t, pod, &list[i], volumes)
		}
	}
}

func checkContainer(t reporter, pod *corev1.Pod, c *corev1.Container, volumes map[string]bool) {
	t.Helper()
	if errs := validation.IsDNS1123Label(c.Name); len(errs) > 0 {
		t.Errorf("%s: container %q: %v", pod.Name, c.Name, errs)
	}
	env, paths, ports := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, e := range c.Env {
		for _, name := range references(e.Value) {
			if !env[name] && indexEnv(c.Env, name) >= 0 {
				t.Errorf("%s/%s: %s refers to %s, which comes later", pod.Name, c.Name, e.Name, name)
			}
		}
		if env[e.Name] || e.Name == "" {
			t.Errorf("%s/%s: variable %q twice or unnamed", pod.Name, c.Name, e.Name)
		}
		env[e.Name] = true
	}
	for _, m := range c.VolumeMounts {
		if !volumes[m.Name] || paths[m.MountPath] {
			t.Errorf("%s/%s: mount %q at %q: volume %v, path taken %v", pod.Name, c.Name, m.Name, m.MountPath, volumes[m.Name], paths[m.MountPath])
		}
		paths[m.MountPath] = true
	}
	for _, p := range c.Ports {
		ports[p.Name] = true
	}
	for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		if probe != nil && probe.HTTPGet != nil && probe.HTTPGet.Port.StrVal != "" && !ports[probe.HTTPGet.Port.StrVal] {
			t.Errorf("%s/%s: a probe of port %q, which is not there", pod.Name, c.Name, probe.HTTPGet.Port.StrVal)
		}
	}
	for name, request := range c.Resources.Requests {
		if limit, limited := c.Resources.Limits[name]; limited && request.Cmp(limit) > 0 || !limited && !overcommits(name) {
			t.Errorf("%s/%s: %s request %s, limit %s", pod.Name, c.Name, name, request.String(), limit.String())
		}
	}
}

// checkService also says that a Service finds the pods of one component only.
func checkService(t reporter, service *corev1.Service, pods []*corev1.Pod) {
	t.Helper()
	checkMeta(t, &service.ObjectMeta)
	if errs := validation.IsDNS1035Label(service.Name); len(errs) > 0 {
		t.Errorf("Service %q: %v", service.Name, errs)
	}
	selector, found := labels.SelectorFromSet(service.Spec.Selector), 0
	for _, pod := range pods {
		if !selector.Matches(labels.Set(pod.Labels)) {
			continue
		}
		found++
		if pod.Labels[LabelScalingGroup] != service.Labels[LabelScalingGroup] {
			t.Errorf("Service %s selects pod %s of another service", service.Name, pod.Name)
		}
		if headless := service.Spec.ClusterIP == corev1.ClusterIPNone; headless && pod.Spec.Subdomain != service.Name {
			t.Errorf("pod %s has no DNS name below Service %s", pod.Name, service.Name)
		}
	}
	if found == 0 {
		t.Errorf("Service %s selects nothing", service.Name)
	}
}
