// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"
)

// TestMain draws the same objects in every run, so that a run fails because of a change and not by chance. With TRELLIS_TESTS=all (make test-all) they
// are others in each run, and more; the seed is printed. To repeat a run, or to look for more:
//
//	go test ./api/nvidia/internal/convert -rapid.checks=20000 -rapid.seed=$RANDOM
func TestMain(m *testing.M) {
	flag.Parse()
	seed, checks := "1", ""
	if os.Getenv("TRELLIS_TESTS") == "all" {
		seed, checks = strconv.FormatInt(time.Now().UnixNano(), 10), "1000"
	}
	for name, value := range map[string]string{"rapid.seed": seed, "rapid.checks": checks} {
		if f := flag.Lookup(name); value == "" || f.Value.String() != f.DefValue {
			continue
		}
		if err := flag.Set(name, value); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	fmt.Printf("-rapid.seed=%s -rapid.checks=%s\n", flag.Lookup("rapid.seed").Value, flag.Lookup("rapid.checks").Value)
	os.Exit(m.Run())
}
