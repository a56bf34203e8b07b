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

// A packed pod can read its place. The pod's labels contain the path of its domain, one label per level. Inside the pod, files and
// environment variables contain the values of these labels.
//
//	nvidia.com/dynamo-topology.zone: zone-a      /etc/dynamo/topology/zone      $TRELLIS_TOPOLOGY_ZONE
//	nvidia.com/dynamo-topology.rack: rack-1      /etc/dynamo/topology/rack      $TRELLIS_TOPOLOGY_RACK
//
// The labels are set together with the pins, before the pod has a node. Labels of levels narrower than the pinned level stay empty.
const (
	LabelTopologyPrefix = "nvidia.com/dynamo-topology."

	topologyVolume   = "topology-labels"
	topologyPath     = "/etc/dynamo/topology"
	envTopologyPath  = "DYN_TOPOLOGY_MOUNT_PATH"
	envTopologyLevel = "TRELLIS_TOPOLOGY_"
	maxTopologyName  = 63 - len("dynamo-topology.")
)

// AnnotationLevels on a packed pod is a JSON object that maps the domain of each level in the pod's topology to a node label key.
const AnnotationLevels = "trellis.dev/topology-levels"

// topologyLabel returns the pod label of a level.
func topologyLabel(domain string) string {
	return LabelTopologyPrefix + fit(domain, domain, maxTopologyName)
}

// whereabouts holds the annotation, files and environment variables through which a scaling group's pods read their place. Several pods may
// share one whereabouts.
type whereabouts struct {
	levels string
	files  *corev1.DownwardAPIVolumeSource
	env    []corev1.EnvVar
}

// whereaboutsOf returns the whereabouts for a topology; nil if [packs] is false or no levels exist.
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

// LevelKeys returns the node label key of each level in a constraint, in the format of AnnotationLevels.
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

// preparedForOther reports whether a pod that was never released was prepared for other levels than its scaling group has now.
func preparedForOther(pod *corev1.Pod, sg *trellisv1alpha1.ScalingGroup) bool {
	levels := pod.Annotations[AnnotationLevels]
	return levels != "" && GateClosed(pod) && packs(sg.Spec.Topology) && levels != LevelKeys(sg.Spec.Topology)
}

// locate prepares a packed pod for its topology labels. The revision does not cover this preparation, because the levels of a scaling group
// change only while no pod is released.
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

// mountTopology adds the files and variables to the main container and to a frontend that runs alongside it. The user's variables of the
// same name, and the user's mounts at the same path, take precedence.
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

// addFiles adds the missing files to the topology volume if a KV transfer policy has already added this volume.
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

// packs reports whether a constraint, required or preferred, packs the pods of a scaling group, spreads its replicas, or places its pods
// for KV transfers.
func packs(t *trellisv1alpha1.ResolvedTopology) bool {
	packed := t != nil && (t.GraphPackDomain != "" || t.GraphPreferredPackDomain != "" || t.PackDomain != "" || t.PreferredPackDomain != "")
	return packed || constraint.Spread(t) || constraint.Transfers(t)
}

// TopologyLabels returns the labels from which a pod reads its place. The values come from pins, the node labels to which the pod is
// pinned. A pod that was not prepared for topology labels gets none.
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
