// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"fmt"
	"io"

	"github.com/trellis-k8s/trellis/internal/field"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/whatif"
)

// Execute plans all deployments of the input with the planner. If deployments have errors, it returns all of these errors. It writes the
// warnings of admission to warnings.
func Execute(in Input, planner *whatif.Planner, warnings io.Writer) (Plans, error) {
	var errs []error
	for _, w := range in.plan {
		for _, e := range planner.Check(w.dgd) {
			errs = append(errs, w.at(e.Field, field.Body{Error: e}))
		}
	}
	if len(errs) > 0 {
		return Plans{}, errors.Join(errs...)
	}
	report := Plans{Graphs: []Outcome{}, in: in}
	for _, w := range in.plan {
		for _, line := range planner.Warnings(w.dgd) {
			fmt.Fprintf(warnings, "Warning: %s/%s: %s\n", w.dgd.Namespace, w.dgd.Name, line.In(w.version))
		}
		g, err := planner.Plan(w.dgd)
		if err != nil {
			errs = append(errs, unresolved(w, err)...)
			continue
		}
		report.add(g)
	}
	return report, errors.Join(errs...)
}

// unresolved converts the error of a deployment that cannot be rendered as pods into one error per field.
func unresolved(w wanted, err error) []error {
	list := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		list = joined.Unwrap()
	}
	out := make([]error, 0, len(list))
	for _, err := range list {
		var wrong *render.Error
		if errors.As(err, &wrong) {
			out = append(out, w.at(wrong.Path, wrong.Message))
		} else {
			out = append(out, w.at(field.NewPath("spec"), field.Say(err.Error())))
		}
	}
	return out
}
