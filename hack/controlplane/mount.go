// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	volumeutil "k8s.io/kubernetes/pkg/volume/util"
)

type mount struct {
	kubeconfig, namespace, name, dir string
}

// newMountCommand keeps a directory equal to a Secret, which is what the kubelet does for a pod that mounts one.
// A simulated node runs no containers, so a program of the sandbox that wants its Secret has no one else to bring it.
func newMountCommand() *cobra.Command {
	m := &mount{}
	cmd := &cobra.Command{
		Use:           "secret-mount",
		Short:         "Keep a directory equal to a Secret",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(*cobra.Command, []string) error {
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return m.run(ctx)
		},
	}
	cmd.Flags().StringVar(&m.kubeconfig, "kubeconfig", "", "kubeconfig of a user who may watch the Secret")
	cmd.Flags().StringVar(&m.namespace, "namespace", "", "namespace of the Secret")
	cmd.Flags().StringVar(&m.name, "name", "", "name of the Secret")
	cmd.Flags().StringVar(&m.dir, "dir", "", "directory to fill; made when missing")
	return cmd
}

func (m *mount) run(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", m.kubeconfig)
	if err != nil {
		return fmt.Errorf("reading %s: %w", m.kubeconfig, err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	if err := os.MkdirAll(m.dir, 0o700); err != nil {
		return err
	}
	writer, err := volumeutil.NewAtomicWriter(m.dir, "secret-mount")
	if err != nil {
		return fmt.Errorf("preparing %s: %w", m.dir, err)
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(m.namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, m.name).String()
		}))
	informer := factory.Core().V1().Secrets().Informer()
	project := func(obj any) {
		if err := write(writer, obj.(*corev1.Secret)); err != nil {
			klog.ErrorS(err, "Secret was not written", "dir", m.dir)
		}
	}
	// A deleted Secret changes nothing: the kubelet leaves the files of a running pod alone too.
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    project,
		UpdateFunc: func(_, obj any) { project(obj) },
	}); err != nil {
		return fmt.Errorf("watching the Secret: %w", err)
	}
	factory.StartWithContext(ctx)
	<-ctx.Done() // a signal is the ordinary end
	return nil
}

// write puts all files in place with one rename, so that a reader never sees a key alongside another certificate.
func write(writer *volumeutil.AtomicWriter, secret *corev1.Secret) error {
	files := make(map[string]volumeutil.FileProjection, len(secret.Data))
	for name, data := range secret.Data {
		files[name] = volumeutil.FileProjection{Data: data, Mode: 0o600}
	}
	return writer.Write(files, nil)
}
