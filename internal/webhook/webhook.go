// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package webhook wires defaulting, validation and warnings into the manager, and looks after their certificate. The rules themselves
// are in package validation; here is what it takes to ask them: the admission operation, and the objects other than the one admitted.
//
//	/mutate-nvidia-com-v1alpha1-dynamographdeployment     create, update          fails closed; not asked about a create that states all replicas
//	/validate-nvidia-com-v1alpha1-dynamographdeployment   create, update          fails closed; reads the ClusterTopology on create
//	/validate-nvidia-com-v1alpha1-dynamographdeploymentscalingadapter   create, update, scale   fails open: the number is checked again when carried
//	/validate-grove-io-v1alpha1-clustertopology           create, update, delete  fails open: it warns, and CEL says the rest
//	/validate-grove-io-v1alpha1-clustertopologybinding    create, update, delete  fails open: it warns only
//	/validate--v1-pod-eviction                            create                  fails open: disruption budgets bound evictions
//	/convert                                              reads, writes           package convert
//
// All of it is served by a manager of its own, which has no caches to wait for: where objects are stored in another version than the
// operator's caches list, their first list needs /convert. A replica serves from the moment its certificate is there, leader or not, and is
// ready once the API server trusts it.
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

// Paths the webhooks are served at, as in config/webhook.
const (
	mutateDeploymentPath   = "/mutate-nvidia-com-v1alpha1-dynamographdeployment"
	validateDeploymentPath = "/validate-nvidia-com-v1alpha1-dynamographdeployment"
	validateAdapterPath    = "/validate-nvidia-com-v1alpha1-dynamographdeploymentscalingadapter"
	validateTopologyPath   = "/validate-grove-io-v1alpha1-clustertopology"
	validateBindingPath    = "/validate-grove-io-v1alpha1-clustertopologybinding"
	validateEvictionPath   = "/validate--v1-pod-eviction"
)

// Options of the webhooks. The zero value serves nothing; with Admission or Conversion alone it works.
type Options struct {
	// Admission serves the webhooks that admit objects, Conversion the one that converts them.
	Admission, Conversion bool
	// NotActedOn lists the fields of a deployment that are accepted and have no effect, among them those that only v1alpha1 has.
	NotActedOn func(*nvidiav1beta1.DynamoGraphDeployment, nvidiav1alpha1.AlphaOnly) []render.Ignored
	// Warnings returns further things to tell the user about a deployment that is accepted, a sentence each.
	Warnings func(*nvidiav1beta1.DynamoGraphDeployment, nvidiav1alpha1.AlphaOnly) []field.Text
	// Provider is the operator's, of deployments that name none.
	Provider string
	// CertsReady is closed once the API server trusts what is served with; nil: it does.
	CertsReady <-chan struct{}
	// Ending is closed when this replica is about to end: from then on every answer ends its connection; nil: never.
	Ending <-chan struct{}
	// AnswerWithin bounds the time in which a request is read and its answer taken; 0: 30 seconds.
	AnswerWithin time.Duration
	// Live reads ClusterTopologies past the cache, which may not know yet that one was deleted; nil: the manager's API reader.
	Live client.Reader
	// Deployments lists the users of a ClusterTopology; nil: the manager's API reader.
	Deployments client.Reader
	// Evictions decides about evictions of pods; the zero value lets all of them pass.
	Evictions Evictions
	// MaxPods bounds the pods of one graph; 0: any number.
	MaxPods int64
	// ScalingUsers are the names of the users who may write the replicas that scaling adapters own. The operator's own is among them, or it
	// could carry no number.
	ScalingUsers []string
}

// SetupWithManager adds the webhooks to the manager's server, and the readiness check "webhooks". They are served as soon as the manager
// has started and there is a certificate, whether or not this replica leads.
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

// closing has callers give up their connections once ending is closed. The API server keeps connections, and a Service does not lead an
// existing one elsewhere. A server that ends closes those on which no one waits for an answer; a call that is sent at that moment fails,
// for the API server repeats none. A connection that its caller gives up after an answer carries no such call.
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

// trustedAnd fails until trusted is closed and the server answers.
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

// handlers is the list of all webhooks by path. Each turns a panic into an error.
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
