// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/controller/evictionresponder"
	"github.com/trellis-k8s/trellis/internal/evictions"
	"github.com/trellis-k8s/trellis/internal/leaving"
	"github.com/trellis-k8s/trellis/internal/webhook"
)

// respondToEvictions sets up the responder to Evictions, unless the operator's flag disables the responder or the API server does not serve
// Evictions. It reports whether new pods name this responder.
func respondToEvictions(mgr ctrl.Manager, writer client.Client, o Options) (bool, error) {
	if !o.EvictionResponder {
		return false, nil
	}
	served, err := evictionresponder.Served(mgr.GetRESTMapper())
	if err != nil {
		return false, fmt.Errorf("looking for Evictions: %w", err)
	}
	if !served {
		mgr.GetLogger().Info("--eviction-responder has no effect: the API server does not serve evictions.lifecycle.k8s.io/v1alpha1; " +
			"restart the operator when it does")
		return false, nil
	}
	return true, (&evictionresponder.Reconciler{
		Client: writer, Requests: evictions.Requests{Cached: mgr.GetCache(), Writer: writer, Leaving: o.Leaving}, Clock: clock.RealClock{},
	}).SetupWithManager(mgr)
}

// +kubebuilder:rbac:groups="",resources=pods,verbs=patch

// readEvictions returns the dependencies of the eviction webhook: the operator's cache, which is used once it is synced, and the front's
// writer, which does not require the leader's lease.
func readEvictions(mgr ctrl.Manager, writer client.Writer, rules leaving.Rules) (webhook.Evictions, error) {
	var synced []func() bool
	for _, object := range []client.Object{
		&corev1.Pod{}, &corev1.Node{}, &trellisv1alpha1.ScalingGroup{}, &nvidiav1beta1.DynamoGraphDeployment{},
	} {
		informer, err := mgr.GetCache().GetInformer(context.Background(), object, cache.BlockUntilSynced(false))
		if err != nil {
			return webhook.Evictions{}, fmt.Errorf("watching %T: %w", object, err)
		}
		synced = append(synced, informer.HasSynced)
	}
	allSynced := func() bool {
		for _, is := range synced {
			if !is() {
				return false
			}
		}
		return true
	}
	return webhook.Evictions{
		Requests: evictions.Requests{Cached: mgr.GetCache(), Writer: writer, Leaving: rules}, Synced: allSynced,
	}, nil
}
