// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cli contains the code that the subcommands of kubectl trellis share: connecting to a cluster, and reading arguments. Each
// subcommand is a package below this package. It reads objects, builds a report from them, and renders the report. Only reading needs a
// cluster. Building and rendering are pure.
package cli

import (
	"fmt"
	"net/http"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/nvlink"
	"github.com/trellis-k8s/trellis/internal/topologybinding"
)

// NewScheme returns a scheme with the kinds that subcommands read.
func NewScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, nvidiav1alpha1.AddToScheme, nvidiav1beta1.AddToScheme, grovev1alpha1.AddToScheme, trellisv1alpha1.AddToScheme,
		nvlink.AddToScheme, topologybinding.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return scheme, nil
}

// NewClient connects to the cluster that the user's flags and kubeconfig select. It also returns the selected namespace.
func NewClient(flags *genericclioptions.ConfigFlags) (c client.Client, namespace string, err error) {
	namespace, _, err = flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, "", fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config, err := flags.ToRESTConfig()
	if err != nil {
		return nil, "", fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.QPS = -1 // a few lists need no rate limit
	clock := &ahead{by: &atomic.Int64{}}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &ahead{next, clock.by} })
	scheme, err := NewScheme()
	if err != nil {
		return nil, "", err
	}
	c, err = client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, "", fmt.Errorf("connecting to %s: %w", config.Host, err)
	}
	server, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, "", fmt.Errorf("connecting to %s: %w", config.Host, err)
	}
	return dated{c, clock, server}, namespace, nil
}

// Explain wraps an error of the API server. If the cluster does not know the kind, the message asks whether Trellis is installed.
func Explain(err error, doing string) error {
	if meta.IsNoMatchError(err) {
		return fmt.Errorf("%s: the cluster does not know this kind; is Trellis installed there? (%w)", doing, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}
