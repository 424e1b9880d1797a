#!/bin/sh
# Build what the tests against a real API server need from the Go module proxy into a cache folder, once.
#
#   tools/kube/build.sh [NAME...]  builds what is missing of etcd, kube-apiserver, kube-scheduler, kubectl and kwok (plays
#                                  the kubelets), or of those that are named; prints the folder
#
# PUMICE_KUBE_CACHE  where the binaries go (default ~/.cache/pumice-kube)
# KUBEBUILDER_ASSETS a folder that has some of them already: these are not built
# GOFLAGS            for instance -p=1, to leave cores to others
set -eu

KUBERNETES=1.36.4
STAGING=0.36.4 # the modules that Kubernetes keeps in its own tree are published under this version
ETCD=3.6.8
KWOK=0.8.0

[ $# -gt 0 ] || set -- etcd kube-apiserver kube-scheduler kubectl kwok
cache=${PUMICE_KUBE_CACHE:-$HOME/.cache/pumice-kube}
bin=$cache/$KUBERNETES
missing=
for name in "$@"; do
    case $name in
    etcd | kube-apiserver | kube-scheduler | kubectl | kwok) ;;
    *)
        echo "$name: must be one of etcd, kube-apiserver, kube-scheduler, kubectl, kwok" >&2
        exit 1
        ;;
    esac
    [ -x "${KUBEBUILDER_ASSETS:-$bin}/$name" ] || [ -x "$bin/$name" ] || missing="$missing $name"
done
if [ -z "$missing" ]; then
    echo "${KUBEBUILDER_ASSETS:-$bin}"
    exit 0
fi
command -v go >/dev/null || {
    echo "Go 1.26 or newer is needed to build$missing: install it, or set KUBEBUILDER_ASSETS to a folder with the binaries" >&2
    exit 1
}
mkdir -p "$bin"

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
    echo "building $name ..." >&2
    case $name in
    kwok) # a module of its own, with its own versions of everything
        CGO_ENABLED=0 GOBIN=$work/bin go install -trimpath -ldflags "-s -w" "sigs.k8s.io/kwok/cmd/kwok@v$KWOK"
        mv "$work/bin/kwok" "$bin/kwok"
        continue
        ;;
    etcd) package=go.etcd.io/etcd/server/v3 ;;
    *) package=k8s.io/kubernetes/cmd/$name ;;
    esac
    CGO_ENABLED=0 go build -mod=mod -trimpath -ldflags "$flags" -o "$bin/$name.new" "$package"
    mv "$bin/$name.new" "$bin/$name"
done
echo "$bin"
