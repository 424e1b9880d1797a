"""Write deploy/manifests from the Helm chart, and the chart's copy of the CRDs: ``make manifests``.

The chart is the one home of what is deployed. Its default values give the plain manifests; the controllers, which are
off by default, are rendered as if they were on.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

DEPLOY = Path(__file__).resolve().parents[1] / "deploy"
CHART, CRDS, MANIFESTS = DEPLOY / "helm" / "pumice", DEPLOY / "crds", DEPLOY / "manifests"
HEAD = "# Made from deploy/helm/pumice by `make manifests`: change it there.\n"
NAMESPACE = "apiVersion: v1\nkind: Namespace\nmetadata: {name: pumice-system}\n---\n"
_SOURCE = re.compile(r"^# Source: pumice/templates/(\S+)\n", re.MULTILINE)


def rendered(helm: str, *settings: str) -> dict[str, str]:
    """Template -> the documents that it gives, as YAML."""
    command = [helm, "template", "pumice", str(CHART), "--namespace=pumice-system", *settings]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found: dict[str, list[str]] = {}
    for document in re.split(r"^---\n", text, flags=re.MULTILINE):
        source = _SOURCE.search(document)
        if source is not None:
            found.setdefault(source[1], []).append(_SOURCE.sub("", document).strip("\n") + "\n")
    return {name: "---\n".join(documents) for name, documents in found.items()}


def manifests(helm: str) -> dict[str, str]:
    """File name -> content, for everything in deploy/manifests."""
    made = rendered(helm)
    if (CHART / "templates" / "controllers.yaml").exists():
        made["controllers.yaml"] = rendered(helm, "--set=controllers.enabled=true")["controllers.yaml"]
    made["rbac.yaml"] = NAMESPACE + made["rbac.yaml"]
    return {name: HEAD + text for name, text in sorted(made.items())}


def main() -> None:
    """Write everything; the only argument is the helm to use."""
    copies = CHART / "crds"
    copies.mkdir(exist_ok=True)
    for path in copies.iterdir():
        path.unlink()
    for path in sorted(CRDS.glob("*.yaml")):
        shutil.copyfile(path, copies / path.name)
    for name, text in manifests(sys.argv[1]).items():
        (MANIFESTS / name).write_text(text, encoding="utf-8")
        print(f"deploy/manifests/{name}")


if __name__ == "__main__":
    main()
