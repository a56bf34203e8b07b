// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

// Paths of the manifests in the clone.
const (
	samplesDir  = "config/samples"
	rejectedDir = samplesDir + "/rejected"
	// neighboursFile has the pods of another team, which use up capacity.
	neighboursFile = samplesDir + "/neighbours/training.yaml"
	// whatifFile has a deployment that the demo plans and does not apply.
	whatifFile = samplesDir + "/whatif/new-llm.yaml"
)

// samples are the manifests that the demo uses.
type samples struct {
	topologyFile string
	topology     grovev1alpha1.ClusterTopology
	graphs       []graphSample
	rejected     []rejectedSample
}

type graphSample struct {
	file  string
	graph nvidiav1beta1.DynamoGraphDeployment
}

// rejectedSample is an invalid manifest, with the comment at its top as the reason.
type rejectedSample struct{ file, why string }

func readSamples(root string) (*samples, error) {
	s := &samples{}
	files, err := manifests(root, samplesDir)
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if err := s.read(root, file); err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
	}
	if s.topologyFile == "" || len(s.graphs) == 0 {
		return nil, fmt.Errorf("%s holds no ClusterTopology, or no DynamoGraphDeployment", samplesDir)
	}
	rejected, err := manifests(root, rejectedDir)
	if err != nil {
		return nil, err
	}
	for _, file := range rejected {
		data, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return nil, err
		}
		if kindOf(data) != "" {
			s.rejected = append(s.rejected, rejectedSample{file, firstComment(string(data))})
		}
	}
	return s, nil
}

// manifests lists the YAML files of a directory, sorted by name.
func manifests(root, dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(root, dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	slices.Sort(files)
	for i, file := range files {
		files[i] = dir + "/" + filepath.Base(file)
	}
	return files, nil
}

// read reads the ClusterTopology or the graph of a file, and ignores objects of other kinds.
func (s *samples) read(root, file string) error {
	data, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		return err
	}
	switch kindOf(data) {
	case kindTopology:
		s.topologyFile = file
		return yaml.UnmarshalStrict(data, &s.topology)
	case kindGraph:
		g := graphSample{file: file}
		if err := yaml.UnmarshalStrict(data, &g.graph); err != nil {
			return err
		}
		s.graphs = append(s.graphs, g)
	}
	return nil
}

// Kinds of samples.
const (
	kindTopology = "ClusterTopology"
	kindGraph    = "DynamoGraphDeployment"
)

// kindOf is the kind of a manifest, or "" for a kind that the demo does not use. Of an invalid manifest only the kind must be readable.
func kindOf(manifest []byte) string {
	var object struct {
		Kind string `json:"kind"`
	}
	if err := yaml.Unmarshal(manifest, &object); err != nil || object.Kind != kindTopology && object.Kind != kindGraph {
		return ""
	}
	return object.Kind
}

// firstComment is the comment at the top of a manifest as one line.
func firstComment(manifest string) string {
	var words []string
	for line := range strings.Lines(manifest) {
		comment, ok := strings.CutPrefix(strings.TrimSpace(line), "#")
		if !ok {
			break
		}
		words = append(words, strings.Fields(comment)...)
	}
	return strings.Join(words, " ")
}

// level is the index of the topology level of a domain.
func (s *samples) level(domain string) (int, error) {
	i := slices.IndexFunc(s.topology.Spec.Levels, func(l grovev1alpha1.TopologyLevel) bool { return l.Domain == domain })
	if i < 0 {
		return 0, fmt.Errorf("%s has no level %q", s.topologyFile, domain)
	}
	return i, nil
}

// usersOf are the names of the graphs whose topology constraints name a domain.
func (s *samples) usersOf(domain string) []string {
	var names []string
	for _, g := range s.graphs {
		c := g.graph.Spec.TopologyConstraint
		uses := c != nil && (c.PackDomain == domain || c.PreferredPackDomain == domain)
		for _, component := range g.graph.Spec.Components {
			if c := component.TopologyConstraint; c != nil {
				uses = uses || c.PackDomain == domain || c.PreferredPackDomain == domain
			}
		}
		if uses {
			names = append(names, g.graph.Name)
		}
	}
	return names
}

// packed is a multinode component each replica of which fills one domain of a level.
type packed struct {
	graph, component string
	replicas         int32
	// within is the level that the whole graph is packed into; empty for none.
	within string
}

// packedIn finds a packed component for a level whose domains have this number of hosts.
func (s *samples) packedIn(domain string, hosts int) (packed, error) {
	for _, g := range s.graphs {
		for _, component := range g.graph.Spec.Components {
			c, m := component.TopologyConstraint, component.Multinode
			if c == nil || c.PackDomain != domain || m == nil || int(m.NodeCount) != hosts {
				continue
			}
			p := packed{graph: g.graph.Name, component: component.Name, replicas: ptr.Deref(component.Replicas, 1)}
			if all := g.graph.Spec.TopologyConstraint; all != nil {
				p.within = all.PackDomain
			}
			return p, nil
		}
	}
	return packed{}, fmt.Errorf("no sample has a multinode component of %d hosts packed in one %s", hosts, domain)
}
