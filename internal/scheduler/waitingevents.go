// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/render"
)

// publish makes a result known, and announces what has not been announced of it.
func (s *Scheduler) publish(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, pods []*corev1.Pod, result gang.Result) {
	name := client.ObjectKeyFromObject(dgd)
	if isNew := s.results.set(name, result); isNew || len(s.unannounced[name])+len(s.awaiting[name]) > 0 {
		s.announce(ctx, dgd, pods, result, isNew)
	}
}

// announce reports what waits on the pods that wait, since that is where users look; the graph's status says it too. A result that is not
// new is announced for the replicas that had no pod yet, because they were refused before they were created. That a replica waits for
// admission is announced once on its first pod, however often the result changes meanwhile: its owner reports the progress. Another pod
// may become its first: pods are recreated, and become visible in any order.
func (s *Scheduler) announce(
	ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, pods []*corev1.Pod, result gang.Result, isNew bool,
) {
	name := client.ObjectKeyFromObject(dgd)
	first, late, later := gang.FirstPods(pods), s.unannounced[name], map[gang.Key]bool{}
	logged, awaiting, awaits := !isNew, s.awaiting[name], map[gang.Key]types.UID{}
	for _, w := range result.Waiting {
		if w.Code == gang.CodeCreating {
			continue
		}
		if !logged {
			logged = true
			logger(ctx, dgd).Info("waiting", "service", w.Component, "replica", w.Ordinal, "reason", w.Code, "message", w.Message, "replicas",
				len(result.Waiting))
		}
		key := gang.Key{Component: render.LabelValue(w.Component), Ordinal: w.Ordinal}
		told, known := awaiting[key]
		known = known && w.Code == gang.CodeWaitingForAdmission
		switch pod := first[key]; {
		case known && (pod == nil || pod.UID == told):
			awaits[key] = told
		case !isNew && !late[key] && !known:
		case pod == nil:
			later[key] = true
		default:
			s.recorder.Eventf(pod, dgd, eventType(w), w.Code, "Place", "%s", w.Message)
			if w.Code == gang.CodeWaitingForAdmission {
				awaits[key] = pod.UID
			}
		}
	}
	if s.awaiting[name] = awaits; len(awaits) == 0 {
		delete(s.awaiting, name)
	}
	if s.unannounced[name] = later; len(later) == 0 {
		delete(s.unannounced, name)
	}
}

// eventType: waiting for admission is not an error.
func eventType(w gang.Waiting) string {
	if w.Code == gang.CodeWaitingForAdmission {
		return corev1.EventTypeNormal
	}
	return corev1.EventTypeWarning
}

func (s *Scheduler) report(dgd *nvidiav1beta1.DynamoGraphDeployment, events []event) {
	for _, e := range events {
		s.recorder.Eventf(dgd, nil, corev1.EventTypeNormal, e.reason, "Place", "%s", e.note)
	}
}
