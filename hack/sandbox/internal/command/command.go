// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package command is the command kubectl trellis sandbox, which needs a clone.
package command

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/hack/sandbox/internal/binaries"
	"github.com/trellis-k8s/trellis/hack/sandbox/progress"
	"github.com/trellis-k8s/trellis/test/testutil/simulated"
)

// place identifies a sandbox by the flags --name and --dir.
type place struct {
	name, dir string
}

func (p *place) find() (string, error) { return sandbox.Dir(p.name, p.dir) }

// New returns the command sandbox with its subcommands.
func New() *cobra.Command {
	p := &place{}
	cmd := &cobra.Command{
		Use:   "sandbox",
		Short: "Run a throw-away Kubernetes control plane with simulated GPU nodes and the operator on this machine",
		Long: "A sandbox is a real Kubernetes control plane (etcd, kube-apiserver, kube-controller-manager, kube-scheduler) with simulated " +
			"GPU nodes and the\n" +
			"Trellis operator, as plain processes on this machine. It needs a clone of the repository and Go, and no containers. Several may run " +
			"at once.",
	}
	cmd.PersistentFlags().StringVar(&p.name, "name", sandbox.DefaultName, "name of the sandbox")
	cmd.PersistentFlags().StringVar(&p.dir, "dir", "", "directory for its state (default: one for the name in the user's cache directory)")
	cmd.AddCommand(newUpCommand(p), newDownCommand(p), newStatusCommand(p), newBinariesCommand(), newPeersCommand())
	return cmd
}

func newUpCommand(p *place) *cobra.Command {
	opts := sandbox.Options{Shape: simulated.DefaultShape}
	var provider string
	var with []string
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start the sandbox; the last line of the output sets KUBECONFIG",
		Example: "  make sandbox-up\n" +
			"  make sandbox-up ARGS='--zones 4 --hosts 16'\n" +
			"  kubectl get nodes -o yaml > nodes.yaml && make sandbox-up ARGS='--name copy --nodes nodes.yaml'\n" +
			"  make sandbox-up ARGS='--real-nodes 2'\n" +
			"  PEERS_SRC=DIR PEERS_BIN=DIR make sandbox-up ARGS='--provider KAI'",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts.Name, opts.Dir, opts.Provider = p.name, p.dir, sandbox.Provider(provider)
			if err := checkShape(opts.Shape); err != nil {
				return err
			}
			if opts.GPUs == 0 {
				opts.GPUs = -1 // 0 GPUs, not the default
			}
			opts.Progress = progress.To(os.Stderr)
			dir, err := p.find()
			if err != nil {
				return err
			}
			if err := useProvider(&opts, with...); err != nil {
				if running := sandbox.Running(dir); running != nil { // a running sandbox needs nothing from the environment
					return sayRunning(cmd, running)
				}
				return err
			}
			return up(cmd, opts)
		},
	}
	f := cmd.Flags()
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "engine" { // the former name of the flag
			name = "provider"
		}
		return pflag.NormalizedName(name)
	})
	f.IntVar(&opts.Zones, "zones", opts.Zones, "number of zones")
	f.IntVar(&opts.Blocks, "blocks", opts.Blocks, "number of blocks in each zone")
	f.IntVar(&opts.Racks, "racks", opts.Racks, "number of racks in each block")
	f.IntVar(&opts.Hosts, "hosts", opts.Hosts, "number of hosts in each rack")
	f.IntVar(&opts.GPUs, "gpus", opts.GPUs, "number of GPUs in each host")
	f.StringVar(&opts.NodesFile, "nodes", "", "file with Node objects to simulate instead (YAML or JSON)")
	f.IntVar(&opts.Real.Count, "real-nodes", 0, "number of nodes with kubelets and containers, alongside the simulated ones (Linux, as root)")
	f.StringSliceVar(&opts.Real.Archives, "images", nil, "archives of images that real nodes import, as docker save writes them")
	f.StringVar(&provider, "provider", string(sandbox.Gates),
		fmt.Sprintf("provider of graphs that name none: one of %v; the last three are started beside the control plane", sandbox.Providers))
	f.StringSliceVar(&with, "with", nil, "what to run alongside, of any provider: kueue, karpenter, built from their Go modules")
	f.BoolVar(&opts.Operator, "operator", true, "install and run the operator")
	f.StringVar(&opts.ManagerBinary, "manager", "", "program of the operator (default: bin/trellis-manager of the clone)")
	for _, shape := range []string{"zones", "blocks", "racks", "hosts", "gpus"} {
		cmd.MarkFlagsMutuallyExclusive("nodes", shape)
	}
	return cmd
}

// checkShape rejects values for which the sandbox would use its defaults.
func checkShape(s simulated.Shape) error {
	for _, c := range []struct {
		flag         string
		count, least int
	}{{"zones", s.Zones, 1}, {"blocks", s.Blocks, 1}, {"racks", s.Racks, 1}, {"hosts", s.Hosts, 1}, {"gpus", s.GPUs, 0}} {
		if c.count < c.least {
			return fmt.Errorf("--%s %d: want at least %d", c.flag, c.count, c.least)
		}
	}
	return nil
}

func up(cmd *cobra.Command, opts sandbox.Options) error {
	started := time.Now()
	s, err := sandbox.Up(cmd.Context(), opts)
	switch {
	case errors.Is(err, sandbox.ErrRunning):
		return sayRunning(cmd, s)
	case err != nil:
		return fmt.Errorf("starting sandbox %s: %w", opts.Name, err)
	default:
		fmt.Fprintf(os.Stderr, "sandbox %s is ready after %s; kubectl is in %s\n", s.Name(), time.Since(started).Round(100*time.Millisecond),
			s.Assets())
		fmt.Fprint(os.Stderr, hint(opts))
	}
	return sayKubeconfig(cmd, s)
}

func sayRunning(cmd *cobra.Command, s *sandbox.Sandbox) error {
	fmt.Fprintf(os.Stderr, "sandbox %s is already running, with the options it was started with\n", s.Name())
	return sayKubeconfig(cmd, s)
}

func sayKubeconfig(cmd *cobra.Command, s *sandbox.Sandbox) error {
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "export KUBECONFIG=%s\n", shellQuote(s.Kubeconfig()))
	return err
}

// shellQuote quotes a path for a shell where necessary.
func shellQuote(path string) string {
	if !strings.ContainsAny(path, " '\"$\\`!*?[](){}<>|&;~#\t\n") {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

func newDownCommand(p *place) *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "End the sandbox and remove everything it left on this machine",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := p.find()
			if err != nil {
				return err
			}
			err = sandbox.Down(cmd.Context(), dir)
			switch {
			case errors.Is(err, sandbox.ErrNotFound):
				fmt.Fprintf(cmd.OutOrStdout(), "nothing to do: there is no sandbox in %s\n", dir)
			case err != nil:
				return fmt.Errorf("ending the sandbox in %s: %w", dir, err)
			default:
				fmt.Fprintf(cmd.OutOrStdout(), "the sandbox in %s is gone\n", dir)
			}
			return nil
		},
	}
}

func newStatusCommand(p *place) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show the sandbox's processes and nodes; fails unless all of it runs",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := p.find()
			if err != nil {
				return err
			}
			s, err := sandbox.Open(dir)
			if err != nil {
				return err
			}
			st := s.Status(cmd.Context())
			printStatus(cmd, st)
			if !st.Running {
				return fmt.Errorf("sandbox %s does not run completely; make sandbox-up starts it afresh", st.Name)
			}
			return nil
		},
	}
}

func printStatus(cmd *cobra.Command, st sandbox.Status) {
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "sandbox %s, provider %s, started %s, in %s\n", st.Name, st.Provider, st.Created.Format(time.RFC3339), st.Dir)
	if st.Problem != "" {
		fmt.Fprintln(out, st.Problem)
	} else {
		fmt.Fprintf(out, "%d of %d nodes ready\n", st.NodesReady, st.Nodes)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PROCESS\tPID\tSTATE\tPORT\tLOG")
	for _, c := range st.Components {
		state, port := "stopped", "-"
		if c.Running {
			state = "running"
		}
		if c.Port != 0 {
			port = fmt.Sprint(c.Port)
		}
		log, err := filepath.Rel(st.Dir, c.Log)
		if err != nil {
			log = c.Log
		}
		fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%s\n", c.Name, c.PID, state, port, log)
	}
	table.Flush()
	fmt.Fprintf(out, "export KUBECONFIG=%s\n", shellQuote(st.Kubeconfig))
}

// newBinariesCommand is for the Makefile: tests against an API server use the printed directory as KUBEBUILDER_ASSETS.
func newBinariesCommand() *cobra.Command {
	nodes := false
	cmd := &cobra.Command{
		Use:    "binaries",
		Short:  "Build the control plane's programs if they are missing and print their directory",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			wd, err := os.Getwd()
			if err != nil {
				return err
			}
			root, err := binaries.FindRoot(wd)
			if err != nil {
				return err
			}
			dir, err := binaries.Ensure(cmd.Context(), root, progress.To(os.Stderr))
			if err != nil {
				return err
			}
			if nodes {
				if _, err := binaries.EnsureNodePrograms(cmd.Context(), root, progress.To(os.Stderr)); err != nil {
					return err
				}
			}
			fmt.Fprintln(cmd.OutOrStdout(), dir)
			return nil
		},
	}
	cmd.Flags().BoolVar(&nodes, "real-nodes", false, "build those of real nodes, too")
	return cmd
}
