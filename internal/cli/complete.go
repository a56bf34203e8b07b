// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

const (
	// completionPatience is how long a shell waits for names. If the cluster does not answer, there are no completions.
	completionPatience = 2 * time.Second
	// completionLimit bounds the number of listed names.
	completionLimit = 500
)

// Completion is the type of cobra's completion functions.
type Completion = func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective)

// versions are the API versions in which the names of each kind are listed.
var versions = map[Kind]schema.GroupVersion{
	Graph: nvidiav1beta1.GroupVersion, Group: trellisv1alpha1.GroupVersion, Pod: corev1.SchemeGroupVersion,
	Topology: grovev1alpha1.GroupVersion, Binding: grovev1alpha1.GroupVersion,
}

// CompleteObject completes the arguments that [Object] reads: the first word is a name or TYPE/NAME, and the word after a type is a name.
// Unless many is set, it completes only one name.
func (o *Output) CompleteObject(many bool, kinds ...Kind) Completion {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		const done = cobra.ShellCompDirectiveNoFileComp
		typed := slices.IndexFunc(kinds, func(k Kind) bool { return len(args) > 0 && k.called(args[0]) })
		switch word, _, slash := strings.Cut(toComplete, "/"); {
		case typed >= 0 && (many || len(args) == 1):
			return o.names(cmd.Context(), kinds[typed], ""), done
		case len(args) > 0 && !many:
			return nil, done
		case slash:
			if i := slices.IndexFunc(kinds, func(k Kind) bool { return k.called(word) }); i >= 0 {
				return o.names(cmd.Context(), kinds[i], word+"/"), done
			}
			return nil, done
		}
		list := o.names(cmd.Context(), kinds[0], "")
		for _, k := range kinds {
			if toComplete != "" && len(args) == 0 && strings.HasPrefix(k.Short, toComplete) {
				list = append(list, k.Short)
			}
		}
		return list, done
	}
}

// CompleteName completes a flag whose value is the name of an object of one of the kinds.
func (o *Output) CompleteName(kinds ...Kind) Completion {
	return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		var names []string
		for _, k := range kinds {
			names = append(names, o.names(cmd.Context(), k, "")...)
		}
		slices.Sort(names)
		return slices.Compact(names), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeFlags completes the flags that all reports have.
func (o *Output) completeFlags(cmd *cobra.Command) {
	for flag, complete := range map[string]Completion{
		"output": func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return o.formats(), cobra.ShellCompDirectiveNoFileComp
		},
		"namespace": func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return o.list(cmd.Context(), corev1.SchemeGroupVersion.WithKind("NamespaceList"), "", ""), cobra.ShellCompDirectiveNoFileComp
		},
		"context": func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return o.contexts(), cobra.ShellCompDirectiveNoFileComp
		},
	} {
		if cmd.Flags().Lookup(flag) != nil {
			_ = cmd.RegisterFlagCompletionFunc(flag, complete) // it fails only for a missing flag, or one with a completion
		}
	}
}

// contexts lists the contexts of the kubeconfig.
func (o *Output) contexts() []string {
	config, err := o.Config.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil
	}
	var list []string
	for name := range config.Contexts {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

// names lists the names of all objects of a kind in the user's namespace, and puts a prefix before each name.
func (o *Output) names(ctx context.Context, k Kind, prefix string) []string {
	namespace, _, err := o.Config.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil
	}
	if k == Topology || k == Binding {
		namespace = ""
	}
	return o.list(ctx, versions[k].WithKind(k.Name+"List"), namespace, prefix)
}

// list lists the names of objects in the cluster. It returns nothing after an error, because a shell cannot show errors while it completes
// a word.
func (o *Output) list(ctx context.Context, kind schema.GroupVersionKind, namespace, prefix string) []string {
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, stop := context.WithTimeout(ctx, completionPatience)
	defer stop()
	config, err := o.Config.ToRESTConfig()
	if err != nil {
		return nil
	}
	config.Timeout = completionPatience
	mapper := meta.NewDefaultRESTMapper(nil) // no discovery, which needs a request per group
	scope := meta.RESTScopeNamespace
	if namespace == "" {
		scope = meta.RESTScopeRoot
	}
	mapper.Add(kind.GroupVersion().WithKind(strings.TrimSuffix(kind.Kind, "List")), scope)
	c, err := client.New(config, client.Options{Mapper: mapper})
	if err != nil {
		return nil
	}
	all := &metav1.PartialObjectMetadataList{}
	all.SetGroupVersionKind(kind)
	if err := c.List(ctx, all, client.InNamespace(namespace), client.Limit(completionLimit)); err != nil {
		return nil
	}
	var list []string
	for i := range all.Items {
		list = append(list, prefix+all.Items[i].Name)
	}
	slices.SortFunc(list, Natural)
	return list
}
