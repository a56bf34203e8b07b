// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// Formats of a report.
const (
	formatText = "text"
	formatJSON = "json"
)

// Output is what every command has that reports on a cluster: where the report goes, which cluster it is about, and the format.
type Output struct {
	genericiooptions.IOStreams
	Config *genericclioptions.ConfigFlags
	format string
}

// NewOutput returns an Output in text on the cluster of the kubeconfig.
func NewOutput(streams genericiooptions.IOStreams) Output {
	return Output{IOStreams: streams, Config: genericclioptions.NewConfigFlags(true), format: formatText}
}

// AddFlags adds the flags that choose cluster and format; more says what else there is to say of the formats.
func (o *Output) AddFlags(flags *pflag.FlagSet, more string) {
	o.Config.AddFlags(flags)
	flags.StringVarP(&o.format, "output", "o", formatText, "text or json"+more)
}

// Check refuses a format that there is not.
func (o *Output) Check() error {
	if o.format != formatText && o.format != formatJSON {
		return fmt.Errorf("-o %s: want %s or %s", o.format, formatText, formatJSON)
	}
	return nil
}

// JSON says that the report is for programs.
func (o *Output) JSON() bool { return o.format == formatJSON }

// Show writes a report: as JSON, or as the text it makes.
func (o *Output) Show(report any, text func() string) error {
	if o.JSON() {
		encoder := json.NewEncoder(o.Out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(report)
	}
	_, err := fmt.Fprint(o.Out, text())
	return err
}
