// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/cli/live"
	"github.com/trellis-k8s/trellis/internal/render"
)

// Observed is a deployment with its scaling groups at one time.
type Observed struct {
	Graph  *nvidiav1beta1.DynamoGraphDeployment
	Groups []trellisv1alpha1.ScalingGroup
	// Operator is the state of the operator; nil if it is running.
	Operator *live.Heartbeat
}

// Read reads a deployment and its scaling groups.
func Read(ctx context.Context, c client.Reader, key client.ObjectKey) (Observed, error) {
	dgd, err := live.Graph(ctx, c, key)
	if err != nil {
		return Observed{}, err
	}
	o := Observed{Graph: dgd}
	groups := &trellisv1alpha1.ScalingGroupList{}
	if err := c.List(ctx, groups, client.InNamespace(key.Namespace)); err != nil {
		return o, cli.Explain(err, "listing ScalingGroups")
	}
	for i := range groups.Items {
		if metav1.IsControlledBy(&groups.Items[i], dgd) {
			o.Groups = append(o.Groups, groups.Items[i])
		}
	}
	o.Operator, err = live.ReadHeartbeat(ctx, c)
	return o, err
}

// readHistory lists the stored generations of a deployment.
func readHistory(ctx context.Context, c client.Reader, dgd *nvidiav1beta1.DynamoGraphDeployment) ([]appsv1.ControllerRevision, error) {
	list := &appsv1.ControllerRevisionList{}
	err := c.List(ctx, list, client.InNamespace(dgd.Namespace), client.MatchingLabels{render.LabelGraph: render.LabelValue(dgd.Name)})
	if err != nil {
		return nil, cli.Explain(err, "listing ControllerRevisions")
	}
	var out []appsv1.ControllerRevision
	for i := range list.Items {
		if metav1.IsControlledBy(&list.Items[i], dgd) {
			out = append(out, list.Items[i])
		}
	}
	return out, nil
}

// fieldOwner is the field manager of the annotations.
const fieldOwner = "kubectl-trellis"

// annotate writes annotations of a deployment. A nil value removes an annotation. The patch does not apply to a deployment that was
// recreated meanwhile.
func annotate(ctx context.Context, c client.Client, dgd *nvidiav1beta1.DynamoGraphDeployment, annotations map[string]*string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": dgd.UID, "annotations": annotations}})
	if err != nil {
		return fmt.Errorf("writing the patch: %w", err)
	}
	if err := c.Patch(ctx, dgd.DeepCopy(), client.RawPatch(types.MergePatchType, patch), client.FieldOwner(fieldOwner)); err != nil {
		return cli.Explain(err, fmt.Sprintf("changing %s %s", cli.Graph.Name, client.ObjectKeyFromObject(dgd)))
	}
	return nil
}
