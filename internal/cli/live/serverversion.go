// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"

	"github.com/trellis-k8s/trellis/internal/cli"
)

// serverVersion reads the version of the API server; "" if the user may not read it.
func serverVersion(ctx context.Context, server discovery.ServerVersionInterfaceWithContext) (string, error) {
	info, err := server.ServerVersionWithContext(ctx)
	switch {
	case apierrors.IsForbidden(err):
		return "", nil
	case err != nil:
		return "", cli.Explain(err, "asking for the version of the API server")
	}
	return info.GitVersion, nil
}
