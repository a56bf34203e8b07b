// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// goModule is what go mod edit -json says of a go.mod.
type goModule struct {
	Module  struct{ Path string }
	Require []struct {
		Path, Version string
		Indirect      bool
	}
	Replace []json.RawMessage
}

func moduleIn(t *testing.T, folder string) goModule {
	t.Helper()
	edit := exec.CommandContext(t.Context(), "go", "mod", "edit", "-json")
	edit.Dir = filepath.Join(root, folder)
	out, err := edit.Output()
	if err != nil {
		t.Fatalf("reading %s/go.mod: %v", folder, err)
	}
	var module goModule
	if err := json.Unmarshal(out, &module); err != nil {
		t.Fatal(err)
	}
	return module
}

// TestModuleIsInstallable: go install PACKAGE@VERSION works. It needs a go.mod that replaces nothing, and nothing is required that only a clone has.
func TestModuleIsInstallable(t *testing.T) {
	module := moduleIn(t, ".")
	if len(module.Replace) > 0 {
		t.Errorf("go.mod replaces modules: %s", module.Replace)
	}
	for _, required := range module.Require {
		if strings.HasPrefix(required.Path, module.Module.Path+"/") {
			t.Errorf("go.mod requires %s", required.Path)
		}
	}
}

// TestModulesAgreeOnVersions: what the modules of make test require is of the version that this module requires.
func TestModulesAgreeOnVersions(t *testing.T) {
	versions := map[string]string{}
	for _, required := range moduleIn(t, ".").Require {
		versions[required.Path] = required.Version
	}
	for _, folder := range []string{"hack/sandbox", "test/e2e"} {
		shared := 0
		for _, required := range moduleIn(t, folder).Require {
			want, known := versions[required.Path]
			if !known {
				continue
			}
			if shared++; required.Version != want {
				t.Errorf("%s/go.mod requires %s %s, go.mod %s", folder, required.Path, required.Version, want)
			}
		}
		if shared < 20 {
			t.Errorf("%s/go.mod shares only %d requirements with go.mod", folder, shared)
		}
	}
}
