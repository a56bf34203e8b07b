// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/trellis-k8s/trellis/internal/cli/maps"
)

const (
	root  = "../.."
	shots = root + "/bin/map"
	// patience limits the time of one page; an idle machine needs a second or two.
	patience = 2 * time.Minute
)

// start starts a browser for a test, with its own empty profile.
func start(t *testing.T) context.Context {
	t.Helper()
	profile, err := os.MkdirTemp("", "trellis-browser-")
	if err != nil {
		t.Fatal(err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.UserDataDir(profile), chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true))
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, end := chromedp.NewContext(allocator)
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // waits until the browser has ended
		end()
		stop()
		_ = os.RemoveAll(profile)
	})
	if err := chromedp.Run(ctx); err != nil {
		t.Fatalf("starting Chromium (make test-browser installs it): %v", err)
	}
	return ctx
}

// look is the window and the theme of a page.
type look struct {
	width, height int64
	dark          bool
}

var wide = look{width: 1280, height: 800}

// page is one tab. Errors in it fail the test: script errors, violations of the content security policy, requests to any network.
type page struct {
	*testing.T
	ctx context.Context

	mu       sync.Mutex
	problems []string
	allow    string // an additional address that may be requested
	quiet    bool   // console messages are not errors
}

// open loads an address in a new tab of the browser.
func open(t *testing.T, browser context.Context, url string, l look) *page {
	t.Helper()
	tab, closeTab := chromedp.NewContext(browser)
	ctx, cancel := context.WithTimeout(tab, patience)
	t.Cleanup(closeTab)
	t.Cleanup(cancel)
	p := &page{T: t, ctx: ctx}
	address, _, _ := strings.Cut(url, "#")
	chromedp.ListenTarget(ctx, func(event any) { p.listen(event, address[:strings.LastIndex(address, "/")+1]) })
	scheme := "light"
	if l.dark {
		scheme = "dark"
	}
	p.run(network.Enable(), log.Enable(),
		emulation.SetDeviceMetricsOverride(l.width, l.height, 1, false),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
		chromedp.Navigate(url))
	t.Cleanup(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, problem := range p.problems {
			t.Errorf("%s: %s", url, problem)
		}
	})
	return p
}

func (p *page) listen(event any, origin string) {
	problem := ""
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		problem = "script error: " + e.ExceptionDetails.Error()
	case *log.EventEntryAdded:
		if e.Entry.Level == log.LevelError && !p.quiet {
			problem = "console: " + e.Entry.Text
		}
	case *network.EventRequestWillBeSent:
		if !strings.HasPrefix(e.Request.URL, origin) && e.Request.URL != p.allow {
			problem = "request to " + e.Request.URL
		}
	}
	if problem != "" {
		p.mu.Lock()
		p.problems = append(p.problems, problem)
		p.mu.Unlock()
	}
}

func (p *page) run(actions ...chromedp.Action) {
	p.Helper()
	if err := chromedp.Run(p.ctx, actions...); err != nil {
		p.Fatal(err)
	}
}

// performanceOf returns the browser's counters of the page.
func performanceOf(p *page) (map[string]float64, error) {
	out := map[string]float64{}
	err := chromedp.Run(p.ctx, chromedp.ActionFunc(func(ctx context.Context) error {
		metrics, err := performance.GetMetrics().Do(ctx)
		for _, m := range metrics {
			out[m.Name] = m.Value
		}
		return err
	}))
	return out, err
}

// js evaluates an expression in the page.
func js[T any](p *page, expression string) T {
	p.Helper()
	var out T
	p.run(chromedp.Evaluate(expression, &out))
	return out
}

// do runs statements in the page.
func (p *page) do(statements string) {
	p.Helper()
	p.run(chromedp.Evaluate("(() => {"+statements+"})()", nil))
}

// shot stores a screenshot in bin/map.
func (p *page) shot(name string) {
	p.Helper()
	var png []byte
	p.run(chromedp.CaptureScreenshot(&png))
	p.save(name+".png", png)
}

func (p *page) save(name string, data []byte) {
	p.Helper()
	if err := os.MkdirAll(shots, 0o755); err != nil {
		p.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(shots, name), data, 0o644); err != nil {
		p.Fatal(err)
	}
}

// write writes a map's page into a file and returns its address.
func write(t *testing.T, m *maps.Map) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "map.html")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := m.HTML(f); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("file://%s", path)
}
