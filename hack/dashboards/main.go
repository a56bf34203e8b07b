// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Command dashboards writes the Grafana dashboard into the file given as its argument, or to standard output.
package main

import (
	"fmt"
	"os"
)

func main() {
	text, err := Dashboard().JSON()
	if err == nil && len(os.Args) > 1 {
		err = os.WriteFile(os.Args[1], text, 0o644)
	} else if err == nil {
		_, err = os.Stdout.Write(text)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "dashboards:", err)
		os.Exit(1)
	}
}
