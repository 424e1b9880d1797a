#!/bin/sh
# Build helm from the Go module proxy into a cache folder, once.
#
#   tools/kube/helm.sh             builds it if it is missing, prints its path
#
# HELM               a helm that is there already: nothing is built then
# PUMICE_KUBE_CACHE  where the binary goes (default ~/.cache/pumice-kube)
# GOFLAGS            for instance -p=1, to leave cores to others
set -eu

VERSION=3.22.0

if [ -n "${HELM:-}" ]; then
    [ -x "$HELM" ] || {
        echo "HELM=$HELM: cannot be run" >&2
        exit 1
    }
    echo "$HELM"
    exit 0
fi

cache=${PUMICE_KUBE_CACHE:-$HOME/.cache/pumice-kube}
helm=$cache/helm-$VERSION/helm
if [ -x "$helm" ]; then
    echo "$helm"
    exit 0
fi
command -v go >/dev/null || {
    echo "Go 1.26 or newer is needed to build helm: install it, or set HELM to the path of a helm 3" >&2
    exit 1
}

work=$cache/build-helm
mkdir -p "$work" "$(dirname "$helm")"
cd "$work"
printf 'module pumice.test/helm\n\ngo 1.26.0\n\nrequire helm.sh/helm/v3 v%s\n' "$VERSION" >go.mod
printf '//go:build tools\n\npackage tools\n\nimport _ "helm.sh/helm/v3/cmd/helm"\n' >tools.go
echo "building helm ..." >&2
known=helm.sh/helm/v3/pkg/chartutil.k8sVersion # what charts are checked against where there is no cluster
flags="-s -w -X helm.sh/helm/v3/internal/version.version=v$VERSION -X ${known}Major=1 -X ${known}Minor=36"
CGO_ENABLED=0 go build -mod=mod -trimpath -ldflags "$flags" -o "$helm.new" helm.sh/helm/v3/cmd/helm
mv "$helm.new" "$helm"
echo "$helm"
