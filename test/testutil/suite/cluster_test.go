// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestAnswered(t *testing.T) {
	for name, tc := range map[string]struct {
		answers []error
		fails   bool
	}{
		"answered":                    {[]error{nil}, false},
		"answered at the second call": {[]error{errors.New("connection refused"), nil}, false},
		"refused":                     {[]error{apierrors.NewBadRequest("wrong"), nil}, true},
	} {
		t.Run(name, func(t *testing.T) {
			gomega.RegisterTestingT(t)
			calls := 0
			failures := gomega.InterceptGomegaFailures(func() {
				Answered(t.Context(), func() error {
					calls++
					return tc.answers[calls-1]
				})
			})
			if (len(failures) > 0) != tc.fails {
				t.Errorf("%d calls, failures %q", calls, failures)
			}
			if tc.fails && (calls != 1 || !strings.Contains(strings.Join(failures, ""), "the API server refuses it")) {
				t.Errorf("%d calls, failures %q", calls, failures)
			}
		})
	}
}

// TestKeepLogs checks that logs of an earlier run are removed from the copy.
func TestKeepLogs(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "logs")
	for _, name := range []string{"earlier", "later"} {
		if err := os.WriteFile(filepath.Join(from, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := keep(from, to); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(from, name)); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadDir(to)
	if err != nil {
		t.Fatal(err)
	}
	if len(kept) != 1 || kept[0].Name() != "later" {
		t.Errorf("kept: %v", kept)
	}
}
