// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package webhook wires defaulting, validation and warnings into the manager, and looks after their certificate. The rules themselves
// are in package validation; here is what it takes to ask them: the admission operation, and the objects other than the one admitted.
//
//	/mutate-nvidia-com-v1alpha1-dynamographdeployment     create, update          fails closed
//	/validate-nvidia-com-v1alpha1-dynamographdeployment   create, update          fails closed; reads the ClusterTopology on create
//	/validate-nvidia-com-v1alpha1-dynamographdeploymentscalingadapter   create, update, scale   fails open: the number is checked again when carried
//	/validate-grove-io-v1alpha1-clustertopology           create, update, delete  fails open: it warns, and CEL says the rest
//
// A replica serves from the moment its certificate is there, leader or not, and is ready only then.
package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
)

// Paths the webhooks are served at, as in config/webhook.
const (
	mutateDeploymentPath   = "/mutate-nvidia-com-v1alpha1-dynamographdeployment"
	validateDeploymentPath = "/validate-nvidia-com-v1alpha1-dynamographdeployment"
	validateAdapterPath    = "/validate-nvidia-com-v1alpha1-dynamographdeploymentscalingadapter"
	validateTopologyPath   = "/validate-grove-io-v1alpha1-clustertopology"
)

// Options of the webhooks. The zero value works: no warnings about fields, and a certificate that is there already.
type Options struct {
	// NotActedOn lists, by path, the fields of a deployment that are accepted and have no effect.
	NotActedOn func(*nvidiav1alpha1.DynamoGraphDeployment) []string
	// Warnings returns further things to tell the user about a deployment that is accepted, a sentence each.
	Warnings func(*nvidiav1alpha1.DynamoGraphDeployment) []string
	// UnderGrove says that Grove makes the pods of a deployment; nil: of none.
	UnderGrove func(*nvidiav1alpha1.DynamoGraphDeployment) bool
	// CertsReady is closed once there is a certificate to serve with; nil: there is one.
	CertsReady <-chan struct{}
	// Live reads ClusterTopologies past the cache, which may not know yet that one was deleted; nil: the manager's API reader.
	Live client.Reader
	// Deployments lists the users of a ClusterTopology; nil: the manager's client.
	Deployments client.Reader
	// MaxPods bounds the pods of one graph; 0: any number.
	MaxPods int64
}

// SetupWithManager adds the webhooks to the manager, and the readiness check "webhooks". They are served once CertsReady is closed,
// whether or not this replica leads.
func SetupWithManager(mgr ctrl.Manager, opts Options) error {
	if opts.Live == nil {
		opts.Live = mgr.GetAPIReader()
	}
	if opts.Deployments == nil {
		opts.Deployments = mgr.GetClient()
	}
	s := &server{mgr: mgr, hooks: handlers(mgr.GetScheme(), opts), certsReady: opts.CertsReady}
	if err := mgr.AddReadyzCheck("webhooks", s.ready); err != nil {
		return fmt.Errorf("adding the readiness check of the webhooks: %w", err)
	}
	if err := mgr.Add(s); err != nil {
		return fmt.Errorf("adding the webhooks: %w", err)
	}
	return nil
}

// handlers is the list of all webhooks by path. Each turns a panic into an error.
func handlers(scheme *runtime.Scheme, opts Options) map[string]*admission.Webhook {
	defaulting := admission.WithDefaulter(scheme, deploymentDefaulter{})
	defaulting.Handler = warner{defaulting.Handler}
	return map[string]*admission.Webhook{
		mutateDeploymentPath: defaulting,
		validateDeploymentPath: admission.WithValidator(scheme, &deploymentValidator{
			live: opts.Live, notActedOn: opts.NotActedOn, warnings: opts.Warnings, underGrove: opts.UnderGrove, maxPods: opts.MaxPods,
		}),
		validateAdapterPath:  {Handler: &adapterValidator{live: opts.Live, maxPods: opts.MaxPods}, RecoverPanic: ptr.To(true)},
		validateTopologyPath: admission.WithValidator(scheme, &topologyValidator{deployments: opts.Deployments}),
	}
}

// server starts the manager's webhook server as soon as there is a certificate: started without, it would end the whole program.
type server struct {
	mgr        ctrl.Manager
	hooks      map[string]*admission.Webhook
	certsReady <-chan struct{}
	// started checks the running server; nil until it runs.
	started atomic.Pointer[healthz.Checker]
}

// NeedLeaderElection is false: the API server calls any replica.
func (s *server) NeedLeaderElection() bool { return false }

// Start waits for the certificate and hands the webhooks to the manager's server, which runs from then on.
func (s *server) Start(ctx context.Context) error {
	if s.certsReady != nil {
		select {
		case <-s.certsReady:
		case <-ctx.Done():
			return nil
		}
	}
	select {
	case <-ctx.Done():
		return nil // on the way down nothing can be added to the manager
	default:
	}
	webhooks := s.mgr.GetWebhookServer()
	for path, hook := range s.hooks {
		webhooks.Register(path, hook)
	}
	started := webhooks.StartedChecker()
	s.started.Store(&started)
	return nil
}

// ready fails until the webhooks are served with a certificate.
func (s *server) ready(req *http.Request) error {
	started := s.started.Load()
	if started == nil {
		return errors.New("waiting for the webhooks' certificate")
	}
	return (*started)(req)
}
