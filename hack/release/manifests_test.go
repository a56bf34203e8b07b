// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func TestKrewManifest(t *testing.T) {
	r := small(t, "v0.3.0")
	archives, err := r.writeArchives(programs(t, r, plugin, pluginPlatforms))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.writeKrew(archives); err != nil {
		t.Fatal(err)
	}
	checkWithKrew(t, r.out, "--skip-install")
}

// checkWithKrew runs the validation program of krew's index. Without --skip-install it also installs the archives of all platforms, which
// this machine serves in place of the hosting platform.
func checkWithKrew(t *testing.T, out string, args ...string) {
	t.Helper()
	server := httptest.NewServer(http.FileServer(http.Dir(out)))
	t.Cleanup(server.Close)
	manifest, err := os.ReadFile(filepath.Join(out, "trellis.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	base := manifest[strings.Index(string(manifest), homepage+"/releases/download/"):]
	base = base[:strings.LastIndex(strings.SplitN(string(base), "\n", 2)[0], "/")]
	local := filepath.Join(t.TempDir(), "trellis.yaml")
	if err := os.WriteFile(local, []byte(strings.ReplaceAll(string(manifest), string(base), server.URL)), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"tool", "validate-krew-manifest", "--manifest=" + local}, args...)...)
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("krew refuses the manifest: %v\n%s", err, output)
	}
}

func TestInstallNamesTheVersion(t *testing.T) {
	r := small(t, "v0.3.0-rc.1")
	if err := r.writeInstall(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(r.out, "install.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(string(text), "image: "+imageName+":v0.3.0-rc.1\n"); got != 1 {
		t.Errorf("the image of the version occurs %d times", got)
	}
	if !strings.Contains(string(text), "kind: CustomResourceDefinition") {
		t.Error("the definitions are missing")
	}
}

func TestChart(t *testing.T) {
	r := small(t, "v0.3.0-rc.1")
	if err := r.writeChart(t.Context()); err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(filepath.Join(r.out, "trellis-0.3.0-rc.1.tgz"))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	plain, err := gzip.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	metadata := ""
	for archive := tar.NewReader(plain); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if !header.ModTime.Equal(r.time) {
			t.Errorf("%s is of %s, want the commit's time %s", header.Name, header.ModTime, r.time)
		}
		if header.Name == "trellis/Chart.yaml" {
			text, err := io.ReadAll(archive)
			if err != nil {
				t.Fatal(err)
			}
			metadata = string(text)
		}
	}
	for _, want := range []string{"\nversion: 0.3.0-rc.1\n", "appVersion: v0.3.0-rc.1\n"} {
		if !strings.Contains("\n"+metadata, want) {
			t.Errorf("Chart.yaml lacks %q:\n%s", want, metadata)
		}
	}
}

// TestSBOM uses the test's own program, which the Go toolchain built from modules.
func TestSBOM(t *testing.T) {
	r := small(t, "v0.3.0")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.writeSBOM([]binary{{manager, platform{"linux", "amd64"}, self}}); err != nil {
		t.Fatal(err)
	}
	bom := readSBOM(t, filepath.Join(r.out, "trellis-manager_v0.3.0_sbom.cdx.json"))
	if main := bom.Metadata.Component; main.Name != manager || main.PackageURL != "pkg:golang/github.com/trellis-k8s/trellis@v0.3.0" {
		t.Errorf("it is about %s, %s", main.Name, main.PackageURL)
	}
	found := map[string]cdx.Component{}
	for _, c := range *bom.Components {
		found[c.Name] = c
	}
	if c := found["github.com/CycloneDX/cyclonedx-go"]; !strings.HasPrefix(c.PackageURL, "pkg:golang/github.com/cyclonedx/cyclonedx-go@v") || c.Hashes == nil {
		t.Errorf("got %+v", c)
	}
	if found["std"].Version == "" {
		t.Error("Go's own library is missing")
	}
	if refs := (*bom.Dependencies)[0].Dependencies; len(*refs) != len(*bom.Components) {
		t.Errorf("%d dependencies of %d components", len(*refs), len(*bom.Components))
	}
}

func readSBOM(t *testing.T, path string) *cdx.BOM {
	t.Helper()
	in, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	bom := &cdx.BOM{}
	if err := cdx.NewBOMDecoder(in, cdx.BOMFileFormatJSON).Decode(bom); err != nil {
		t.Fatal(err)
	}
	return bom
}
