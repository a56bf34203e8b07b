// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/whatif"
)

// Operator selects the operator's Deployment, from the chart or from config/default.
var Operator = client.MatchingLabels{"app.kubernetes.io/name": "trellis", "app.kubernetes.io/component": "manager"}

// readOperatorFlags reads the operator's flags that affect planning into a world.
func readOperatorFlags(ctx context.Context, c client.Reader, w *whatif.World) error {
	deployments, err := listAll(ctx, c, func(l *appsv1.DeploymentList) []appsv1.Deployment { return l.Items }, whole, Operator)
	if err != nil {
		return err
	}
	for _, d := range deployments {
		for i := range d.Spec.Template.Spec.Containers {
			for _, arg := range d.Spec.Template.Spec.Containers[i].Args {
				readOperatorFlag(arg, w)
			}
		}
	}
	return nil
}

func readOperatorFlag(arg string, w *whatif.World) {
	name, value, given := strings.Cut(arg, "=")
	if !given || value == "" {
		return
	}
	switch name {
	case "--ignored-resources":
		w.Ignored = append(w.Ignored, strings.Split(value, ",")...)
	case "--leaving-taints":
		w.Leaving.Taints = append(w.Leaving.Taints, strings.Split(value, ",")...)
	case "--repack-rest":
		if rest, err := time.ParseDuration(value); err == nil {
			w.Rest = rest
		}
	}
}
