// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/provider/grove"
	"github.com/trellis-k8s/trellis/internal/provider/kai"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/hub"
	"github.com/trellis-k8s/trellis/test/testutil/providertest"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// sharedDir has the manifests of users, where it lies next to the repository.
var sharedDir = filepath.Join("..", "..", "..", "..", "shared")

var _ = Describe("A manifest that users have", labelKAI, labelGrove, labelLWS, func() {
	all, err := manifests()
	if err != nil || len(all) == 0 {
		It("is taken whole by the definitions of the peers", func() {
			Expect(err).NotTo(HaveOccurred())
			Skip("no manifests next to the repository")
		})
		return
	}
	DescribeTable("is taken whole by the definitions of the peers", func(ctx SpecContext, dgd *nvidiav1beta1.DynamoGraphDeployment) {
		topology := providertest.Topology()
		if c := dgd.Spec.TopologyConstraint; c != nil {
			topology.Name = c.ClusterTopologyName
		}
		resolved, err := render.Resolve(dgd, render.Inputs{Topology: topology, Provider: "KAI"})
		if err != nil {
			Skip("Trellis itself refuses it: " + err.Error())
		}
		groups := resolved.ScalingGroups()
		k := kai.Input{Namespace: namespace, Name: dgd.Name, Queue: "q", Topology: topology.Name, Groups: groups}
		if pg := kai.RenderPodGroup(k); pg != nil {
			accepted(ctx, sent(pg, ""), metav1.DryRunAll)
		}
		for _, set := range providertest.Sets(groups, k.Prepare) {
			accepted(ctx, sent(set, ""), metav1.DryRunAll)
		}
		for shape := range groves {
			g := grove.Input{Namespace: namespace, Name: dgd.Name, Queue: "q", Groups: groups}
			accepted(ctx, sent(grove.Render(g, schemaOf(shape)), shape), metav1.DryRunAll)
		}
	}, suite.Entries(all, SpecTimeout(suite.Timeout())))
})

// manifests are what users have today, by file and name.
func manifests() (map[string]*nvidiav1beta1.DynamoGraphDeployment, error) {
	files, err := filepath.Glob(filepath.Join(sharedDir, "manifests", "*.yaml"))
	if err != nil {
		return nil, err
	}
	out := map[string]*nvidiav1beta1.DynamoGraphDeployment{}
	for _, file := range files {
		if err := readManifest(file, out); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return out, nil
}

func readManifest(file string, into map[string]*nvidiav1beta1.DynamoGraphDeployment) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	documents := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), 4096)
	for {
		content := map[string]any{}
		if err := documents.Decode(&content); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if content["kind"] != "DynamoGraphDeployment" || content["apiVersion"] != "nvidia.com/v1alpha1" {
			continue
		}
		text, err := json.Marshal(content)
		if err != nil {
			return err
		}
		dgd := &nvidiav1alpha1.DynamoGraphDeployment{}
		if err := json.Unmarshal(text, dgd); err != nil {
			return err
		}
		dgd.Namespace = namespace
		into[filepath.Base(file)+"/"+dgd.Name] = hub.Of(dgd)
	}
}
