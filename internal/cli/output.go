// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"
)

// Formats of a report.
const (
	formatText = "text"
	formatJSON = "json"
	formatYAML = "yaml"
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
	flags.StringVarP(&o.format, "output", "o", formatText, "text, json or yaml"+more)
}

// Check refuses a format that there is not.
func (o *Output) Check() error {
	switch o.format {
	case formatText, formatJSON, formatYAML:
		return nil
	}
	return fmt.Errorf("-o %s: want %s, %s or %s", o.format, formatText, formatJSON, formatYAML)
}

// JSON says that the report is for programs: as JSON, or as the same fields in YAML.
func (o *Output) JSON() bool { return o.format == formatJSON || o.format == formatYAML }

// Show writes a report: as JSON or YAML, or as the text it makes.
func (o *Output) Show(report any, text func() string) error {
	switch o.format {
	case formatJSON:
		encoder := json.NewEncoder(o.Out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(report)
	case formatYAML:
		return o.writeYAML("", report)
	}
	_, err := fmt.Fprint(o.Out, text())
	return err
}

// ShowNext writes one of several reports for programs: a line of JSON, or a document of YAML.
func (o *Output) ShowNext(report any) error {
	if o.format == formatYAML {
		return o.writeYAML("---\n", report)
	}
	return json.NewEncoder(o.Out).Encode(report)
}

func (o *Output) writeYAML(before string, report any) error {
	data, err := yaml.Marshal(report)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(o.Out, before+string(data))
	return err
}
