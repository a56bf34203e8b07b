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

// build returns the folder of a peer's module, and builds the peer's program if it is missing.
func (r *starter) build(ctx context.Context, p peer) (dir string, err error) {
	dir, err = moduleDir(ctx, p)
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

// moduleDir returns the folder of a peer's module on this machine, and downloads the module if necessary.
func moduleDir(ctx context.Context, p peer) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", p.module)
	cmd.Dir, cmd.Env = os.TempDir(), append(os.Environ(), p.buildEnv...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, failed := cmd.Output()
	answer := struct{ Dir, Error string }{} // go reports a failed download in this output, not on stderr
	unreadable := json.Unmarshal(out, &answer)
	if failed != nil {
		return "", fmt.Errorf("downloading %s: %w: %s%s", p.module, failed, answer.Error, stderr.String())
	}
	return answer.Dir, unreadable
}
