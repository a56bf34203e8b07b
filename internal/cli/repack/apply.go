// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package repack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/leaving"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/whatif"
)

// fieldOwner is the field manager of the annotations.
const fieldOwner = "kubectl-trellis"

// checkApply refuses --apply together with flags that it cannot be combined with.
func (o *options) checkApply() error {
	switch {
	case !o.apply:
		return nil
	case o.dryRun:
		return errors.New("--apply and --dry-run exclude each other: give one of them")
	case len(o.files) > 0:
		return errors.New("--apply changes the cluster, and -f plans on files: leave one of them out")
	}
	return nil
}

// request requests the first move of a report from the operator, which then moves the other replicas. maxGPUs limits the GPUs that restart.
func request(ctx context.Context, c client.Client, world *whatif.World, report *Report, maxGPUs int64, now time.Time) error {
	pods := podsOf(world.Groups, world.Pods, &report.Moves[0])
	if len(pods) == 0 {
		return fmt.Errorf("replica %s is gone: try again", report.Moves[0].who())
	}
	value := leaving.Eviction{At: now, For: report.Namespace + "/" + report.Name, MaxGPUs: maxGPUs}.String()
	for _, pod := range pods {
		if err := annotate(ctx, c, pod, value); err != nil {
			return cli.Explain(err, fmt.Sprintf("changing pod %s/%s", pod.Namespace, pod.Name))
		}
	}
	return nil
}

// annotate writes a request to move into a pod; nil removes the request.
func annotate(ctx context.Context, c client.Client, pod *corev1.Pod, value any, how ...client.PatchOption) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "annotations": map[string]any{leaving.AnnotationEviction: value},
	}})
	if err != nil {
		return fmt.Errorf("writing the patch: %w", err)
	}
	return c.Patch(ctx, pod.DeepCopy(), client.RawPatch(types.MergePatchType, patch), append(how, client.FieldOwner(fieldOwner))...)
}

// podsOf returns the pods of the replica that moves.
func podsOf(groups []*trellisv1alpha1.ScalingGroup, all []*corev1.Pod, m *Move) (pods []*corev1.Pod) {
	for _, sg := range groups {
		if sg.Namespace != m.Namespace || sg.Spec.Graph != m.Name || sg.Spec.Component != m.Component {
			continue
		}
		for _, pod := range all {
			if ordinal, _, ok := render.ReplicaOf(pod); ok && int(ordinal) == m.Replica && pod.Namespace == sg.Namespace && render.Member(pod, sg) {
				pods = append(pods, pod)
			}
		}
	}
	return pods
}

func (m *Move) who() string {
	return fmt.Sprintf("%s/%s %s-%d", m.Namespace, m.Name, m.Component, m.Replica)
}

// requested returns the text that the command prints after it has requested the first move.
func (r *Report) requested() string {
	return fmt.Sprintf("requested: %s moves first, and the operator moves the others after it. Follow them with\n"+
		"  kubectl trellis status dgd/%s -n %s --watch\n", r.Moves[0].who(), r.Name, r.Namespace)
}
