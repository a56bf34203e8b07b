// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Operator selects the operator's Deployment, from the chart or from config/default.
var Operator = client.MatchingLabels{"app.kubernetes.io/name": "trellis", "app.kubernetes.io/component": "manager"}

// ignoredResources returns the resources in the operator's flag for ignored resources.
func ignoredResources(ctx context.Context, c client.Reader) ([]string, error) {
	deployments, err := listAll(ctx, c, func(l *appsv1.DeploymentList) []appsv1.Deployment { return l.Items }, whole, Operator)
	if err != nil {
		return nil, err
	}
	var ignored []string
	for _, d := range deployments {
		for i := range d.Spec.Template.Spec.Containers {
			for _, arg := range d.Spec.Template.Spec.Containers[i].Args {
				if value, is := strings.CutPrefix(arg, "--ignored-resources="); is && value != "" {
					ignored = append(ignored, strings.Split(value, ",")...)
				}
			}
		}
	}
	return ignored, nil
}
