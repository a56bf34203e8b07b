// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/trellis-k8s/trellis/hack/sandbox/progress"
)

// linkerFlags stamp the version: clients and components compare it and cannot parse the empty one.
const linkerFlags = "-s -w" +
	" -X k8s.io/component-base/version.gitVersion=" + Version +
	" -X k8s.io/component-base/version.gitMajor=1" +
	" -X k8s.io/component-base/version.gitMinor=37" +
	" -X k8s.io/client-go/pkg/version.gitVersion=" + Version +
	" -X k8s.io/client-go/pkg/version.gitMajor=1" +
	" -X k8s.io/client-go/pkg/version.gitMinor=37"

const compiling = "compiling packages"

// build compiles the module's program. Its progress comes from go build -v, which names every package it compiles,
// and from the number of packages that the build cache does not hold yet.
func (m module) build(ctx context.Context, folder, out string, report progress.Func) error {
	missing, err := m.countMissing(ctx, folder, report)
	if err != nil {
		return err
	}
	if missing > 100 {
		report.Say("building %s from Go modules: %s on two cores, once", m.title, m.work)
	} else {
		report.Say("linking %s: about half a minute, once", m.title)
	}
	cmd := goCommand(ctx, folder, "build", "-v", "-ldflags", linkerFlags, "-o", out, ".")
	cmd.Env = append(cmd.Env, "GOTMPDIR="+filepath.Dir(out)) // removed with the rest when the build is cut short
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting go build: %w", err)
	}
	said := m.follow(stderr, missing, report)
	if err := cmd.Wait(); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("building %s: %w; what is compiled already is kept", m.title, context.Cause(ctx))
		}
		return fmt.Errorf("building %s in %s: %w\n%s", m.title, folder, err, said)
	}
	return nil
}

// follow counts the compiled packages and returns all other output, which is only there when something is wrong.
func (m module) follow(output io.Reader, missing int, report progress.Func) string {
	var rest strings.Builder
	done := 0
	scanner := bufio.NewScanner(output)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		line := scanner.Text()
		switch {
		case strings.HasPrefix(line, "go: downloading "):
		case !isPackage(line):
			rest.WriteString("  " + line + "\n")
		case strings.HasSuffix(line, "/"+m.dir):
			report.Say("linking")
		default:
			done++
			report.Count(compiling, min(done, missing), missing)
		}
	}
	if scanner.Err() != nil { // a line too long; go build waits until someone reads the rest
		_, _ = io.Copy(io.Discard, output)
	}
	return rest.String()
}

// isPackage tells an import path from a compiler's message.
func isPackage(line string) bool {
	return line != "" && !strings.HasPrefix(line, "#") && !strings.ContainsAny(line, " :\t")
}

// countMissing asks which packages are not in the build cache; it downloads the modules that are not there, too.
func (m module) countMissing(ctx context.Context, folder string, report progress.Func) (int, error) {
	report.Say("looking for what has to be built (downloads Go modules the first time)")
	cmd := goCommand(ctx, folder, "list", "-deps", "-f", "{{if .Stale}}{{.ImportPath}}{{end}}", ".")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("listing the packages of %s in %s: %w\n%s", m.title, folder, err, stderr.String())
	}
	return max(1, strings.Count(string(out), "\n")-1), nil // the program itself is linked, not counted
}

// goCommand runs the go tool with settings of its own: no cgo, so that one build serves every distribution, and nothing inherited
// that would give the build cache other keys or take the module's own dependencies away.
func goCommand(ctx context.Context, module string, verb string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", append([]string{verb, "-buildvcs=false"}, args...)...)
	cmd.Dir = module
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it ends its compilers; killed, it could not
	cmd.WaitDelay = 10 * time.Second
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=", "PWD="+module)
	return cmd
}
