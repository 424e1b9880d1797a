"""The Helm chart and the plain manifests, as far as they can be judged without helm: text against text.

What helm makes of the chart is looked at in tests/kube/test_kube_helm.py.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.version import Version

from pumice.config import load
from pumice.framework.registry import default_registry
from pumice.kube.kinds import resources_of
from pumice.scheduler.assembly import catalogue_of

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "pumice"
TEMPLATES = {path.name: path.read_text(encoding="utf-8") for path in sorted((CHART / "templates").iterdir())}
VALUES_TEXT = (CHART / "values.yaml").read_text(encoding="utf-8")
VALUES: dict[str, Any] = yaml.safe_load(VALUES_TEXT)


def manifest(name: str) -> list[dict[str, Any]]:
    return [d for d in yaml.safe_load_all((DEPLOY / "manifests" / name).read_text(encoding="utf-8")) if d]


def rules(name: str) -> list[dict[str, Any]]:
    text = (CHART / "files" / "rights" / f"{name}.yaml").read_text(encoding="utf-8")
    found: list[dict[str, Any]] = yaml.safe_load(text)
    return found


def test_the_chart_has_the_next_version_of_the_package() -> None:
    hatch = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]
    coming = Version(hatch["version"]["fallback-version"]).base_version
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert (chart["version"], chart["appVersion"]) == (coming, coming)


def test_the_chart_carries_the_crds() -> None:
    ours = {path.name: path.read_bytes() for path in (DEPLOY / "crds").glob("*.yaml")}
    carried = {path.name: path.read_bytes() for path in (CHART / "crds").glob("*.yaml")}
    assert carried == ours, "run `make manifests`"


FEATURES = sorted(path.stem for path in CHART.glob("files/rights/*.yaml"))
PLAIN = {
    "rbac.yaml": ("scheduler", "scheduler-volcano"),
    "controllers.yaml": ("controllers", "controllers-job", "controllers-podgroup", "controllers-queue"),
}
"""Plain manifest -> the files of rights that the default values give."""


@pytest.mark.parametrize("name", PLAIN)
def test_the_plain_manifests_give_the_rights_of_the_chart(name: str) -> None:
    role = next(d for d in manifest(name) if d["kind"] == "ClusterRole")
    assert role["rules"] == [rule for part in PLAIN[name] for rule in rules(part)], "run `make manifests`"


def test_the_plain_manifests_hold_the_conf_of_the_chart() -> None:
    maps = [d["data"] for d in manifest("scheduler.yaml") if d["kind"] == "ConfigMap"]
    conf = next(data["scheduler.conf"] for data in maps if "scheduler.conf" in data)
    assert conf == (CHART / "files" / "scheduler.conf").read_text(encoding="utf-8"), "run `make manifests`"


def test_the_conf_of_the_chart_has_nothing_to_warn_of() -> None:
    text = (CHART / "files" / "scheduler.conf").read_text(encoding="utf-8")
    assert load(text, catalogue_of(default_registry()), "scheduler.conf").warnings == ()


def all_rules() -> list[dict[str, Any]]:
    """Every rule of every role that we ship, with those that values add."""
    roles = [d for path in (DEPLOY / "manifests").glob("*.yaml") for d in manifest(path.name) if "Role" in d["kind"]]
    return [rule for role in roles for rule in role.get("rules", ())] + [r for name in FEATURES for r in rules(name)]


def test_no_role_may_read_secrets_or_do_anything_to_everything() -> None:
    assert all_rules()
    for rule in all_rules():
        assert "*" not in rule["verbs"] + rule["resources"] + rule["apiGroups"], rule
        assert "secrets" not in rule["resources"], rule
        if "configmaps" in rule["resources"] and rule["verbs"] != ["create"]:  # a name cannot limit that
            assert rule.get("resourceNames") or rule["apiGroups"] != [""], f"{rule}: must name the map"


@pytest.mark.parametrize("dialect", ["volcano", "kai"])
def test_the_scheduler_may_list_and_watch_every_kind_that_it_follows_and_no_kind_of_the_other_dialect(
    dialect: str,
) -> None:
    held = {
        (group, plural): set(rule["verbs"])
        for rule in (*rules("scheduler"), *rules(f"scheduler-{dialect}"))
        for group in rule["apiGroups"]
        for plural in rule["resources"]
        if {"list", "watch"} <= set(rule["verbs"])
    }
    followed = {
        (r.prefix.removeprefix("/apis/").partition("/")[0] if r.prefix != "/api/v1" else "", r.plural)
        for r in resources_of(dialect).values()
    }
    assert set(held) == followed


@pytest.mark.parametrize("feature", [name for name in FEATURES if name.startswith("scheduler")])
def test_the_scheduler_may_neither_make_nor_change_nor_delete_pods(feature: str) -> None:
    for rule in rules(feature):
        if "pods" in rule["resources"]:
            assert set(rule["verbs"]) <= {"get", "list", "watch"}, rule
        assert not {"delete", "deletecollection"} & set(rule["verbs"]), rule


def test_only_what_serves_callers_may_ask_about_tokens_and_rights() -> None:
    groups = {"authentication.k8s.io", "authorization.k8s.io"}
    found = {name for name in FEATURES for rule in rules(name) if groups & set(rule["apiGroups"])}
    assert found == {"reviews"}
    assert [(rule["resources"], rule["verbs"]) for rule in rules("reviews")] == [
        (["tokenreviews"], ["create"]),
        (["subjectaccessreviews"], ["create"]),
    ]


# -- values ------------------------------------------------------------------------------------------------------------
def paths(values: dict[str, Any], above: str = "") -> list[str]:
    """The dotted names of all values, maps that users fill left whole."""
    free = (
        *("resources", "podSecurityContext", "securityContext", "labels", "custom", "basic", "livenessProbe"),
        *("readinessProbe", "updateStrategy"),
    )
    found: list[str] = []
    for key, value in values.items():
        deep = isinstance(value, dict) and value and key not in free
        found += paths(value, f"{above}{key}.") if deep else [f"{above}{key}"]
    return found


@pytest.mark.parametrize("path", paths(VALUES))
def test_every_value_is_used_by_a_template(path: str) -> None:
    whole = "\n".join(TEMPLATES.values())
    names = [f".Values.{path}"]
    for part, short in (("scheduler.", "$s."), ("scheduler.", "$own."), ("controllers.", "$c.")):
        if path.startswith(part):
            names += [short + path.removeprefix(part), f".w.{path.removeprefix(part)}"]
    by_name = path.partition(".")[0] in ("scheduler", "controllers") and f'"{path.partition(".")[2]}"' in whole
    assert by_name or any(re.search(rf"{re.escape(name)}\b", whole) for name in names)


def test_templates_use_only_values_that_exist() -> None:
    known = set(paths(VALUES))
    for name, text in TEMPLATES.items():
        for used in re.findall(r"\.Values\.([\w.]+)", text):
            assert used in known or any(k.startswith(f"{used}.") for k in known), f"{name}: {used}"
        for part, sign in (("scheduler", r"\$s"), ("controllers", r"\$c"), ("scheduler", r"\.w")):
            for used in re.findall(rf"{sign}\.(\w+)", text):
                assert used in VALUES[part], f"{name}: {part}.{used}"


def test_the_schema_knows_every_value_and_no_other() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))

    def keys(part: dict[str, Any]) -> dict[str, Any]:
        found = part.get("properties", {})
        return {key: keys(value) if value.get("additionalProperties") is False else {} for key, value in found.items()}

    def like(known: dict[str, Any], values: dict[str, Any]) -> None:
        assert set(known) == set(values)
        for key, inside in known.items():
            if inside:
                like(inside, values[key])

    known = keys(schema)
    assert [known.pop(name) for name in ("global", "service")] == [{}, {}], "Helm's, and Volcano's: taken and not used"
    like(known, VALUES)
    assert schema["additionalProperties"] is False, "a typo would be taken in silence"
    for part in ("image", "scheduler", "controllers", "metrics"):
        assert schema["properties"][part]["additionalProperties"] is False


def test_the_other_values_files_set_only_values_that_exist() -> None:
    for path in CHART.glob("values-*.yaml"):
        found = paths(yaml.safe_load(path.read_text(encoding="utf-8")))
        assert set(found) <= set(paths(VALUES)), path.name


def test_every_value_of_volcano_that_is_taken_is_named_in_the_values_file() -> None:
    helpers = TEMPLATES["_helpers.tpl"]
    taken = set(re.findall(r'"(default_\w+|leader_elect_enable)"', helpers)) | {"scheduler_metrics_enable"}
    shared, own = (
        re.findall(r'"(\w+)" "\w+"', part) for part in re.findall(r"names (?::= |\(?)dict\s([^)}]*)", helpers)
    )
    taken |= {f"{part}_{name}" for part in ("scheduler", "controller") for name in shared}
    taken |= {f"scheduler_{name}" for name in own}
    assert {"controller_replicas", "scheduler_main_csc", "scheduler_name"} <= taken
    taken |= set(re.findall(r'get \([^)]*\) "(\w+)"', "\n".join(TEMPLATES.values())))
    said = VALUES_TEXT.split("# Volcano's values")[1]
    assert [name for name in sorted(taken) if not re.search(rf"\b{name}\b", said)] == []


@pytest.mark.parametrize(
    "template", ["scheduler.yaml", "controllers.yaml", "rbac.yaml", "monitoring.yaml", "answers.yaml", "roles.yaml"]
)
def test_every_text_that_a_user_gives_is_quoted(template: str) -> None:
    """A name of digits would else be a number, and a colon or a hash in an argument the end of it."""
    blocks = r"(if|else|end|with|range|\$\w+ :?=|define|fail|toYaml|include \"pumice.(labels|around|beside|settings))"
    for line in TEMPLATES[template].splitlines():
        for before, inside in re.findall(r"([\w\]-]*:? ?\[?)\{\{-? ([^{}]*?) -?\}\}", line):
            whole = re.match(blocks, inside)
            block = any(word in inside for word in ("nindent", "replicas")) or (whole and "toYaml" in inside)
            if not whole and not block:
                assert inside.endswith("| quote"), f"{template}: {before}{{{{ {inside} }}}}"


def test_the_containers_run_without_rights_of_their_own() -> None:
    for path in sorted((DEPLOY / "manifests").glob("*.yaml")):
        for document in manifest(path.name):
            if document["kind"] != "Deployment":
                continue
            spec = document["spec"]["template"]["spec"]
            assert spec["securityContext"]["runAsNonRoot"] is True
            for container in spec["containers"]:
                held = container["securityContext"]
                assert (held["allowPrivilegeEscalation"], held["readOnlyRootFilesystem"]) == (False, True)
                assert held["capabilities"] == {"drop": ["ALL"]}
