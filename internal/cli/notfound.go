// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

// FindGraph returns the error for a missing DynamoGraphDeployment. If the user may list such deployments, the error names the other
// namespaces with a deployment of this name, or else the existing deployments of the namespace.
func FindGraph(ctx context.Context, c client.Reader, asked types.NamespacedName) error {
	list := &nvidiav1beta1.DynamoGraphDeploymentList{}
	if err := c.List(ctx, list); err != nil {
		if err := c.List(ctx, list, client.InNamespace(asked.Namespace)); err != nil {
			return fmt.Errorf("%s %s not found", Graph.Name, asked)
		}
	}
	all := make([]types.NamespacedName, 0, len(list.Items))
	for i := range list.Items {
		all = append(all, client.ObjectKeyFromObject(&list.Items[i]))
	}
	return GraphNotFound(asked, all)
}

// GraphNotFound returns the error for a missing DynamoGraphDeployment. all are the existing deployments.
func GraphNotFound(asked types.NamespacedName, all []types.NamespacedName) error {
	what := fmt.Sprintf("%s %s", Graph.Name, asked)
	var names, namespaces []string
	for _, key := range all {
		switch {
		case key.Namespace == asked.Namespace:
			names = append(names, key.Name)
		case key.Name == asked.Name:
			namespaces = append(namespaces, key.Namespace)
		}
	}
	if len(namespaces) == 0 {
		return NotFound(what, names, "none in this namespace")
	}
	slices.SortFunc(namespaces, Natural)
	return fmt.Errorf("%s not found; there is one in %s: give the namespace with -n", what, strings.Join(namespaces[:min(len(namespaces),
		maxNames)], ", "))
}
