// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package maps

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/cli/files"
)

// Formats of a map.
const (
	formatHTML = "html"
	formatSVG  = "svg"
	formatJSON = "json"
)

// options are the user's flags.
type options struct {
	genericiooptions.IOStreams
	config   *genericclioptions.ConfigFlags
	format   string
	topology string
	files    []string
	offline  bool
	serve    bool
	port     int
	// lookEvery is the interval at which a served map checks whether the cluster serves Grove's ClusterTopologyBindings.
	lookEvery time.Duration
}

// NewCommand returns kubectl trellis map.
func NewCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &options{IOStreams: streams, config: genericclioptions.NewConfigFlags(true), lookEvery: lookEvery}
	cmd := &cobra.Command{
		Use:   "map",
		Short: "Draw the cluster: zones, blocks, racks and hosts as boxes, a cell per GPU, what waits and what blocks it",
		Long: "Draws every host of the cluster as a page that is one file and needs no network, or as an SVG for documents. Deployments in " +
			"files are planned\n" +
			"and laid over it, without creating anything; nodes, pods and topologies in files are added, or take the place of those of the same " +
			"name.\n" +
			"With --serve the page is served on this machine only, and follows the cluster.",
		Example: "  kubectl trellis map > map.html\n" +
			"  kubectl trellis map --serve\n" +
			"  kubectl trellis map -f my-llm.yaml > what-if.html\n" +
			"  kubectl trellis map -o svg > map.svg\n" +
			"  kubectl trellis map --offline -f nodes.yaml -f topology.yaml -f my-llm.yaml > map.html",
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	o.config.AddFlags(flags)
	flags.StringVarP(&o.format, "output", "o", formatHTML, "html, svg or json")
	flags.StringVar(&o.topology, "topology", "", "ClusterTopology to draw (default: all, the ones that graphs are placed by first)")
	flags.StringSliceVarP(&o.files, "filename", "f", nil,
		"file, folder, or - for the standard input, with a plan to lay over the map; may be given several times")
	flags.BoolVar(&o.offline, "offline", false, "draw what is in the files alone, without any cluster")
	flags.BoolVar(&o.serve, "serve", false, "serve the page on localhost and follow the cluster")
	flags.IntVar(&o.port, "port", 0, "with --serve: port (default: one that is free)")
	return cmd
}

func (o *options) check() error {
	switch {
	case o.format != formatHTML && o.format != formatSVG && o.format != formatJSON:
		return fmt.Errorf("-o %s: want %s, %s or %s", o.format, formatHTML, formatSVG, formatJSON)
	case o.offline && len(o.files) == 0:
		return errors.New("--offline draws what is in files: give them with -f FILE")
	case o.serve:
		return o.checkServe()
	case o.port != 0:
		return errors.New("--port goes with --serve")
	}
	out, isFile := o.Out.(*os.File)
	if isFile && o.format != formatJSON && term.IsTerminal(int(out.Fd())) { //nolint:gosec // a file descriptor is small
		return fmt.Errorf("this output is meant for a browser: write it to a file with > map.%s, or use --serve", o.format)
	}
	return nil
}

func (o *options) checkServe() error {
	switch {
	case o.offline:
		return errors.New("--serve follows a cluster, and --offline has none")
	case slices.Contains(o.files, files.Stdin):
		return errors.New("--serve reads files again and again; the standard input can be read only once")
	case o.format != formatHTML:
		return fmt.Errorf("--serve serves the page; it cannot be combined with -o %s", o.format)
	case o.port < 0 || o.port > 65535:
		return fmt.Errorf("--port %d: want a port from 1 to 65535", o.port)
	}
	return nil
}

func (o *options) run(ctx context.Context) error {
	if err := o.check(); err != nil {
		return err
	}
	if o.serve {
		return o.follow(ctx)
	}
	var m *Map
	var warnings bytes.Buffer // buffered, so that they do not interrupt the progress line
	err := cli.During(o.ErrOut, "reading and drawing the cluster", func() error {
		source, err := o.read(ctx)
		if err != nil {
			return err
		}
		m, err = Build(source, &warnings)
		return err
	})
	_, _ = warnings.WriteTo(o.ErrOut)
	if err != nil {
		return err
	}
	m.Operator.Warn(o.ErrOut)
	if err := o.show(m); err != nil {
		return err
	}
	return m.Operator.Exit()
}

func (o *options) show(m *Map) error {
	switch o.format {
	case formatSVG:
		_, err := fmt.Fprint(o.Out, m.SVG())
		return err
	case formatJSON:
		encoder := json.NewEncoder(o.Out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(m)
	}
	return m.HTML(o.Out)
}
