#!/usr/bin/env bash
# build.sh VERSION BINARIES builds kube-apiserver, kube-controller-manager and kube-scheduler of a release of Kubernetes (1.30) into
# bin/versions/VERSION, links the other programs of a sandbox there from the folder BINARIES, and prints the folder.
set -euo pipefail
version=$1 binaries=$2
cd "$(dirname "$0")"
file=$version.mod
oldest=$(sed -nE 's/^\tk8s\.io\/kubernetes v([0-9]+\.[0-9]+)\..*/\1/p' go.mod)
[ "$version" = "$oldest" ] && file=go.mod
[ -f "$file" ] || { echo "no control plane of Kubernetes $version: hack/versions has $oldest and $(ls [0-9]*.mod | sed 's/\.mod//' | tr '\n' ' ')" >&2; exit 1; }
release=$(sed -nE 's/^\tk8s\.io\/kubernetes (v[0-9.]+)$/\1/p' "$file")
minor=${version#*.}
package=k8s.io/component-base/version
folder=$(cd ../.. && pwd)/bin/versions/$version
mkdir -p "$folder"
go build -modfile="$file" -ldflags "-s -w -X $package.gitVersion=$release -X $package.gitMajor=1 -X $package.gitMinor=$minor" -o "$folder/versions" . >&2
for name in kube-apiserver kube-controller-manager kube-scheduler; do ln -sfn versions "$folder/$name"; done
for name in etcd kubectl kwok secret-mount; do ln -sfn "$binaries/$name" "$folder/$name"; done
echo "$folder"
