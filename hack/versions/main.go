// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Command versions contains the parts of a control plane that differ between Kubernetes releases: kube-apiserver, kube-controller-manager
// and kube-scheduler in one file, selected by the executable's name. go.mod builds the oldest release that Trellis supports; other releases
// have their own file (go build -modfile=1.33.mod). etcd, kubectl and kwok of make test-versions come from hack/controlplane.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

var programs = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllermanager.NewControllerManagerCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
}

func main() {
	command, ok := programs[filepath.Base(os.Args[0])]
	if !ok {
		fmt.Fprintf(os.Stderr, "%s: start this program through a link named after a component of Kubernetes\n", os.Args[0])
		os.Exit(2)
	}
	os.Exit(cli.Run(command()))
}
