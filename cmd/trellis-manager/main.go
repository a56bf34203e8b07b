// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Command trellis-manager is the Trellis operator.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/trellis-k8s/trellis/internal/heap"
	"github.com/trellis-k8s/trellis/internal/operator"
	"github.com/trellis-k8s/trellis/internal/version"
)

func main() {
	if err := command().ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "trellis-manager:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	o := operator.Options{}
	cmd := &cobra.Command{
		Use:           "trellis-manager",
		Short:         "Packs inference graphs into the network domains of a Kubernetes cluster",
		Version:       version.Get().String(),
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	o.AddFlags(cmd.Flags())
	logging, goFlags := zap.Options{}, flag.NewFlagSet("trellis-manager", flag.ContinueOnError)
	logging.BindFlags(goFlags)
	config.RegisterFlags(goFlags)
	cmd.Flags().AddGoFlagSet(goFlags)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctrl.SetLogger(logger(&logging))
		if os.Getenv("GOGC") == "" {
			heap.Bound()
		}
		if err := o.Complete(); err != nil {
			return err
		}
		restConfig, err := config.GetConfig()
		if err != nil {
			return fmt.Errorf("finding the cluster: %w", err)
		}
		return operator.Run(cmd.Context(), restConfig, o)
	}
	return cmd
}

// logger writes JSON, one line per entry, unless flags select another format.
func logger(options *zap.Options) logr.Logger { return zap.New(zap.UseFlagOptions(options)) }
