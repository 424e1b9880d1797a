#!/bin/sh
# Build kube-apiserver, kube-scheduler and etcd from the Go module proxy into a cache folder, once.
#
#   tools/kube/build.sh            builds what is missing, prints the folder
#
# PUMICE_KUBE_CACHE  where the binaries go (default ~/.cache/pumice-kube)
# KUBEBUILDER_ASSETS a folder that has kube-apiserver and etcd already: nothing is built then
# GOFLAGS            for instance -p=1, to leave cores to others
set -eu

KUBERNETES=1.36.4
STAGING=0.36.4 # the modules that Kubernetes keeps in its own tree are published under this version
ETCD=3.6.8

if [ -n "${KUBEBUILDER_ASSETS:-}" ]; then
    for name in kube-apiserver etcd; do
        [ -x "$KUBEBUILDER_ASSETS/$name" ] || {
            echo "KUBEBUILDER_ASSETS=$KUBEBUILDER_ASSETS: has no $name" >&2
            exit 1
        }
    done
    echo "$KUBEBUILDER_ASSETS"
    exit 0
fi

cache=${PUMICE_KUBE_CACHE:-$HOME/.cache/pumice-kube}
bin=$cache/$KUBERNETES
mkdir -p "$bin"
missing=
for name in etcd kube-apiserver kube-scheduler; do
    [ -x "$bin/$name" ] || missing="$missing $name"
done
if [ -z "$missing" ]; then
    echo "$bin"
    exit 0
fi
command -v go >/dev/null || {
    echo "Go 1.26 or newer is needed to build$missing: install it, or set KUBEBUILDER_ASSETS to a folder with the binaries" >&2
    exit 1
}

work=$cache/build
mkdir -p "$work"
cd "$work"
theirs=$(go mod download -json "k8s.io/kubernetes@v$KUBERNETES" | sed -n 's/.*"GoMod": "\(.*\)".*/\1/p')
{
    printf 'module pumice.test/kube\n\ngo 1.26.0\n\n'
    printf 'require (\n\tk8s.io/kubernetes v%s\n\tgo.etcd.io/etcd/server/v3 v%s\n)\n\nreplace (\n' "$KUBERNETES" "$ETCD"
    sed -n 's|^\t\(k8s.io/[a-z0-9-]*\) => ./staging/.*|\1|p' "$theirs" | while read -r module; do
        printf '\t%s => %s v%s\n' "$module" "$module" "$STAGING"
    done
    printf ')\n'
} >go.mod
cat >tools.go <<'GO'
//go:build tools

package tools

import (
	_ "go.etcd.io/etcd/server/v3"
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-scheduler"
)
GO

version=k8s.io/component-base/version
flags="-s -w -X $version.gitVersion=v$KUBERNETES -X $version.gitMajor=1 -X $version.gitMinor=36"
for name in $missing; do
    case $name in
    etcd) package=go.etcd.io/etcd/server/v3 ;;
    *) package=k8s.io/kubernetes/cmd/$name ;;
    esac
    echo "building $name ..." >&2
    CGO_ENABLED=0 go build -mod=mod -trimpath -ldflags "$flags" -o "$bin/$name.new" "$package"
    mv "$bin/$name.new" "$bin/$name"
done
echo "$bin"
