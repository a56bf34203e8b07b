// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

func write(file, text string) error { return os.WriteFile(file, []byte(text), 0o600) }

// build returns the folder of a peer's module, and builds its program unless that is there.
func (r *starter) build(ctx context.Context, p peer) (dir string, err error) {
	dir, err = ModuleDir(ctx, p.module)
	if err != nil {
		return "", err
	}
	program := filepath.Join(r.programs, p.programs[0].name)
	if _, err := os.Stat(program); err == nil {
		return dir, nil
	}
	r.report.Say("building %s, which takes a minute the first time", p.module)
	if err := os.MkdirAll(r.programs, 0o700); err != nil {
		return "", err
	}
	unfinished, err := os.MkdirTemp(r.programs, "build")
	if err != nil {
		return "", err
	}
	built := filepath.Join(unfinished, "program")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", built, cmp.Or(p.main, "./cmd"))
	cmd.Dir, cmd.Env = dir, append(append(os.Environ(), "CGO_ENABLED=0"), p.buildEnv...)
	if out, failed := cmd.CombinedOutput(); failed != nil {
		err = fmt.Errorf("building %s: %w: %s", p.module, failed, out)
	} else {
		err = os.Rename(built, program)
	}
	return dir, errors.Join(err, os.RemoveAll(unfinished))
}

// ModuleDir is where a module is on this machine, downloaded if need be.
func ModuleDir(ctx context.Context, module string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", module)
	cmd.Dir = os.TempDir()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("downloading %s: %w: %s", module, err, stderr.String())
	}
	answer := struct{ Dir string }{}
	return answer.Dir, json.Unmarshal(out, &answer)
}
