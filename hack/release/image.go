// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/authn/github"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// user is the user of the process, by number because the kubelet checks runAsNonRoot against it. It is the same as in the manifests.
const user = "65532:65532"

// writeImage writes the images of all platforms as an OCI layout, as a folder and as an archive, and returns the digest of their index. An
// image has one layer and no base image: the static binary and the licence.
func (r *release) writeImage(binaries []binary) (v1.Hash, error) {
	labels := map[string]string{
		"org.opencontainers.image.title":       "Trellis",
		"org.opencontainers.image.description": "Packs inference graphs into the network domains of a Kubernetes cluster",
		"org.opencontainers.image.source":      homepage,
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.version":     r.version,
		"org.opencontainers.image.revision":    r.commit,
		"org.opencontainers.image.created":     r.time.Format(time.RFC3339),
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, b := range binaries {
		image, err := r.image(b, labels)
		if err != nil {
			return v1.Hash{}, fmt.Errorf("%s: %w", b.platform, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: b.os, Architecture: b.arch}},
		})
	}
	index, _ = mutate.Annotations(index, labels).(v1.ImageIndex)
	dir := filepath.Join(r.out, manager)
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return v1.Hash{}, err
	}
	// containerd and skopeo take the image's name from these annotations when they import the archive.
	names := layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": r.version, "io.containerd.image.name": imageName + ":" + r.version,
	})
	if err := path.AppendIndex(index, names); err != nil {
		return v1.Hash{}, err
	}
	if err := r.archiveLayout(dir); err != nil {
		return v1.Hash{}, err
	}
	return index.Digest()
}

// image returns the image of one platform.
func (r *release) image(b binary, labels map[string]string) (v1.Image, error) {
	files, err := r.filesOf(b)
	if err != nil {
		return nil, err
	}
	var layer bytes.Buffer
	if err := writeTar(&layer, files, r.time); err != nil {
		return nil, err
	}
	opened := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil }
	compressed, err := tarball.LayerFromOpener(opened, tarball.WithMediaType(types.OCILayer),
		tarball.WithCompressionLevel(gzip.BestCompression), tarball.WithCompressedCaching)
	if err != nil {
		return nil, err
	}
	created := v1.Time{Time: r.time}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{
		OS: b.os, Architecture: b.arch, Created: created, RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{User: user, Entrypoint: []string{"/" + b.program}, Labels: labels},
	})
	if err != nil {
		return nil, err
	}
	return mutate.Append(image, mutate.Addendum{Layer: compressed, History: v1.History{Created: created, CreatedBy: "make release"}})
}

// archiveLayout packs the layout's folder into the archive for download and import.
func (r *release) archiveLayout(dir string) error {
	files, err := folder(dir)
	if err != nil {
		return err
	}
	out, err := os.Create(filepath.Join(r.out, r.artefact(manager, "oci.tar")))
	if err != nil {
		return err
	}
	return errors.Join(writeTar(out, files, r.time), out.Close())
}

// push copies the index of a layout, and everything that it refers to, to a registry. It returns the image's name with the digest.
func push(ctx context.Context, dir, image string) (string, error) {
	ref, err := name.NewTag(image, name.StrictValidation)
	if err != nil {
		return "", err
	}
	found, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return "", err
	}
	manifest, err := found.IndexManifest()
	if err != nil {
		return "", err
	}
	if len(manifest.Manifests) != 1 {
		return "", fmt.Errorf("%s holds %d images, want 1", dir, len(manifest.Manifests))
	}
	digest := manifest.Manifests[0].Digest
	index, err := found.ImageIndex(digest)
	if err != nil {
		return "", err
	}
	keys := authn.NewMultiKeychain(authn.DefaultKeychain, github.Keychain)
	if err := remote.WriteIndex(ref, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(keys)); err != nil {
		return "", err
	}
	return ref.Context().Digest(digest.String()).String(), nil
}
