// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/trellis-k8s/trellis/internal/cli/text"
)

// Formats of a report that this code handles itself. The other formats are those of kubectl's printers.
const (
	formatText = "text"
	formatWide = "wide"
	formatName = "name"
	formatJSON = "json"
)

// Ref identifies an object of a report.
type Ref struct {
	// Kind, Group and Name of the object. For example, -o name writes them as dynamographdeployment.nvidia.com/NAME.
	Kind, Group, Name string
}

// Report is the output of a command. It marshals to its JSON form.
type Report interface {
	// Refs returns the objects of the report, in order, for -o name.
	Refs() []Ref
	// Text renders the report for people.
	Text(text.Page) string
}

// Output holds the streams, the cluster and the format of a command that reports on a cluster.
type Output struct {
	genericiooptions.IOStreams
	Config *genericclioptions.ConfigFlags
	flags  *genericclioptions.PrintFlags
	format string
	// printer of the format, set by Check; nil for text and wide.
	printer printers.ResourcePrinter
}

// NewOutput returns an Output with the text format, for the cluster of the kubeconfig.
func NewOutput(streams genericiooptions.IOStreams) Output {
	return Output{IOStreams: streams, Config: genericclioptions.NewConfigFlags(true), format: formatText,
		flags: genericclioptions.NewPrintFlags("")}
}

// AddFlags adds the flags for cluster and format; more is appended to the description of the formats.
func (o *Output) AddFlags(cmd *cobra.Command, more string) {
	o.Config.AddFlags(cmd.Flags())
	o.flags.TemplatePrinterFlags.AddFlags(cmd)
	cmd.Flags().StringVarP(&o.format, "output", "o", formatText, "one of "+strings.Join(o.formats(), ", ")+more)
	o.completeFlags(cmd)
}

// formats lists the formats.
func (o *Output) formats() []string {
	list := slices.Concat([]string{formatText, formatWide, formatName}, o.flags.JSONYamlPrintFlags.AllowedFormats(),
		o.flags.TemplatePrinterFlags.AllowedFormats())
	list = slices.DeleteFunc(list, func(f string) bool { return f == "kyaml" }) // it needs an object of a known kind
	slices.Sort(list)
	return slices.Compact(list)
}

// Check refuses an unknown format, and sets the printer of a known format.
func (o *Output) Check() error {
	format, _, _ := strings.Cut(o.format, "=")
	if format == "" {
		o.format, format = formatText, formatText
	}
	if !slices.Contains(o.formats(), format) {
		return fmt.Errorf("-o %s: want one of %s", o.format, strings.Join(o.formats(), ", "))
	}
	if format == formatText || format == formatWide {
		return nil
	}
	o.flags.OutputFormat = &o.format
	var err error
	if o.printer, err = o.flags.ToPrinter(); err != nil {
		return fmt.Errorf("-o %s: %w", o.format, err)
	}
	return nil
}

// ForPrograms reports whether the format is neither text nor wide.
func (o *Output) ForPrograms() bool { return o.printer != nil }

// Page returns the page for text.
func (o *Output) Page() text.Page {
	page := text.PageOf(o.Out)
	page.Wide = o.format == formatWide
	return page
}

// Show writes a report, with the printer of the format or as text.
func (o *Output) Show(report Report) error {
	if o.printer == nil {
		_, err := fmt.Fprint(o.Out, text.Visible(report.Text(o.Page())))
		return err
	}
	if o.format == formatName {
		return o.showNames(report)
	}
	raw, err := json.Marshal(report)
	if err != nil {
		return err
	}
	return o.printer.PrintObj(&runtime.Unknown{Raw: raw, ContentType: runtime.ContentTypeJSON}, o.Out)
}

// showNames writes the names of the report's objects.
func (o *Output) showNames(report Report) error {
	for _, ref := range report.Refs() {
		object := &metav1.PartialObjectMetadata{
			TypeMeta: metav1.TypeMeta{APIVersion: ref.Group + "/v1", Kind: ref.Kind}, ObjectMeta: metav1.ObjectMeta{Name: ref.Name},
		}
		if err := o.printer.PrintObj(object, o.Out); err != nil {
			return err
		}
	}
	return nil
}

// ShowNext writes one of several reports for programs: as a line of JSON, or with the printer of the format.
func (o *Output) ShowNext(report Report) error {
	if o.format == formatJSON {
		return json.NewEncoder(o.Out).Encode(report)
	}
	return o.Show(report)
}
