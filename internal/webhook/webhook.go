// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package webhook wires defaulting, validation and warnings into the manager, and maintains their certificate. Package validation holds
// the rules; this package provides their inputs: the admission operation, and objects other than the admitted one.
//
//	/mutate-nvidia-com-v1alpha1-dynamographdeployment     create, update          fails closed; not asked about a create that states all replicas
//	/validate-nvidia-com-v1alpha1-dynamographdeployment   create, update          fails closed; reads the ClusterTopology on create
//	/validate-nvidia-com-v1alpha1-dynamographdeploymentscalingadapter   create, update, scale   fails open: the number is checked again when carried
//	/validate-grove-io-v1alpha1-clustertopology           create, update, delete  fails open: it warns, and CEL says the rest
//	/validate-grove-io-v1alpha1-clustertopologybinding    create, update, delete  fails open: it warns only
//	/validate--v1-pod-eviction                            create                  fails open: disruption budgets bound evictions
//	/convert                                              reads, writes           package convert
//
// A separate manager without caches serves all of it: if stored objects have another version than the operator's caches list, the first
// list of the caches needs /convert. A replica serves as soon as it has its certificate, leader or not, and is ready once the API
// server trusts the certificate.
package webhook

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/field"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topologies"
	"github.com/trellis-k8s/trellis/internal/webhook/convert"
)

// Paths of the webhooks, as in config/webhook.
const (
	mutateDeploymentPath   = "/mutate-nvidia-com-v1alpha1-dynamographdeployment"
	validateDeploymentPath = "/validate-nvidia-com-v1alpha1-dynamographdeployment"
	validateAdapterPath    = "/validate-nvidia-com-v1alpha1-dynamographdeploymentscalingadapter"
	validateTopologyPath   = "/validate-grove-io-v1alpha1-clustertopology"
	validateBindingPath    = "/validate-grove-io-v1alpha1-clustertopologybinding"
	validateEvictionPath   = "/validate--v1-pod-eviction"
)

// Options of the webhooks. The zero value serves nothing; Admission and Conversion work independently.
type Options struct {
	// Admission serves the admission webhooks, Conversion the conversion webhook.
	Admission, Conversion bool
	// NotActedOn lists the fields of a deployment that are accepted without effect, including those that only v1alpha1 has.
	NotActedOn func(*nvidiav1beta1.DynamoGraphDeployment, nvidiav1alpha1.AlphaOnly) []render.Ignored
	// Warnings returns further warnings about an accepted deployment, one sentence each.
	Warnings func(*nvidiav1beta1.DynamoGraphDeployment, nvidiav1alpha1.AlphaOnly) []field.Text
	// Provider is the operator's, for deployments that name none.
	Provider string
	// CertsReady is closed once the API server trusts the served certificate; nil: it does.
	CertsReady <-chan struct{}
	// Ending is closed when this replica is about to end: from then on every response closes its connection. nil: never.
	Ending <-chan struct{}
	// AnswerWithin bounds the time to read a request and to write its response; 0: 30 seconds.
	AnswerWithin time.Duration
	// Live reads ClusterTopologies from the API server, because the cache may lag behind a delete; nil: the manager's API reader.
	Live client.Reader
	// Deployments lists the users of a ClusterTopology; nil: the manager's API reader.
	Deployments client.Reader
	// Evictions decides about evictions of pods; the zero value allows all of them.
	Evictions Evictions
	// MaxPods bounds the pods of one graph; 0: any number.
	MaxPods int64
	// ScalingUsers are the names of the users who may write replicas that scaling adapters own, including the operator itself.
	ScalingUsers []string
}

// SetupWithManager adds the webhooks to the manager's server, and the readiness check "webhooks". They are served as soon as the manager
// has started and has a certificate, whether or not this replica leads.
func SetupWithManager(mgr ctrl.Manager, opts Options) error {
	if opts.Live == nil {
		opts.Live = mgr.GetAPIReader()
	}
	opts.Live = topologies.Reader{Reader: opts.Live}
	if opts.Deployments == nil {
		opts.Deployments = mgr.GetAPIReader()
	}
	server := mgr.GetWebhookServer()
	serve := func(path string, hook http.Handler, bounds *inFlight) {
		server.Register(path, within(cmp.Or(opts.AnswerWithin, answerWithin), closing(bounds.bound(hook), opts.Ending)))
	}
	if opts.Conversion {
		serve(convert.Path, convert.Handler(), newInFlight())
	}
	if opts.Admission {
		bounds := newInFlight()
		for path, hook := range handlers(mgr.GetScheme(), opts) {
			serve(path, hook, bounds)
		}
	}
	if err := mgr.AddReadyzCheck("webhooks", trustedAnd(opts.CertsReady, server.StartedChecker())); err != nil {
		return fmt.Errorf("adding the readiness check of the webhooks: %w", err)
	}
	return nil
}

// closing makes callers close their connections once ending is closed. The API server reuses connections, and a Service does not move
// existing ones. A stopping server closes idle connections; a call that arrives at that moment fails, since the API server does not
// retry. A connection that its caller closes after a response carries no such call.
func closing(hook http.Handler, ending <-chan struct{}) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-ending:
			w.Header().Set("Connection", "close")
		default:
		}
		hook.ServeHTTP(w, r)
	})
}

// trustedAnd fails until trusted is closed and the server has started.
func trustedAnd(trusted <-chan struct{}, started healthz.Checker) healthz.Checker {
	return func(req *http.Request) error {
		if trusted != nil {
			select {
			case <-trusted:
			default:
				return errors.New("waiting for the webhooks' certificate")
			}
		}
		return started(req)
	}
}

// handlers lists all webhooks by path. Each converts a panic into an error.
func handlers(scheme *runtime.Scheme, opts Options) map[string]*admission.Webhook {
	defaulting := admission.WithDefaulter(scheme, deploymentDefaulter{scalingUsers: opts.ScalingUsers})
	defaulting.Handler = warner{defaulting.Handler}
	return map[string]*admission.Webhook{
		mutateDeploymentPath: defaulting,
		validateDeploymentPath: {Handler: &deploymentValidator{
			live: opts.Live, notActedOn: opts.NotActedOn, warnings: opts.Warnings, provider: opts.Provider, maxPods: opts.MaxPods,
		}, RecoverPanic: ptr.To(true)},
		validateAdapterPath:  {Handler: &adapterValidator{live: opts.Live, maxPods: opts.MaxPods}, RecoverPanic: ptr.To(true)},
		validateTopologyPath: admission.WithValidator(scheme, &topologyValidator{deployments: opts.Deployments}),
		validateBindingPath: admission.WithValidator(scheme, &bindingValidator{
			topologyValidator: topologyValidator{deployments: opts.Deployments}, live: opts.Live,
		}),
		validateEvictionPath: {Handler: &evictionValidator{opts.Evictions}, RecoverPanic: ptr.To(true)},
	}
}
