// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Command controlplane is a Kubernetes control plane in one file: etcd, kube-apiserver, kube-controller-manager,
// kube-scheduler, kubectl, kwok (simulated kubelets) and secret-mount (a kubelet's Secret volume for a plain process),
// chosen by the name it is started under.
//
// One program links their shared nine tenths once, which makes a cold build about four times shorter than six separate ones.
// The sandbox and the tests link the names to it; see hack/sandbox.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	_ "time/tzdata" // the API server and CronJobs accept time zone names

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kwokconfig "sigs.k8s.io/kwok/pkg/config"
	kwok "sigs.k8s.io/kwok/pkg/kwok/cmd"
	kwoklog "sigs.k8s.io/kwok/pkg/log"
	"sigs.k8s.io/kwok/pkg/utils/signals"
)

var programs = map[string]func(){
	"etcd":                    func() { etcdmain.Main(os.Args) },
	"kube-apiserver":          component(apiserver.NewAPIServerCommand),
	"kube-controller-manager": component(controllermanager.NewControllerManagerCommand),
	"kube-scheduler":          component(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
	"kubectl":                 runKubectl,
	"kwok":                    runKwok,
	"secret-mount":            component(newMountCommand),
}

func main() {
	name := filepath.Base(os.Args[0])
	run, ok := programs[name]
	if !ok {
		names := make([]string, 0, len(programs))
		for n := range programs {
			names = append(names, n)
		}
		sort.Strings(names)
		fmt.Fprintf(os.Stderr, "%s: start this program through a link with one of these names: %s\n", name, strings.Join(names, ", "))
		os.Exit(2)
	}
	run()
}

func component(command func() *cobra.Command) func() {
	return func() { os.Exit(cli.Run(command())) }
}

func runKubectl() {
	dropGlobalFlags()
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err)
	}
}

// dropGlobalFlags forgets what the other programs' packages registered on the process-wide flag set, --version among them:
// cobra would add it to every command.
func dropGlobalFlags() {
	pflag.CommandLine = pflag.NewFlagSet(os.Args[0], pflag.ContinueOnError)
}

func runKwok() {
	dropGlobalFlags()
	if err := kwokMain(signals.SetupSignalContext()); err != nil {
		fmt.Fprintln(os.Stderr, "kwok:", err)
		os.Exit(1)
	}
}

// kwokMain reads the configuration files named on the command line before the command itself is built, because kwok's flags take their
// defaults from them.
func kwokMain(ctx context.Context) error {
	early := pflag.NewFlagSet("kwok", pflag.ContinueOnError)
	early.ParseErrorsAllowlist.UnknownFlags = true
	early.Usage = func() {}
	ctx, _ = kwoklog.InitFlags(ctx, early)
	ctx, err := kwokconfig.InitFlags(ctx, early)
	if err != nil {
		return fmt.Errorf("reading configuration: %w", err)
	}
	command := kwok.NewCommand(ctx)
	command.PersistentFlags().AddFlagSet(early)
	return command.ExecuteContext(ctx)
}
