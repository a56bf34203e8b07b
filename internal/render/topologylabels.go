// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/constraint"
)

// A packed pod knows its place: the path of its domain is in its labels, one per level, and inside the pod in
// files and variables made from the labels.
//
//	nvidia.com/dynamo-topology.zone: zone-a      /etc/dynamo/topology/zone      $TRELLIS_TOPOLOGY_ZONE
//	nvidia.com/dynamo-topology.rack: rack-1      /etc/dynamo/topology/rack      $TRELLIS_TOPOLOGY_RACK
//
// The labels are set together with the pins, before the pod has a node; levels narrower than the pinned level stay empty.
const (
	LabelTopologyPrefix = "nvidia.com/dynamo-topology."

	topologyVolume   = "topology-labels"
	topologyPath     = "/etc/dynamo/topology"
	envTopologyPath  = "DYN_TOPOLOGY_MOUNT_PATH"
	envTopologyLevel = "TRELLIS_TOPOLOGY_"
	maxTopologyName  = 63 - len("dynamo-topology.")
)

// AnnotationLevels on a packed pod maps the levels of its topology to node labels, as a JSON object of domain to key.
const AnnotationLevels = "trellis.dev/topology-levels"

// topologyLabel is the pod label of a level.
func topologyLabel(domain string) string {
	return LabelTopologyPrefix + fit(domain, domain, maxTopologyName)
}

// whereabouts are the annotation, files and variables that tell the pods of a scaling group their place; pods may share them.
type whereabouts struct {
	levels string
	files  *corev1.DownwardAPIVolumeSource
	env    []corev1.EnvVar
}

// whereaboutsOf returns nil for pods that are not packed.
func whereaboutsOf(topology *trellisv1alpha1.ResolvedTopology) *whereabouts {
	if !packs(topology) || len(topology.Levels) == 0 {
		return nil
	}
	files := &corev1.DownwardAPIVolumeSource{Items: make([]corev1.DownwardAPIVolumeFile, 0, len(topology.Levels))}
	env := append(make([]corev1.EnvVar, 0, 1+len(topology.Levels)), corev1.EnvVar{Name: envTopologyPath, Value: topologyPath})
	for _, level := range topology.Levels {
		field := "metadata.labels['" + topologyLabel(level.Domain) + "']"
		reference := &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: field}
		files.Items = append(files.Items, corev1.DownwardAPIVolumeFile{Path: level.Domain, FieldRef: reference})
		env = append(env, fieldEnv(envTopologyLevel+envName(level.Domain), field))
	}
	return &whereabouts{levels: LevelKeys(topology), files: files, env: env}
}

// LevelKeys returns the node label of each level of a constraint, in the format of AnnotationLevels.
func LevelKeys(topology *trellisv1alpha1.ResolvedTopology) string {
	levels := map[string]string{}
	if topology != nil {
		for _, level := range topology.Levels {
			levels[level.Domain] = level.Key
		}
	}
	raw, err := json.Marshal(levels)
	if err != nil {
		panic("a map of texts does not marshal: " + err.Error()) // cannot happen
	}
	return string(raw)
}

// preparedForOther reports whether a pod that was never released is prepared for levels other than the current ones of its group.
func preparedForOther(pod *corev1.Pod, sg *trellisv1alpha1.ScalingGroup) bool {
	levels := pod.Annotations[AnnotationLevels]
	return levels != "" && GateClosed(pod) && packs(sg.Spec.Topology) && levels != LevelKeys(sg.Spec.Topology)
}

// locate prepares a packed pod for its topology labels. The revision does not cover this, because the levels of a scaling group change
// only while no pod is released.
func locate(pod *corev1.Pod, w *whereabouts) {
	if w == nil {
		return
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[AnnotationLevels] = w.levels
	mountTopology(pod, w.files, w.env)
}

func envName(domain string) string {
	return strings.ToUpper(strings.ReplaceAll(domain, "-", "_"))
}

// mountTopology adds the files and variables to the main container and to a frontend alongside it. Variables of the user with the same
// name, and mounts at the same path, stay.
func mountTopology(pod *corev1.Pod, files *corev1.DownwardAPIVolumeSource, env []corev1.EnvVar) {
	volume := corev1.Volume{Name: topologyVolume, VolumeSource: corev1.VolumeSource{DownwardAPI: files}}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if i > 0 && indexEnv(c.Env, envComponent) < 0 {
			continue
		}
		all := make([]corev1.EnvVar, 0, len(env)+len(c.Env))
		for _, e := range env {
			if indexEnv(c.Env, e.Name) < 0 {
				all = append(all, e)
			}
		}
		c.Env = append(all, c.Env...)
		addFiles(&pod.Spec, files)
		addVolume(&pod.Spec, c, volume, corev1.VolumeMount{Name: topologyVolume, MountPath: topologyPath, ReadOnly: true})
	}
}

// addFiles adds missing files to the topology volume if a KV transfer policy has already added that volume.
func addFiles(spec *corev1.PodSpec, files *corev1.DownwardAPIVolumeSource) {
	for i := range spec.Volumes {
		v := &spec.Volumes[i]
		if v.Name != topologyVolume || v.DownwardAPI == nil || v.DownwardAPI == files {
			continue
		}
		for _, file := range files.Items {
			if !slices.ContainsFunc(v.DownwardAPI.Items, func(f corev1.DownwardAPIVolumeFile) bool { return f.Path == file.Path }) {
				v.DownwardAPI.Items = append(v.DownwardAPI.Items, file)
			}
		}
	}
}

// packs reports whether a constraint, required or preferred, packs the pods of a group or spreads its replicas.
func packs(t *trellisv1alpha1.ResolvedTopology) bool {
	packed := t != nil && (t.GraphPackDomain != "" || t.GraphPreferredPackDomain != "" || t.PackDomain != "" || t.PreferredPackDomain != "")
	return packed || constraint.Spread(t) || constraint.Transfers(t)
}

// TopologyLabels returns the labels that tell a pod its place, from the node labels to which it is pinned. A pod
// that was not prepared for them gets none.
func TopologyLabels(pod *corev1.Pod, pins map[string]string) map[string]string {
	var levels map[string]string
	if json.Unmarshal([]byte(pod.Annotations[AnnotationLevels]), &levels) != nil {
		return nil
	}
	labels := map[string]string{}
	for domain, key := range levels {
		if value, pinned := pins[key]; pinned {
			labels[topologyLabel(domain)] = value
		}
	}
	return labels
}
