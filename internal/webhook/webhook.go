// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package webhook adds defaulting, validation and warnings to the manager, and maintains the certificate of the webhooks. Package
// validation contains the rules. This package provides the inputs for the rules: the admission operation, and objects other than the
// admitted one.
//
//	/mutate-nvidia-com-v1alpha1-dynamographdeployment     create, update          fails closed; not called if a create sets all replicas
//	/validate-nvidia-com-v1alpha1-dynamographdeployment   create, update          fails closed; reads the ClusterTopology on create
//	/validate-nvidia-com-v1alpha1-dynamographdeploymentscalingadapter   create, update, scale   fails open: the copied number is checked
//	/validate-grove-io-v1alpha1-clustertopology           create, update, delete  fails open: it warns; CEL validates the rest
//	/validate-grove-io-v1alpha1-clustertopologybinding    create, update, delete  fails open: it warns only
//	/validate--v1-pod-eviction                            create                  fails open: disruption budgets bound evictions
//	/convert                                              reads, writes           package convert
//
// A separate manager without caches serves all webhooks. The operator's manager cannot serve them: if the stored version of objects differs
// from the version that the operator's caches list, the first list of the caches already needs /convert. A replica of the operator serves
// as soon as it has its certificate, leader or not. It is ready once the API server trusts the certificate.
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

// Options are the settings of the webhooks. The zero value serves nothing. Admission and Conversion can be enabled independently.
type Options struct {
	// Admission serves the admission webhooks, Conversion the conversion webhook.
	Admission, Conversion bool
	// NotActedOn lists the fields of a deployment that are accepted but have no effect, including fields that only v1alpha1 has.
	NotActedOn func(*nvidiav1beta1.DynamoGraphDeployment, nvidiav1alpha1.AlphaOnly) []render.Ignored
	// Warnings returns additional warnings about an accepted deployment, one sentence per warning.
	Warnings func(*nvidiav1beta1.DynamoGraphDeployment, nvidiav1alpha1.AlphaOnly) []field.Text
	// Provider is the operator's setting for deployments that name no provider.
	Provider string
	// CertsReady is closed once the API server trusts the served certificate; nil: the API server already trusts the certificate.
	CertsReady <-chan struct{}
	// Ending is closed when this replica of the operator is about to stop. From then on, every response closes its connection. nil:
	// responses never close their connections.
	Ending <-chan struct{}
	// AnswerWithin bounds the time to read a request and to write its response; 0: 30 seconds.
	AnswerWithin time.Duration
	// Live reads ClusterTopologies from the API server, because the cache may not show a delete yet; nil for the manager's API reader.
	Live client.Reader
	// Deployments lists the deployments that use a ClusterTopology; nil for the manager's API reader.
	Deployments client.Reader
	// Evictions holds the dependencies of the eviction webhook; the zero value allows all evictions.
	Evictions Evictions
	// MaxPods bounds the pods of one graph; 0 for no limit.
	MaxPods int64
	// ScalingUsers are the users who may write replicas that scaling adapters own, including the operator itself.
	ScalingUsers []string
}

// SetupWithManager adds the webhooks to the manager's server, and the readiness check "webhooks". The webhooks are served as soon as the
// manager has started and has a certificate, whether or not this replica of the operator is the leader.
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

// closing makes every response close its connection after the channel ending is closed. Otherwise the API server would reuse its
// connections, because a Service does not move existing connections to another pod. When a stopping server closes an idle connection, a
// call that arrives at that moment fails, and the API server does not retry it. On a closed connection, no call can arrive.
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

// trustedAnd returns a readiness check that succeeds once the channel trusted is closed and the server has started.
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

// handlers returns all webhooks by path. Each webhook converts a panic into an error.
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
