// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package peers proves on a real API server that the definitions of KAI Scheduler, Grove and LeaderWorkerSet accept what Trellis renders,
// keep all of it, and that their status reads back in our words. Their operators do not run: status is written by hand, and their admission
// webhooks are played (see providertest). Trellis' own operator does, for the deployments of one namespace; what happens there goes
// through all of it.
//
// The definitions are those derived from the peers' own (see package definitions). With TRELLIS_PEER_DEFINITIONS set to a folder that has the
// real ones, they are these.
package peers

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"github.com/trellis-k8s/trellis/internal/operator"
	"github.com/trellis-k8s/trellis/internal/provider/grove"
	"github.com/trellis-k8s/trellis/internal/provider/kai"
	"github.com/trellis-k8s/trellis/internal/provider/lws"
	"github.com/trellis-k8s/trellis/test/integration/peers/definitions"
	"github.com/trellis-k8s/trellis/test/rights"
	"github.com/trellis-k8s/trellis/test/testutil/apiserver"
	"github.com/trellis-k8s/trellis/test/testutil/conversion"
)

const missingAssets = `KUBEBUILDER_ASSETS is not set: these tests need the directory that holds kube-apiserver and etcd.
Let the sandbox build and print it (the first build takes minutes), then run the tests again:

    export KUBEBUILDER_ASSETS=$(go run ./cmd/kubectl-trellis sandbox binaries)
`

const namespace = "default"

var (
	sharedDir = filepath.Join("..", "..", "..", "..", "shared")

	restConfig *rest.Config

	client *dynamic.DynamicClient
	// typed is the operator's client, without a cache.
	typed ctrlclient.Client
	// groves are the PodCliqueSets of three releases by shape, each served in a group of its own so that all are there at once.
	groves = map[grove.Shape]*apiextensionsv1.CustomResourceDefinition{}
	// resources by kind, the newest of Grove's.
	resources = map[string]schema.GroupVersionResource{}
)

func TestMain(m *testing.M) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		fmt.Fprint(os.Stderr, missingAssets)
		os.Exit(1)
	}
	os.Exit(rights.Of("peers").Finish(runSuite(m)))
}

func runSuite(m *testing.M) int {
	log.SetLogger(logr.Discard())
	crds, err := allDefinitions()
	if err != nil {
		fmt.Fprintln(os.Stderr, "reading the definitions:", err)
		return 1
	}
	env := &envtest.Environment{WebhookInstallOptions: registered()}
	config, err := apiserver.Launch(env)
	if err != nil {
		fmt.Fprintln(os.Stderr, "starting the API server:", err)
		return 1
	}
	defer func() {
		if err := env.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stopping the API server:", err)
		}
	}()
	server := conversion.Serve()
	defer server.Close()
	if err := server.Install(config, filepath.Join("..", "..", "..", "config", "crd", "bases"), crds...); err != nil {
		fmt.Fprintln(os.Stderr, "installing the definitions:", err)
		return 1
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	serveWebhooks(ctx, env.WebhookInstallOptions)
	config.QPS = -1
	restConfig = config
	config.WarningHandler = rest.NoWarnings{}
	client = dynamic.NewForConfigOrDie(config)
	if typed, err = ctrlclient.New(config, ctrlclient.Options{Scheme: operator.NewScheme()}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := served(context.Background(), crds); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctrl.SetLogger(logr.Discard())
	stop, err := operate(config)
	if err != nil {
		fmt.Fprintln(os.Stderr, "starting the operator:", err)
		return 1
	}
	defer stop()
	return m.Run()
}

// allDefinitions are those of the newest releases and, in groups of their own, of Grove's older shapes. No file holds the shape between the
// oldest and the newest; it is the oldest with a name beside the domain and without the fixed list of domains.
func allDefinitions() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	var crds []*apiextensionsv1.CustomResourceDefinition
	for kind, file := range map[schema.GroupVersionKind]string{
		kai.TopologyKind:                 "kai/kai.scheduler_topologies.yaml",
		kai.PodGroupKind:                 "kai/scheduling.run.ai_podgroups.yaml",
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
		resources[kind.Kind] = kind.GroupVersion().WithResource(crd.Spec.Names.Plural)
		crds = append(crds, crd)
		if kind == grove.PodCliqueSetKind {
			groves[grove.ShapePack] = crd
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
		groves[shape] = crd
		crds = append(crds, crd)
	}
	return crds, nil
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

// served returns when the API server answers for all definitions: it says that one is established a moment before it serves it.
func served(ctx context.Context, crds []*apiextensionsv1.CustomResourceDefinition) error {
	for _, crd := range crds {
		resource := schema.GroupVersionResource{Group: crd.Spec.Group, Version: crd.Spec.Versions[0].Name, Resource: crd.Spec.Names.Plural}
		err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
			_, err := client.Resource(resource).List(ctx, metav1.ListOptions{})
			return err == nil, nil
		})
		if err != nil {
			return fmt.Errorf("waiting for %s to be served: %w", crd.Name, err)
		}
	}
	return nil
}
