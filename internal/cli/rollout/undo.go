// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/rollout"
)

func newUndo(streams genericiooptions.IOStreams) *cobra.Command {
	return newSubcommand(streams, "undo", "Return to the previous generation of workers, also after the update has ended",
		"Returns the workers to the generation before, in step: during an update as abort does, and after it to the newest other generation "+
			"that is stored. They stay there until they are changed again.\n"+
			"The spec of the deployment stays as it is.",
		func(ctx context.Context, o *options, c client.Client, observed Observed) error {
			revisions, err := readHistory(ctx, c, observed.Graph)
			if err != nil {
				return err
			}
			generation, err := toUndo(observed, revisions)
			if err != nil {
				return err
			}
			return o.change(ctx, c, observed, map[string]*string{rollout.AnnotationAborted: &generation, rollout.AnnotationPaused: nil},
				"undid generation "+generation)
		})
}

// toUndo returns the generation from which the workers are rolled back: the target of a running update, or else the generation that was
// last rolled out.
func toUndo(o Observed, revisions []appsv1.ControllerRevision) (string, error) {
	generation := Build(o).Generation
	if over := ended(o); !over || generation == "" {
		return toAbort(o)
	}
	if !slices.ContainsFunc(revisions, func(r appsv1.ControllerRevision) bool { return r.Labels[render.LabelWorkerHash] != generation }) {
		return "", fmt.Errorf("no other generation than %s of the workers of %s is stored: apply the manifest of the version to return to",
			generation, o.Graph.Name)
	}
	return generation, nil
}

// ended reports whether the last update of the workers has ended: no update is in progress, and the last update was not aborted.
func ended(o Observed) bool {
	status := Build(o)
	return status.State != RolledBack && status.Target == "" && o.Graph.Status.ObservedGeneration == o.Graph.Generation
}
