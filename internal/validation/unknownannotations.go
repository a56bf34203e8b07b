// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"maps"
	"slices"
	"strings"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/field"
	"github.com/trellis-k8s/trellis/internal/nearest"
)

// ownDomain is the prefix of Trellis' own annotations.
const ownDomain = "trellis.dev/"

// usersAnnotations are the annotations that users may set, on a deployment or on the pods of its components.
var usersAnnotations = []string{
	"trellis.dev/capacity-request", "trellis.dev/compute-domain", "trellis.dev/compute-domain-per", "trellis.dev/distinct-hosts",
	"trellis.dev/engine", "trellis.dev/may-move", "trellis.dev/moves", "trellis.dev/provider",
	"trellis.dev/rolling-update-max-surge", "trellis.dev/rolling-update-max-unavailable", "trellis.dev/rollout-aborted",
	"trellis.dev/rollout-partition", "trellis.dev/rollout-paused", "trellis.dev/rollout-progress-deadline",
	"trellis.dev/worker-generations", "trellis.dev/workload",

	"kai.scheduler/topology", "kai.scheduler/topology-preferred-placement", "kai.scheduler/topology-required-placement",

	"dynamo.nvidia.com/gpu-power-limit", "nvidia.com/deployment-rolling-update-max-surge",
	"nvidia.com/deployment-rolling-update-max-unavailable", "nvidia.com/deployment-strategy", "nvidia.com/dynamo-discovery-backend",
	"nvidia.com/dynamo-kube-discovery-mode", "nvidia.com/dynamo-operator-origin-version", "nvidia.com/enable-grove",
	"nvidia.com/enable-metrics", "nvidia.com/grove-update-strategy", "nvidia.com/kai-scheduler-queue",
	"nvidia.com/vllm-distributed-executor-backend", "nvidia.com/volcano-queue", "nvidia.com/workload-provider",
}

// operatorsAnnotations are all other annotations of Trellis: annotations that only the operator sets, and annotations of objects other than
// deployments. They cause no warning, because a copied object may contain them.
var operatorsAnnotations = []string{
	"trellis.dev/applied-metadata", "trellis.dev/ask-for-quota-after", "trellis.dev/attempt", "trellis.dev/drain",
	"trellis.dev/epp-config", "trellis.dev/eviction-requested", "trellis.dev/follows-first-replicas", "trellis.dev/gang",
	"trellis.dev/gang-replicas", "trellis.dev/graph", "trellis.dev/groups-of-gang",
	"trellis.dev/is-default-topology", "trellis.dev/kueue-queue", "trellis.dev/left-out-of-cache", "trellis.dev/made-from",
	"trellis.dev/no-place", "trellis.dev/node-selector", "trellis.dev/queue", "trellis.dev/rolled-out", "trellis.dev/rollout-ask-frontends",
	"trellis.dev/topology-levels", "trellis.dev/version", "trellis.dev/workers-input",
}

// maxTypos is the maximum edit distance at which a key outside Trellis' domain is treated as a misspelled known key.
const maxTypos = 2

// longestKey bounds the length of keys that are compared with known keys. All known keys are shorter.
const longestKey = 80

// unknownAnnotation is an annotation with an unknown key. meant is the known key that the user probably meant; "" for none.
type unknownAnnotation struct {
	path  *field.Path
	meant string
}

// unknownAnnotations warns about annotations with misspelled keys, which have no effect.
func unknownAnnotations(dgd Written, _ *grovev1alpha1.ClusterTopology) []field.Text {
	var found []unknownAnnotation
	look := func(path *field.Path, annotations map[string]string) {
		for _, key := range slices.Sorted(maps.Keys(annotations)) {
			if meant, unknown := misspelled(key); unknown {
				found = append(found, unknownAnnotation{path.Key(short(key)), meant})
			}
		}
	}
	look(annotationsPath, dgd.Annotations)
	look(specPath.Child("annotations"), dgd.Spec.Annotations)
	for _, s := range dgd.components() {
		look(s.path.Child("podTemplate", "metadata", "annotations"), s.template().Annotations)
	}
	return grouped(found, func(a unknownAnnotation) *field.Path { return a.path }, func(a unknownAnnotation, path *field.Path) field.Text {
		if a.meant == "" {
			return field.Say("%s is not known and has no effect", path)
		}
		return field.Say("%s is not known and has no effect; did you mean %s?", path, a.meant)
	})
}

// misspelled reports whether a key is unknown although it has Trellis' domain or resembles a known key. meant is the known key that the
// user probably meant, or "".
func misspelled(key string) (meant string, unknown bool) {
	name, own := strings.CutPrefix(key, ownDomain)
	switch {
	case slices.Contains(usersAnnotations, key) || slices.Contains(operatorsAnnotations, key):
		return "", false
	case len(key) > longestKey:
		return "", own
	case !own:
		for _, known := range usersAnnotations {
			if n := len(known) - len(key); max(n, -n) <= maxTypos && nearest.Distance(key, known) <= maxTypos {
				return known, true
			}
		}
		return "", false
	}
	names := make([]string, 0, len(usersAnnotations))
	for _, known := range usersAnnotations {
		_, after, _ := strings.Cut(known, "/")
		names = append(names, after)
	}
	if i := slices.Index(names, nearest.Of(name, names)); i >= 0 {
		meant = usersAnnotations[i]
	}
	return meant, true
}
