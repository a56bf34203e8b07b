// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/cli/live"
	"github.com/trellis-k8s/trellis/internal/whatif"
)

func newRestart(streams genericiooptions.IOStreams) *cobra.Command {
	var parallel, yes bool
	cmd := newSubcommand(streams, "restart", "Recreate the pods of all components",
		"Requests a restart in the spec of the deployment, after a question: the components restart one after the other, as in a rolling\n"+
			"update. With --parallel all pods stop, and all start again when none is left, in a domain that is chosen then.",
		func(ctx context.Context, o *options, c client.Client, observed Observed) error {
			strategy := nvidiav1beta1.RestartStrategySequential
			if parallel {
				strategy = nvidiav1beta1.RestartStrategyParallel
			}
			if !yes {
				expected := ""
				if parallel {
					expected = expectedOf(ctx, c, observed.Graph)
				}
				if err := confirm(o.In, o.ErrOut, restartQuestion(observed.Graph, strategy, expected)); err != nil {
					return err
				}
			}
			return o.restart(ctx, c, observed, strategy)
		})
	cmd.Flags().BoolVar(&parallel, "parallel", false, "stop all pods before the first one starts again; the domain is chosen again")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

// restartQuestion returns the text about the restart that the user has to confirm. expected describes where a current plan places the
// restarted replicas; "" without a plan.
func restartQuestion(dgd *nvidiav1beta1.DynamoGraphDeployment, strategy nvidiav1beta1.RestartStrategyType, expected string) string {
	if strategy == nvidiav1beta1.RestartStrategySequential {
		return fmt.Sprintf("The components of %s in %s restart one after the other, as in a rolling update.", dgd.Name, dgd.Namespace)
	}
	text := fmt.Sprintf("All pods of %s in %s stop, and all start again when none is left. It does not serve meanwhile.", dgd.Name,
		dgd.Namespace)
	if expected != "" {
		text += "\n" + expected
	}
	return text
}

// expectedOf plans a Parallel restart and describes the result; "" if the deployment cannot be planned. A restart does not require rights
// to read the cluster. If the user lacks these rights, or the cluster cannot be read, the text names the cause.
func expectedOf(ctx context.Context, c client.Reader, dgd *nvidiav1beta1.DynamoGraphDeployment) string {
	snapshot, err := live.Read(ctx, c)
	if err == nil {
		err = snapshot.Complete()
	}
	if err != nil {
		return fmt.Sprintf("Where the pods would be placed is not known: %v.", err)
	}
	world := snapshot.Graph(client.ObjectKeyFromObject(dgd))
	if world == nil || world.UID != dgd.UID {
		return ""
	}
	return expected(snapshot.World, world)
}

// expected describes the result of a Parallel restart; "" if the deployment cannot be planned.
func expected(world whatif.World, dgd *nvidiav1beta1.DynamoGraphDeployment) string {
	planner := whatif.NewPlanner(world)
	planner.Begin()
	defer planner.Rollback()
	if len(planner.Check(dgd)) > 0 {
		return ""
	}
	plan, err := planner.Plan(dgd)
	if err != nil {
		return ""
	}
	restart, planned := planner.Restart(&plan)
	switch {
	case !planned || restart.Wanted == 0:
		return ""
	case restart.Complete():
		return fmt.Sprintf("Planned now: %s.", restart.Text())
	}
	return fmt.Sprintf("Planned now: %s. The others would wait again.", restart.Text())
}

// errNotConfirmed is returned for every answer except yes.
var errNotConfirmed = errors.New("nothing was changed: answer y, or use --yes")

// confirm asks the question, and returns an error unless the answer is yes.
func confirm(in io.Reader, out io.Writer, question string) error {
	if _, err := fmt.Fprintf(out, "%s\nRestart it? [y/N] ", question); err != nil {
		return err
	}
	answer, _ := bufio.NewReader(io.LimitReader(in, 64)).ReadString('\n') // a missing answer is a no
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errNotConfirmed
}

// restart requests a restart, and prints the id of the restart.
func (o *options) restart(ctx context.Context, c client.Client, observed Observed, strategy nvidiav1beta1.RestartStrategyType) error {
	id := restartID(cli.Now(c))
	patch, err := restartPatch(observed.Graph, id, strategy)
	if err != nil {
		return err
	}
	dgd := observed.Graph
	if err := c.Patch(ctx, dgd.DeepCopy(), client.RawPatch(types.MergePatchType, patch), client.FieldOwner(fieldOwner)); err != nil {
		return cli.Explain(err, fmt.Sprintf("changing %s %s", cli.Graph.Name, client.ObjectKeyFromObject(dgd)))
	}
	observed.Operator.Warn(o.ErrOut)
	_, err = fmt.Fprintf(o.Out, "%s: restart %s requested, see\n  kubectl trellis status dgd/%s -n %s\n", dgd.Name, id, dgd.Name,
		dgd.Namespace)
	return err
}

// restartID returns an id that no earlier request has.
func restartID(now time.Time) string { return now.UTC().Format("20060102T150405.000Z") }

// restartPatch returns the patch that requests a restart. The patch does not apply to a deployment that was recreated meanwhile. A Parallel
// restart must not have an order, so its patch removes the order of an earlier request. A Sequential restart keeps that order.
func restartPatch(dgd *nvidiav1beta1.DynamoGraphDeployment, id string, strategy nvidiav1beta1.RestartStrategyType) ([]byte, error) {
	how := map[string]any{"type": strategy}
	if strategy == nvidiav1beta1.RestartStrategyParallel {
		how["order"] = nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": dgd.UID}, "spec": map[string]any{"restart": map[string]any{"id": id, "strategy": how}},
	})
	if err != nil {
		return nil, fmt.Errorf("writing the patch: %w", err)
	}
	return patch, nil
}
