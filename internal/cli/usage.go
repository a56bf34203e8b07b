// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/trellis-k8s/trellis/internal/cli/text"
)

// expected describes the values of each type of flag.
var expected = map[string]string{
	"int": "a whole number", "int32": "a whole number", "int64": "a whole number", "uint": "a whole number from 0", "bool": "true or false",
	"duration": "a duration such as 30s, 5m or 1h30m", "float64": "a number",
}

// FlagError explains a flag that cannot be parsed: its name, its value, and the expected values.
func FlagError(cmd *cobra.Command, err error) error {
	hint := fmt.Sprintf("\nSee '%s --help'", cmd.CommandPath())
	var value *pflag.InvalidValueError
	var unknown *pflag.NotExistError
	switch {
	case errors.As(err, &value):
		flag := value.GetFlag()
		if want := expected[flag.Value.Type()]; want != "" {
			return fmt.Errorf("--%s %s: want %s", flag.Name, value.GetValue(), want)
		}
		return fmt.Errorf("--%s %s: %w", flag.Name, value.GetValue(), errors.Unwrap(err))
	case errors.As(err, &unknown):
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if near := Nearest(unknown.GetSpecifiedName(), names); near != "" && unknown.GetSpecifiedShortnames() == "" {
			hint = fmt.Sprintf("; did you mean --%s?", near) + hint
		}
		return fmt.Errorf("%w%s", err, hint)
	}
	return fmt.Errorf("%w%s", err, hint)
}

// OneObject requires the arguments that name one object: NAME, TYPE/NAME or TYPE NAME.
func OneObject(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return misused(cmd, "a name is missing")
	case len(args) > 2:
		return misused(cmd, fmt.Sprintf("%s: want one object", strings.Join(args, " ")))
	}
	return nil
}

// NoArguments refuses arguments.
func NoArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return misused(cmd, strings.Join(args, " ")+": this command takes no arguments")
	}
	return nil
}

// misused returns an error with the usage of the command and its first example.
func misused(cmd *cobra.Command, what string) error {
	example, _, _ := strings.Cut(strings.TrimSpace(cmd.Example), "\n")
	return fmt.Errorf("%s\nUsage:\n  %s\nExample:\n  %s\nSee '%s --help'", what, cmd.UseLine(), example, cmd.CommandPath())
}

// RefuseUnknown makes commands that only have subcommands fail for an unknown subcommand. The failing command prints its usage, and the
// name that was probably meant. Without arguments, such a command prints its help. RefuseUnknown applies to all commands below root,
// including those that cobra adds.
func RefuseUnknown(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	refuseUnknown(root)
	for _, sub := range root.Commands() {
		if sub.Name() == "help" {
			sub.Run, sub.RunE = nil, help
		}
	}
}

func refuseUnknown(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		refuseUnknown(sub)
	}
	if cmd.Runnable() || !cmd.HasSubCommands() {
		return
	}
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		out := cmd.ErrOrStderr()
		writeUsage(out, text.PageOf(out), cmd)
		fmt.Fprintln(out)
		return unknownCommand(cmd, args[0])
	}
}

// help shows the help of a command, or fails for an unknown command.
func help(cmd *cobra.Command, args []string) error {
	of, rest, err := cmd.Root().Find(args)
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return unknownCommand(of, rest[0])
	}
	return of.Help()
}

func unknownCommand(cmd *cobra.Command, name string) error {
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	meant := ""
	if near := Nearest(name, names); near != "" {
		meant = fmt.Sprintf("; did you mean %q?", near)
	}
	return fmt.Errorf("unknown command %q for %q%s", name, cmd.CommandPath(), meant)
}
