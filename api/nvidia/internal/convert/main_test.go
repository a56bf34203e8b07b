// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// TestMain draws the same objects in every run, so that a run fails because of a change and not by chance. To look for more:
//
//	go test ./api/nvidia/internal/convert -rapid.checks=20000 -rapid.seed=$RANDOM
func TestMain(m *testing.M) {
	flag.Parse()
	if seed := flag.Lookup("rapid.seed"); seed.Value.String() == seed.DefValue {
		if err := flag.Set("rapid.seed", "1"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}
