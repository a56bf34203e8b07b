// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// TestMain tries more objects where all tests run. To look for more:
//
//	go test ./api/nvidia/internal/convert -rapid.checks=20000
func TestMain(m *testing.M) {
	flag.Parse()
	if checks := flag.Lookup("rapid.checks"); os.Getenv("TRELLIS_TESTS") == "all" && checks.Value.String() == checks.DefValue {
		if err := checks.Value.Set("1000"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}
