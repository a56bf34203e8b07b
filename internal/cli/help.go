// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/trellis-k8s/trellis/internal/cli/text"
)

// optionsName is the name of the command that lists kubectl's flags, as kubectl options does.
const optionsName = "options"

// helpFlag is the flag that cobra adds to every command.
const helpFlag = "help"

// SetHelp makes commands below root show help and usage in the width of the terminal, with their own flags and shownFlags. It also adds the
// command "options", which lists kubectl's flags.
func SetHelp(root *cobra.Command) {
	root.AddCommand(newOptionsCommand())
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		cmd.InitDefaultHelpFlag()
		out := cmd.OutOrStdout()
		p := text.PageOf(out)
		p.Color = false
		if about := strings.TrimSpace(cmp.Or(cmd.Long, cmd.Short)); about != "" {
			fmt.Fprintf(out, "%s\n\n", p.Wrap(paragraphs(about), ""))
		}
		writeUsage(out, p, cmd)
	})
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		out := cmd.OutOrStderr()
		p := text.PageOf(out)
		p.Color = false
		writeUsage(out, p, cmd)
		return nil
	})
}

// paragraphs joins the lines of each paragraph, so that the paragraph can be wrapped again. Indented lines remain separate lines.
func paragraphs(s string) string {
	var b strings.Builder
	before := ""
	for i, line := range strings.Split(s, "\n") {
		switch {
		case i == 0:
		case line == "" || before == "" || strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t") || strings.HasPrefix(before, "\t"):
			b.WriteString("\n")
		default:
			b.WriteString(" ")
		}
		b.WriteString(line)
		before = line
	}
	return b.String()
}

func writeUsage(out io.Writer, p text.Page, cmd *cobra.Command) {
	var sections []string
	add := func(title, body string) {
		if body = strings.TrimRight(body, "\n"); body != "" {
			sections = append(sections, title+":\n"+body+"\n")
		}
	}
	usage := "  " + cmd.UseLine()
	if cmd.HasAvailableSubCommands() {
		usage = "  " + cmd.CommandPath() + " [command]"
	}
	add("Usage", p.Wrap(usage, "      "))
	add("Examples", cmd.Example)
	add("Available Commands", commands(p, cmd))
	own, kubectl := flagsOf(cmd)
	add("Flags", own.FlagUsagesWrapped(p.Columns))
	add("Global Flags", global(cmd, kubectl).FlagUsagesWrapped(p.Columns))
	if cmd.HasAvailableSubCommands() {
		sections = append(sections, p.Wrap(fmt.Sprintf("Use %q for more about a command.", cmd.CommandPath()+" [command] --help"), "")+"\n")
	}
	if kubectl.HasAvailableFlags() || !cmd.HasParent() {
		sections = append(sections, p.Wrap(fmt.Sprintf("Use %q for the flags that choose the cluster, the namespace and the user, which are "+
			"those of kubectl, and for those of templates.",
			cmd.Root().CommandPath()+" "+optionsName), "")+"\n")
	}
	fmt.Fprint(out, strings.Join(sections, "\n"))
}

// commands lists the subcommands of a command with their descriptions.
func commands(p text.Page, cmd *cobra.Command) string {
	width := 0
	for _, sub := range cmd.Commands() {
		width = max(width, len(sub.Name()))
	}
	var b strings.Builder
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() || sub.Name() == "help" {
			lines := strings.Split(p.Narrower(width+4).Wrap(sub.Short, ""), "\n")
			fmt.Fprintf(&b, "  %-*s  %s\n", width, sub.Name(), strings.Join(lines, "\n"+strings.Repeat(" ", width+4)))
		}
	}
	return b.String()
}

// kubectlFlags returns the flags that kubectl adds to all its commands.
func kubectlFlags() *pflag.FlagSet {
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	genericclioptions.NewConfigFlags(true).AddFlags(set)
	templates := &cobra.Command{}
	genericclioptions.NewPrintFlags("").TemplatePrinterFlags.AddFlags(templates)
	set.AddFlagSet(templates.Flags())
	return set
}

// shownFlags are the flags of kubectl that the help of a command shows.
var shownFlags = []string{"context", "namespace"}

// global returns the flags that the help of a command shows last: the help flag, and a few of kubectl's flags.
func global(cmd *cobra.Command, kubectl *pflag.FlagSet) *pflag.FlagSet {
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	if f := cmd.Flags().Lookup(helpFlag); f != nil {
		set.AddFlag(f)
	}
	for _, name := range shownFlags {
		if f := kubectl.Lookup(name); f != nil {
			set.AddFlag(f)
		}
	}
	return set
}

// flagsOf returns a command's own flags without the help flag, and the flags that all kubectl commands have.
func flagsOf(cmd *cobra.Command) (own, kubectl *pflag.FlagSet) {
	own, kubectl = pflag.NewFlagSet("", pflag.ContinueOnError), pflag.NewFlagSet("", pflag.ContinueOnError)
	known := kubectlFlags()
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		switch k := known.Lookup(f.Name); {
		case k != nil && k.Usage == f.Usage:
			kubectl.AddFlag(f)
		case f.Name != helpFlag:
			own.AddFlag(f)
		}
	})
	return own, kubectl
}

func newOptionsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   optionsName,
		Short: "List the flags that choose the cluster, the namespace and the user, and those of templates",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := cmd.OutOrStdout()
			p := text.PageOf(out)
			_, err := fmt.Fprintf(out, "%s\n\n%s", p.Wrap("These flags of kubectl can be passed to every command that reads a cluster:", ""),
				kubectlFlags().FlagUsagesWrapped(p.Columns))
			return err
		},
	}
}
