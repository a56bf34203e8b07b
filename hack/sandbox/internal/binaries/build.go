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

// linkerFlags set the version, because clients and components compare versions and cannot parse an empty one.
const linkerFlags = "-s -w" +
	" -X k8s.io/component-base/version.gitVersion=" + Version +
	" -X k8s.io/component-base/version.gitMajor=1" +
	" -X k8s.io/component-base/version.gitMinor=37" +
	" -X k8s.io/client-go/pkg/version.gitVersion=" + Version +
	" -X k8s.io/client-go/pkg/version.gitMajor=1" +
	" -X k8s.io/client-go/pkg/version.gitMinor=37"

const compiling = "compiling packages"

// build compiles the program of the module. It reports progress from the output of go build -v, which names every package that it
// compiles, and from the number of packages that are not in the build cache.
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
	cmd.Env = append(cmd.Env, "GOTMPDIR="+filepath.Dir(out)) // so that an interrupted build leaves no temporary files
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

// follow counts the compiled packages and returns all other output, which is an error message.
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
	if scanner.Err() != nil { // a line that is too long; go build blocks until the rest is read
		_, _ = io.Copy(io.Discard, output)
	}
	return rest.String()
}

// isPackage reports whether a line is an import path, and not a message of the compiler.
func isPackage(line string) bool {
	return line != "" && !strings.HasPrefix(line, "#") && !strings.ContainsAny(line, " :\t")
}

// countMissing counts the packages that are not in the build cache. It also downloads missing modules.
func (m module) countMissing(ctx context.Context, folder string, report progress.Func) (int, error) {
	report.Say("looking for what has to be built (downloads Go modules the first time)")
	cmd := goCommand(ctx, folder, "list", "-deps", "-f", "{{if .Stale}}{{.ImportPath}}{{end}}", ".")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("listing the packages of %s in %s: %w\n%s", m.title, folder, err, stderr.String())
	}
	return max(1, strings.Count(string(out), "\n")-1), nil // without the program itself, which is linked, not compiled
}

// goCommand runs the go tool without cgo, so that one build runs on every distribution, and without inherited settings that would change
// the keys of the build cache or hide the dependencies of the module.
func goCommand(ctx context.Context, module string, verb string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", append([]string{verb, "-buildvcs=false"}, args...)...)
	cmd.Dir = module
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // SIGKILL would leave its compilers running
	cmd.WaitDelay = 10 * time.Second
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=", "PWD="+module)
	return cmd
}
