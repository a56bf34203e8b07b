// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"fmt"
	"os"
	"path/filepath"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/trellis-k8s/trellis/internal/provider/grove"
	"github.com/trellis-k8s/trellis/internal/provider/kai"
	"github.com/trellis-k8s/trellis/internal/provider/lws"
	"github.com/trellis-k8s/trellis/test/integration/peers/definitions"
)

// apis are the definitions of the newest releases and, in groups of their own, of Grove's older shapes.
type apis struct {
	crds      []*apiextensionsv1.CustomResourceDefinition
	groves    map[grove.Shape]*apiextensionsv1.CustomResourceDefinition
	resources map[string]schema.GroupVersionResource
}

// readAPIs reads them. No file holds Grove's shape between the oldest and the newest; it is the oldest with a name alongside the domain and
// without the fixed list of domains.
func readAPIs() (*apis, error) {
	a := &apis{groves: map[grove.Shape]*apiextensionsv1.CustomResourceDefinition{}, resources: map[string]schema.GroupVersionResource{}}
	for kind, file := range map[schema.GroupVersionKind]string{
		kai.TopologyKind:                 "kai/kai.scheduler_topologies.yaml",
		kai.PodGroupKind:                 "kai/scheduling.run.ai_podgroups.yaml",
		kai.SchedulingShardKind:          "kai/kai.scheduler_schedulingshards.yaml",
		lws.Kind:                         "lws/leaderworkerset.x-k8s.io_leaderworkersets.yaml",
		grove.PodCliqueSetKind:           "grove/grove.io_podcliquesets.yaml",
		grove.PodCliqueKind:              "grove/grove.io_podcliques.yaml",
		grove.PodCliqueScalingGroupKind:  "grove/grove.io_podcliquescalinggroups.yaml",
		grove.ClusterTopologyBindingKind: "grove/grove.io_clustertopologybindings.yaml",
	} {
		crd, err := definition(file)
		if err != nil {
			return nil, err
		}
		if crd.Spec.Group != kind.Group || crd.Spec.Names.Kind != kind.Kind {
			return nil, fmt.Errorf("%s defines %s of %s, want %s", file, crd.Spec.Names.Kind, crd.Spec.Group, kind)
		}
		a.resources[kind.Kind] = kind.GroupVersion().WithResource(crd.Spec.Names.Plural)
		a.crds = append(a.crds, crd)
		if kind == grove.PodCliqueSetKind {
			a.groves[grove.ShapePack] = crd
		}
	}
	for _, shape := range []grove.Shape{grove.ShapePackDomain, grove.ShapeNamed} {
		crd, err := definition("grove/grove.io_podcliquesets.v0.1.0-alpha.8.yaml")
		if err != nil {
			return nil, err
		}
		crd.Spec.Group = map[grove.Shape]string{grove.ShapePackDomain: "alpha8.grove.io", grove.ShapeNamed: "alpha9.grove.io"}[shape]
		crd.Name = crd.Spec.Names.Plural + "." + crd.Spec.Group
		if shape == grove.ShapeNamed {
			nameTopologies(crd.Spec.Versions[0].Schema.OpenAPIV3Schema)
		}
		a.groves[shape] = crd
		a.crds = append(a.crds, crd)
	}
	return a, nil
}

func definition(file string) (*apiextensionsv1.CustomResourceDefinition, error) {
	dir := os.Getenv("TRELLIS_PEER_DEFINITIONS")
	if dir == "" {
		return definitions.Load(file)
	}
	raw, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return nil, err
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	return crd, yaml.Unmarshal(raw, crd)
}

// nameTopologies gives every topologyConstraint of a schema a topologyName and free domains.
func nameTopologies(s *apiextensionsv1.JSONSchemaProps) {
	for name, property := range s.Properties {
		if name == "topologyConstraint" {
			property.Properties = map[string]apiextensionsv1.JSONSchemaProps{
				"topologyName": {Type: "string"},
				"packDomain":   {Type: "string", Pattern: "^[a-z][a-z0-9-]*$"},
			}
		} else {
			nameTopologies(&property)
		}
		s.Properties[name] = property
	}
	if s.Items != nil && s.Items.Schema != nil {
		nameTopologies(s.Items.Schema)
	}
}
