// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package repack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/claims/allocator"
	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/cli/drain"
	"github.com/trellis-k8s/trellis/internal/cli/live"
	"github.com/trellis-k8s/trellis/internal/cli/plan"
	"github.com/trellis-k8s/trellis/internal/whatif"
)

// exitNoMoves is the exit code when no moves were found.
const exitNoMoves cli.Exit = 2

// options are the user's flags.
type options struct {
	cli.Output
	deployment string
	free       string
	topology   string
	maxGPUs    int64
	dryRun     bool
	apply      bool
	files      []string
	cluster    bool
	// every is the interval at which the command reads the replicas while it waits.
	every time.Duration
	// operator is the state of the cluster's operator; nil if it is running, or no cluster is read.
	operator *live.Heartbeat
	// client of the cluster; nil if no cluster is read.
	client client.Client
	// reread reads the cluster again.
	reread func(context.Context) (whatif.World, error)
}

// NewCommand returns kubectl trellis repack.
func NewCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &options{Output: cli.NewOutput(streams), every: drain.LookEvery}
	cmd := &cobra.Command{
		Use:   "repack [--for NAME | --free LEVEL=N]",
		Short: "Show or make the moves of replicas that free a place for a waiting deployment, or whole domains",
		Long: "Finds the cheapest moves of running replicas that free a place for the first replica of a deployment that waits, or that free " +
			"whole\n" +
			"domains of a level of the topology. Without --for and --free it takes the first deployment that waits and for which there are " +
			"moves,\n" +
			"the highest priority first. A replica moves only if its deployment has the annotation trellis.dev/may-move: \"true\", its priority " +
			"is\n" +
			"not higher, its pods are older than an hour, and it has a place elsewhere in the domain of its own deployment. Moves cost the GPUs " +
			"that\n" +
			"restart, then replicas, then priority.\n\n" +
			"Without --apply nothing is moved. With --apply and --for, the first replica is requested to move, and the operator moves the\n" +
			"others after it, each when the one before has a successor that serves. It reserves the hosts for the deployment meanwhile.\n" +
			"With --apply and --free, the command cordons the nodes of the domains, also of domains that are free already, requests all moves,\n" +
			"and waits until no GPU is in use there. Interrupted, it leaves the nodes cordoned, and replicas that have not moved stay.\n\n" +
			"Exit code: 0 moves were found or none are needed, 2 no moves were found, 1 the input is wrong or the domains did not become free,\n" +
			"3 the operator does not renew its lease; nothing was changed with --free.",
		Example: "  kubectl trellis repack --for my-llm\n" +
			"  kubectl trellis repack --for my-llm --apply\n" +
			"  kubectl trellis repack --free rack=2\n" +
			"  kubectl trellis repack --free rack=2 --apply\n" +
			"  kubectl get nodes,pods -A -o yaml | kubectl trellis repack --for my-llm -f - -f manifests/ -o json",
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	o.Config.ClusterName = nil // as for kubectl trellis plan
	o.AddFlags(cmd, "")
	cmd.Flags().StringVar(&o.deployment, "for", "", "deployment that waits, in the namespace of -n")
	cmd.Flags().StringVar(&o.free, "free", "", "level of the topology and how many of its domains are to have no GPU in use, as rack=2")
	cmd.Flags().StringVar(&o.topology, "topology", "", "ClusterTopology of --free (default: the default topology)")
	cmd.Flags().Int64Var(&o.maxGPUs, "max-gpus", 0, "how many GPUs may restart at most; 0: any number")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "only plan (the default)")
	cmd.Flags().BoolVar(&o.apply, "apply", false, "have the operator make the moves")
	cmd.Flags().StringSliceVarP(&o.files, "filename", "f", nil,
		"file, folder, or - for the standard input, with what is planned on instead of the cluster; may be given several times")
	cmd.Flags().BoolVar(&o.cluster, "cluster", false, "with -f: add the objects of the files to those of the cluster")
	_ = cmd.RegisterFlagCompletionFunc("for", o.CompleteName(cli.Graph)) // the flags exist
	_ = cmd.RegisterFlagCompletionFunc("topology", o.CompleteName(cli.Topology, cli.Binding))
	return cmd
}

func (o *options) run(ctx context.Context) error {
	if err := o.Check(); err != nil {
		return err
	}
	ask, err := o.ask()
	if err != nil {
		return err
	}
	var world whatif.World
	var report Report
	if err := o.During("reading the cluster and planning", func() (err error) {
		if world, ask.Namespace, err = o.world(ctx); err != nil {
			return err
		}
		report, err = Build(world, ask)
		return err
	}); err != nil {
		return err
	}
	o.operator.Warn(o.ErrOut)
	report.Operator = o.operator
	if o.client != nil && len(o.files) == 0 && !o.apply && report.changes() {
		report.next = o.next(&report)
	}
	if err := o.Show(&report); err != nil {
		return err
	}
	if !report.Found {
		return exitNoMoves
	}
	if o.apply && report.changes() {
		if err := o.start(ctx, &world, &report, ask.MaxGPUs); err != nil {
			return err
		}
	}
	return o.operator.Exit()
}

// start requests the moves from the operator. With --free, it also cordons the nodes of the domains, and waits until the replicas have left
// them.
func (o *options) start(ctx context.Context, world *whatif.World, report *Report, maxGPUs int64) error {
	if report.Level != "" {
		return o.vacate(ctx, o.client, world, report)
	}
	if err := request(ctx, o.client, world, report, maxGPUs, cli.Now(o.client)); err != nil {
		return err
	}
	fmt.Fprint(o.ErrOut, report.requested())
	return nil
}

// next returns the command that has the operator make the moves.
func (o *options) next(r *Report) string {
	next := fmt.Sprintf("kubectl trellis repack --for %s -n %s", r.Name, r.Namespace)
	if r.Level != "" {
		next = "kubectl trellis repack --free " + o.free
	}
	if o.topology != "" {
		next += " --topology " + o.topology
	}
	if o.maxGPUs > 0 {
		next += fmt.Sprintf(" --max-gpus %d", o.maxGPUs)
	}
	return next + " --apply"
}

// ask reads the goal from the flags.
func (o *options) ask() (Ask, error) {
	ask := Ask{Topology: o.topology, MaxGPUs: o.maxGPUs}
	if err := o.checkApply(); err != nil {
		return ask, err
	}
	switch {
	case o.deployment != "" && o.free != "":
		return ask, errors.New("--for and --free ask for different moves: give one of them")
	case o.topology != "" && o.free == "":
		return ask, errors.New("--topology is that of --free, which is not given")
	case o.cluster && len(o.files) == 0:
		return ask, errors.New("--cluster adds files to the cluster: give some with -f FILE; without -f the cluster is read anyway")
	case o.maxGPUs < 0:
		return ask, fmt.Errorf("--max-gpus %d: want 0 for any number, or more", o.maxGPUs)
	case o.deployment != "":
		name, err := cli.GraphName(o.deployment)
		ask.For = name
		return ask, err
	case o.free != "":
		level, number, _ := strings.Cut(o.free, "=")
		n, err := strconv.Atoi(number)
		if err != nil || level == "" || n < 1 {
			return ask, fmt.Errorf("--free %s: want LEVEL=N, for example rack=2", o.free)
		}
		ask.Level, ask.Domains = level, n
	}
	return ask, nil
}

// world reads the cluster, the files, or both. It also returns the user's namespace.
func (o *options) world(ctx context.Context) (world whatif.World, namespace string, err error) {
	if len(o.files) > 0 && !o.cluster {
		namespace = metav1.NamespaceDefault
		if o.Config.Namespace != nil && *o.Config.Namespace != "" {
			namespace = *o.Config.Namespace
		}
		world = whatif.World{Allocator: allocator.New(), Now: time.Now()}
	} else if world, namespace, err = o.read(ctx); err != nil {
		return world, "", err
	}
	if len(o.files) > 0 {
		in, err := plan.Load(world, namespace, o.files, o.IOStreams)
		if err != nil {
			return world, "", err
		}
		world = in.World()
		for _, dgd := range in.Deployments() {
			world.Graphs = with(world.Graphs, dgd)
		}
	}
	if len(world.Nodes) == 0 {
		return world, "", errors.New("there are no nodes")
	}
	return world, namespace, nil
}

// with returns a copy of the list that also contains the given deployment, in place of a deployment of the same name.
func with(list []*nvidiav1beta1.DynamoGraphDeployment, dgd *nvidiav1beta1.DynamoGraphDeployment) []*nvidiav1beta1.DynamoGraphDeployment {
	list = slices.DeleteFunc(slices.Clone(list), func(o *nvidiav1beta1.DynamoGraphDeployment) bool {
		return o.Namespace == dgd.Namespace && o.Name == dgd.Name
	})
	return append(list, dgd)
}

func (o *options) read(ctx context.Context) (world whatif.World, namespace string, err error) {
	c, namespace, err := cli.NewClient(o.Config)
	if err != nil {
		return world, "", err
	}
	o.client = c
	o.reread = func(ctx context.Context) (whatif.World, error) {
		snapshot, err := live.Read(ctx, c)
		return snapshot.World, err
	}
	snapshot, err := live.Read(ctx, c)
	if err != nil {
		return world, "", err
	}
	if snapshot.NotInstalled != nil {
		return world, "", snapshot.NotInstalled
	}
	if o.operator, err = live.ReadHeartbeat(ctx, c); err != nil {
		return world, "", err
	}
	for _, right := range snapshot.Denied {
		fmt.Fprintf(o.ErrOut, "Warning: you may not %s in the whole cluster: planned without\n", right)
	}
	snapshot.Now = cli.Now(c)
	return snapshot.World, namespace, snapshot.Complete()
}

// notFound returns the error for a deployment that does not exist.
func notFound(world *whatif.World, name types.NamespacedName) error {
	var all []types.NamespacedName
	for _, other := range world.Graphs {
		all = append(all, types.NamespacedName{Namespace: other.Namespace, Name: other.Name})
	}
	return cli.GraphNotFound(name, all)
}
