// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package definitions has the custom resource definitions of KAI Scheduler, Grove and LeaderWorkerSet as far as Trellis writes and reads
// their objects, so that tests of what Trellis writes need nothing alongside the repository.
//
// They are derived from the real ones: types, formats, enums, patterns, limits, defaults, required fields and CEL rules are theirs, so an
// object of Trellis that the real definition refuses or prunes is refused or pruned here. What Trellis neither writes nor reads is left
// out, unless it is required or a rule names it; so a strict client may be refused here what the real definition takes. There is no prose.
//
// One file a definition, in data. Its first lines name the source and its digest; each further line is a path and its schema:
//
//	spec.replicas {"type":"integer","format":"int32"}
//	spec.template.cliques[].labels{} {"type":"string"}
//	spec.template.cliques[].spec.podSpec {"use":"podspec","without":[".workloadRef"]}
//
// [] is the items of a list, {} the values of a map. A pod's spec is the same everywhere but for some fields, so it is in a file of its
// own. hack/peercrds writes the files.
package definitions

import (
	"embed"
	"fmt"
	"path"
	"reflect"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/trellis-k8s/trellis/internal/provider/grove"
	"github.com/trellis-k8s/trellis/internal/provider/kai"
	"github.com/trellis-k8s/trellis/internal/provider/lws"
)

// Types are what Trellis writes and reads of each definition, by the file that has the real one. all is a small definition without the
// specs of pods: it is kept whole.
var Types = map[string]reflect.Type{
	"kai/kai.scheduler_topologies.yaml":                  all,
	"kai/scheduling.run.ai_podgroups.yaml":               all,
	"kai/kai.scheduler_schedulingshards.yaml":            reflect.TypeFor[kai.SchedulingShard](),
	"lws/leaderworkerset.x-k8s.io_leaderworkersets.yaml": reflect.TypeFor[lws.LeaderWorkerSet](),
	"grove/grove.io_podcliquesets.yaml":                  reflect.TypeFor[grove.PodCliqueSet](),
	"grove/grove.io_podcliquesets.v0.1.0-alpha.8.yaml":   reflect.TypeFor[grove.PodCliqueSet](),
	"grove/grove.io_podcliques.yaml":                     all,
	"grove/grove.io_podcliquescalinggroups.yaml":         all,
	"grove/grove.io_clustertopologybindings.yaml":        all,
}

var all = reflect.TypeFor[any]()

// podSpec is the file that the specs of all pods are in.
const podSpec = "podspec"

//go:embed data
var data embed.FS

// Load returns the derived definition of a file that Types names.
func Load(file string) (*apiextensionsv1.CustomResourceDefinition, error) {
	specs, err := data.ReadFile(dataFile(podSpec))
	if err != nil {
		return nil, err
	}
	pods, err := parsePodSpec(string(specs))
	if err != nil {
		return nil, err
	}
	text, err := data.ReadFile(dataFile(file))
	if err != nil {
		return nil, err
	}
	crd, err := Parse(string(text), pods)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dataFile(file), err)
	}
	return crd, nil
}

func dataFile(file string) string { return path.Join("data", Name(file)) }

// Name of the derived file.
func Name(file string) string { return strings.TrimSuffix(path.Base(file), ".yaml") + ".txt" }
