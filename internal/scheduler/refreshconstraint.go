// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// MayRefresh reports whether the scaling groups of a graph may get other levels: no pod of it is released, or is being. If so, nothing of
// it is released until all of its groups have these levels: pods that are placed by two versions of a topology would be in different
// domains. A constraint that is nil ends a refresh that is not wanted any more.
func (s *Scheduler) MayRefresh(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, to *trellisv1alpha1.ResolvedTopology) bool {
	name := client.ObjectKeyFromObject(dgd)
	may, err := s.ledger.mayRefresh(name, to, func() (gang.Observation, error) { return s.objects.observe(ctx, dgd) })
	if err != nil {
		s.notRead(ctx, name, err)
	}
	return may
}

// mayRefresh decides by what is read under the lock, like a plan: nothing is released in between.
func (l *ledger) mayRefresh(name types.NamespacedName, to *trellisv1alpha1.ResolvedTopology, observe func() (gang.Observation, error),
) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.refreshing, name)
	if to == nil {
		return false, nil
	}
	o, err := observe()
	if err != nil || l.deciding[name] != nil || l.options.Creations.underWay(name) {
		return false, err
	}
	releasing, _ := l.pods.observed(o.Pods)
	if slices.ContainsFunc(o.Pods, func(pod *corev1.Pod) bool {
		_, onItsWay := releasing[topology.PodID(pod)]
		return onItsWay || !render.GateClosed(pod) && placedByTrellis(pod, o.Groups)
	}) {
		return false, nil
	}
	l.refreshing[name] = to
	return true, nil
}

// placedByTrellis reports whether a pod is of a group whose pods Trellis places, or of none that is known.
func placedByTrellis(pod *corev1.Pod, groups []*trellisv1alpha1.ScalingGroup) bool {
	at := slices.IndexFunc(groups, func(sg *trellisv1alpha1.ScalingGroup) bool { return render.Member(pod, sg) })
	return at < 0 || render.Gated(groups[at])
}

// awaitConstraint has nothing of a graph released while its groups are given other levels, and not all show them yet.
func (l *ledger) awaitConstraint(o *gang.Observation, name types.NamespacedName) {
	to, is := l.refreshing[name]
	if is && !slices.ContainsFunc(o.Groups, func(sg *trellisv1alpha1.ScalingGroup) bool {
		return sg.Spec.Topology != nil && !constraint.SameLevels(sg.Spec.Topology, to)
	}) {
		delete(l.refreshing, name)
		is = false
	}
	if o.Unfinished == "" && (is || constraint.Mixed(o.Groups)) {
		o.Unfinished = gang.ConstraintRefreshed
	}
}
