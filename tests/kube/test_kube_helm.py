"""The Helm chart, rendered by helm itself and given to a real API server."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kube_bed import ROOT, Bed, Refusal, plural_of

sys.path.insert(0, str(ROOT / "tools"))
from manifests import manifests

CHART = ROOT / "deploy" / "helm" / "pumice"

VOLCANO = """
basic:
  scheduler_image_name: volcanosh/vc-scheduler
  scheduler_config_file: config/volcano-scheduler.conf
  image_pull_secret: pull
  image_pull_policy: Always
  image_tag_version: latest
custom:
  admission_enable: true
  controller_replicas: 1
  scheduler_enable: true
  scheduler_replicas: 3
  scheduler_metrics_enable: true
  scheduler_pprof_enable: false
  scheduler_plugins_dir: /plugins
  scheduler_name: ~
  leader_elect_enable: true
  scheduler_kube_api_qps: 2000
  scheduler_schedule_period: 500ms
  scheduler_node_worker_threads: 20
  scheduler_log_level: 3
  scheduler_resources: {limits: {cpu: "2", memory: 4Gi}}
  scheduler_config_override: |
    actions: "enqueue, allocate"
    tiers:
    - plugins:
      - name: gang
  default_tolerations: [{key: all, operator: Exists}]
  scheduler_tolerations: [{key: ours, operator: Exists}]
  default_ns: {kind: system}
  scheduler_ns: ~
  default_sc: {seLinuxOptions: {level: "s0:c123,c456"}}
  default_csc: {capabilities: {add: [DAC_OVERRIDE]}}
  common_labels: {team: platform}
  scheduler_podLabels: {tier: batch}
"""
"""A values file as users of Volcano's chart have one."""


@pytest.fixture(scope="module")
def helm() -> str:
    """The helm that `make kube` built, or HELM; fails if there is none."""
    done = subprocess.run([ROOT / "tools" / "kube" / "helm.sh"], capture_output=True, text=True, timeout=100)
    if done.returncode:
        pytest.fail(f"helm is missing; `make kube` builds it: {done.stderr}", pytrace=False)
    return done.stdout.strip()


def rendered(helm: str, *settings: str) -> dict[tuple[str, str], dict[str, Any]]:
    """(kind, name) -> object."""
    command = [helm, "template", "pumice", str(CHART), "--namespace=pumice-system", *settings]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return {(d["kind"], d["metadata"]["name"]): d for d in yaml.safe_load_all(done.stdout) if d}


def refused(helm: str, *settings: str) -> str:
    """Why helm does not render."""
    command = [helm, "template", "pumice", str(CHART), *settings]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    return done.stderr


def settings_in(objects: dict[tuple[str, str], dict[str, Any]], component: str = "scheduler") -> dict[str, Any]:
    """Return what the settings file of a component says."""
    found: dict[str, Any] = yaml.safe_load(
        objects["ConfigMap", f"pumice-{component}-settings"]["data"]["settings.yaml"]
    )
    return found


def deployment(objects: dict[tuple[str, str], dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = objects["Deployment", "pumice-scheduler"]
    return found


def test_the_plain_manifests_are_what_the_chart_gives(helm: str) -> None:
    for name, text in manifests(helm).items():
        plain = (ROOT / "deploy" / "manifests" / name).read_text(encoding="utf-8")
        assert list(yaml.safe_load_all(plain)) == list(yaml.safe_load_all(text)), f"{name}: run `make manifests`"


@pytest.mark.parametrize("values", ["values.yaml", "values-instead-of-volcano.yaml"])
def test_the_chart_has_nothing_to_lint(helm: str, values: str) -> None:
    command = [helm, "lint", "--strict", str(CHART), f"--values={CHART / values}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout


def test_a_values_file_of_volcano_is_taken(helm: str, tmp_path: Path) -> None:
    values = tmp_path / "volcano.yaml"
    values.write_text(VOLCANO)
    objects = rendered(helm, f"--values={values}")
    made = deployment(objects)
    pod = made["spec"]["template"]
    container = pod["spec"]["containers"][0]
    assert made["spec"]["replicas"] == 3
    wanted = {"schedulerNames": ["pumice"], "schedulePeriod": "500ms", "pluginsDir": "/plugins", "verbosity": 3}
    assert wanted.items() <= settings_in(objects).items()
    assert container["resources"] == {"limits": {"cpu": "2", "memory": "4Gi"}}
    assert (container["image"], container["imagePullPolicy"]) == ("pumice:0.1.0", "Always")
    assert pod["spec"]["imagePullSecrets"] == [{"name": "pull"}]
    assert pod["spec"]["tolerations"] == [{"key": "ours", "operator": "Exists"}]
    assert pod["spec"]["nodeSelector"] == {"kind": "system"}
    assert pod["metadata"]["labels"]["tier"] == "batch"
    assert {o["metadata"]["labels"]["team"] for o in objects.values()} == {"platform"}
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    conf = yaml.safe_load(objects["ConfigMap", "pumice-scheduler-conf"]["data"]["scheduler.conf"])
    assert conf["actions"] == "enqueue, allocate"


def test_instead_of_volcano_it_has_volcanos_name_and_follows_volcanos_conf(helm: str) -> None:
    objects = rendered(helm, f"--values={CHART / 'values-instead-of-volcano.yaml'}")
    found = settings_in(objects)
    assert (found["schedulerNames"], found["confMap"]) == (
        ["volcano"],
        "volcano-system/volcano-scheduler-configmap",
    )
    assert ("ConfigMap", "pumice-scheduler-conf") not in objects
    role = objects["Role", "pumice-scheduler-conf"]
    assert role["metadata"]["namespace"] == "volcano-system"
    assert role["rules"][0]["resourceNames"] == ["volcano-scheduler-configmap"]
    assert objects["Role", "pumice-scheduler-lease"]["rules"][1]["resourceNames"] == ["volcano"]


def test_values_that_cannot_work_are_refused_with_their_name(helm: str) -> None:
    assert "leader_elect_enable" in refused(helm, "--set=custom.leader_elect_enable=false")
    assert "pluginsDir" in refused(helm, "--set=scheduler.pluginsConfigMap=mine")
    assert "existingConfMap" in refused(helm, "--set=scheduler.existingConfMap=mine")
    assert "replica" in refused(helm, "--set=scheduler.replica=3")
    assert "compat" in refused(helm, "--set=scheduler.compat=kube")


def test_a_typo_at_the_top_is_refused_and_what_volcano_and_helm_have_there_is_not(helm: str) -> None:
    assert "controller" in refused(helm, "--set=controller.enabled=true")
    rendered(helm, "--set=global.x=y,service.ipFamilyPolicy=SingleStack")


def test_values_that_would_fail_only_later_are_refused_with_their_name(helm: str) -> None:
    assert "schedulePeriod" in refused(helm, "--set=scheduler.schedulePeriod=banana")
    assert "schedulePeriod" in refused(helm, "--set=custom.scheduler_schedule_period=banana")
    assert "defaultQueue" in refused(helm, "--set=scheduler.defaultQueue=odd #q")
    assert "/scheduler/name" in refused(helm, "--set=scheduler.name=Not A Name")
    monitored = "--set=metrics.enabled=false,metrics.serviceMonitor.enabled=true"
    assert "serviceMonitor" in refused(helm, monitored)


def test_odd_texts_arrive_as_they_were_given(helm: str) -> None:
    objects = rendered(
        helm,
        "--set-string=scheduler.name=123",
        "--set=controllers.enabled=true",
        '--set-json=scheduler.nodeSelectors=["odd: x","kind:x # y","a:\\"b\\""]',
        '--set-json=scheduler.extraArgs=["--plugins-dir=/a b","{x: y}"]',
    )
    for name in ("scheduler", "controllers"):
        args = objects["Deployment", f"pumice-{name}"]["spec"]["template"]["spec"]["containers"][0]["args"]
        assert all(isinstance(arg, str) for arg in args), args
        assert settings_in(objects, name)["schedulerNames"] == ["123"]
        if name == "scheduler":
            assert settings_in(objects)["nodeSelector"] == ["odd: x", "kind:x # y", 'a:"b"']
            assert args[-2:] == ["--plugins-dir=/a b", "{x: y}"]
    assert objects["Role", "pumice-scheduler-lease"]["rules"][1]["resourceNames"] == ["123"]


def leaves(values: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every value of the chart, with its path; an empty mapping or list is one."""
    if isinstance(values, dict) and values:
        for name, below in values.items():
            yield from leaves(below, (*path, name))
    else:
        yield path, values


def texts(found: Any) -> Iterator[str]:
    if isinstance(found, dict):
        for name, below in found.items():
            yield from (name, *texts(below))
    elif isinstance(found, list):
        for below in found:
            yield from texts(below)
    elif isinstance(found, str):
        yield found


VALUES = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
ODD = 'odd: "x" # y'


@pytest.mark.parametrize(
    "path", [path for path, _ in leaves(VALUES) if path[0] not in ("custom", "basic")], ids=".".join
)
def test_an_odd_text_at_any_value_arrives_whole_or_is_refused_by_name(helm: str, path: tuple[str, ...]) -> None:
    found: Any = dict(leaves(VALUES))[path]
    odd: Any = [ODD] if isinstance(found, list) else {"k": ODD} if isinstance(found, dict) else ODD
    everything = (
        '--set-json=answers={"enabled":true,"tlsSecret":"s"}',
        '--set-json=metrics.tlsSecret="s",networkPolicy.enabled=true',
        "--set-json=controllers.enabled=true,metrics.serviceMonitor.enabled=true",
        "--set-json=metrics.prometheusRule.enabled=true,metrics.dashboard.enabled=true",
    )
    own = f"--set-json={'.'.join(path)}={json.dumps(odd)}"
    command = [helm, "template", "pumice", str(CHART), *everything, own]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if done.returncode:
        assert path[-1] in done.stderr
    else:
        made = [text for document in yaml.safe_load_all(done.stdout) for text in texts(document)]
        assert any(ODD in text for text in made)


def test_labels_of_users_take_nothing_from_the_selectors(helm: str) -> None:
    objects = rendered(
        helm,
        "--set=scheduler.podLabels.app=foo,scheduler.podLabels.mine=x,scheduler.labels.app=bar",
        "--set=custom.common_labels.app=baz,custom.common_labels.team=t",
        "--set-string=scheduler.podAnnotations.prometheus\\.io/port=9",
    )
    made = deployment(objects)
    pod = made["spec"]["template"]["metadata"]
    assert made["spec"]["selector"]["matchLabels"].items() <= pod["labels"].items()
    assert (pod["labels"]["mine"], pod["labels"]["team"]) == ("x", "t")
    scheme = {"prometheus.io/scheme": "http", "pumice.dev/settings": pod["annotations"]["pumice.dev/settings"]}
    assert pod["annotations"] == {"prometheus.io/scrape": "true", "prometheus.io/port": "9", **scheme}


def spec_of(objects: dict[tuple[str, str], dict[str, Any]], component: str) -> dict[str, Any]:
    """The spec of a component's pods."""
    found: dict[str, Any] = objects["Deployment", f"pumice-{component}"]["spec"]["template"]["spec"]
    return found


@pytest.mark.parametrize("component", ["scheduler", "controllers"])
def test_replicas_are_spread_and_a_drain_takes_one_at_a_time(helm: str, component: str) -> None:
    objects = rendered(helm, "--set=controllers.enabled=true")
    [spread] = spec_of(objects, component)["topologySpreadConstraints"]
    template = objects["Deployment", f"pumice-{component}"]["spec"]["template"]
    assert spread["labelSelector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    assert (spread["topologyKey"], spread["whenUnsatisfiable"]) == ("kubernetes.io/hostname", "ScheduleAnyway")
    budget = objects["PodDisruptionBudget", f"pumice-{component}"]["spec"]
    assert budget == {"maxUnavailable": 1, "selector": {"matchLabels": {"app": f"pumice-{component}"}}}
    one = rendered(
        helm, "--set=controllers.enabled=true", f"--set={component}.replicas=1,{component}.spread.topologyKey="
    )
    assert ("PodDisruptionBudget", f"pumice-{component}") not in one
    assert "topologySpreadConstraints" not in spec_of(one, component)


def test_each_component_has_its_own_placement_probes_strategy_and_account(helm: str) -> None:
    objects = rendered(
        helm,
        "--set=controllers.enabled=true,controllers.nodeSelector.kind=b,scheduler.nodeSelector.kind=a",
        "--set=controllers.livenessProbe.periodSeconds=77,controllers.updateStrategy.type=Recreate",
        "--set=controllers.updateStrategy.rollingUpdate=null,controllers.revisionHistoryLimit=3",
        "--set=controllers.serviceAccount.create=false,controllers.serviceAccount.name=mine",
        "--set=scheduler.serviceAccount.annotations.role=x,controllers.priorityClassName=,scheduler.dnsPolicy=Default",
    )
    theirs, ours = spec_of(objects, "controllers"), spec_of(objects, "scheduler")
    assert (theirs["nodeSelector"], ours["nodeSelector"]) == ({"kind": "b"}, {"kind": "a"})
    assert [s["containers"][0]["livenessProbe"]["periodSeconds"] for s in (theirs, ours)] == [77, 10]
    assert objects["Deployment", "pumice-controllers"]["spec"]["strategy"] == {"type": "Recreate"}
    assert objects["Deployment", "pumice-controllers"]["spec"]["revisionHistoryLimit"] == 3
    assert (theirs["serviceAccountName"], ours["serviceAccountName"]) == ("mine", "pumice-scheduler")
    assert ("ServiceAccount", "pumice-controllers") not in objects
    assert objects["ClusterRoleBinding", "pumice-controllers"]["subjects"][0]["name"] == "mine"
    assert objects["ServiceAccount", "pumice-scheduler"]["metadata"]["annotations"] == {"role": "x"}
    assert ("priorityClassName" in theirs, ours["dnsPolicy"]) == (False, "Default")


def test_volcanos_values_of_controllers_are_taken_and_defaults_are_for_both(helm: str) -> None:
    values = "--set=custom.controller_replicas=5,custom.controller_ns.kind=c,custom.default_ns.kind=d"
    objects = rendered(helm, "--set=controllers.enabled=true", values)
    assert objects["Deployment", "pumice-controllers"]["spec"]["replicas"] == 5
    assert spec_of(objects, "controllers")["nodeSelector"] == {"kind": "c"}
    assert spec_of(objects, "scheduler")["nodeSelector"] == {"kind": "d"}


def rules_of(*features: str) -> list[dict[str, Any]]:
    """The rules of files of rights."""
    folder = CHART / "files" / "rights"
    return [rule for name in features for rule in yaml.safe_load((folder / f"{name}.yaml").read_text(encoding="utf-8"))]


@pytest.mark.parametrize(
    ("settings", "features"),
    [
        ("", ["scheduler", "scheduler-volcano"]),
        ("scheduler.dialect=kai", ["scheduler", "scheduler-kai"]),
        ("scheduler.readUsage=true", ["scheduler", "scheduler-volcano", "scheduler-usage"]),
        ("answers.enabled=true,answers.tlsSecret=s", ["scheduler", "scheduler-volcano", "reviews"]),
        ("metrics.tlsSecret=s", ["scheduler", "scheduler-volcano", "reviews"]),
    ],
)
def test_rights_are_those_of_the_features_that_are_on(helm: str, settings: str, features: list[str]) -> None:
    objects = rendered(helm, f"--set={settings}" if settings else "--set=scheduler.replicas=2")
    assert objects["ClusterRole", "pumice-scheduler"]["rules"] == rules_of(*features)


@pytest.mark.parametrize("run", [["job"], ["queue"], ["podgroup", "queue"], ["job", "podgroup", "queue"]])
def test_each_controller_brings_its_own_rights(helm: str, run: list[str]) -> None:
    objects = rendered(helm, f"--set=controllers.enabled=true,controllers.run={{{','.join(run)}}}")
    wanted = rules_of("controllers", *(f"controllers-{name}" for name in run))
    assert objects["ClusterRole", "pumice-controllers"]["rules"] == wanted
    assert settings_in(objects, "controllers")["controllers"] == run


def test_the_dialect_of_kai_mounts_the_conf_and_reads_kais_objects(helm: str) -> None:
    objects = rendered(helm, "--set=scheduler.dialect=kai,scheduler.name=kai-scheduler")
    spec = spec_of(objects, "scheduler")
    assert settings_in(objects)["conf"] == "/etc/pumice/conf/scheduler.conf"
    assert {"name": "conf", "configMap": {"name": "pumice-scheduler-conf"}} in spec["volumes"]
    conf = yaml.safe_load(objects["ConfigMap", "pumice-scheduler-conf"]["data"]["scheduler.conf"])
    assert conf["dialect"] == "kai"
    assert ("Role", "pumice-scheduler-conf") not in objects
    assert [key for key in objects if key[0].startswith("ValidatingAdmission")] == []
    assert "namespace of the release" in refused(
        helm, "--set=scheduler.dialect=kai,scheduler.existingConfMap=elsewhere/conf", "--namespace=here"
    )


def test_metrics_over_tls_ask_for_a_right_that_a_role_gives(helm: str) -> None:
    settings = "controllers.enabled=true,metrics.tlsSecret=m,metrics.serviceMonitor.enabled=true"
    objects = rendered(helm, f"--set={settings},metrics.serviceMonitor.tlsConfig.insecureSkipVerify=true")
    for component in ("scheduler", "controllers"):
        spec = spec_of(objects, component)
        assert settings_in(objects, component)["metrics"]["tlsCertFile"] == "/etc/pumice/metrics/tls.crt"
        assert {"name": "metrics", "secret": {"secretName": "m"}} in spec["volumes"]
        [endpoint] = objects["ServiceMonitor", f"pumice-{component}"]["spec"]["endpoints"]
        assert (endpoint["scheme"], endpoint["tlsConfig"]) == ("https", {"insecureSkipVerify": True})
        rules = objects["ClusterRole", f"pumice-{component}"]["rules"]
        assert rules_of("reviews")[0] in rules
    assert objects["ClusterRole", "pumice-metrics-reader"]["rules"] == [
        {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}
    ]


def test_a_network_policy_opens_the_ports_that_are_served_and_no_other(helm: str) -> None:
    peers = '--set-json=networkPolicy={"enabled":true,"metricsFrom":[{"namespaceSelector":{}}],"answersFrom":[]}'
    objects = rendered(helm, peers, "--set=controllers.enabled=true,answers.enabled=true,answers.tlsSecret=s")
    ports = {
        name: {rule["ports"][0]["port"]: rule.get("from") for rule in objects["NetworkPolicy", name]["spec"]["ingress"]}
        for name in ("pumice-scheduler", "pumice-controllers")
    }
    anyone: tuple[object, ...] = ([], None)
    assert set(ports["pumice-scheduler"]) == {"health", "metrics", "answers"}
    assert set(ports["pumice-controllers"]) == {"health", "metrics"}
    assert ports["pumice-scheduler"]["metrics"] == [{"namespaceSelector": {}}]
    assert ports["pumice-scheduler"]["health"] in anyone
    assert ports["pumice-scheduler"]["answers"] in anyone


def test_people_have_roles_that_become_part_of_the_clusters_own_when_asked_for(helm: str) -> None:
    objects = rendered(helm)
    viewer, editor, queues = (objects["ClusterRole", f"pumice-{n}"] for n in ("viewer", "editor", "queue-editor"))
    assert {verb for rule in viewer["rules"] for verb in rule["verbs"]} == {"get", "list", "watch"}
    assert {r for rule in editor["rules"] for r in rule["resources"]} == {"podgroups", "jobs", "commands"}
    assert {r for rule in queues["rules"] for r in rule["resources"]} == {"queues", "hypernodes", "numatopologies"}
    assert not any(
        label.startswith("rbac.") for role in (viewer, editor, queues) for label in role["metadata"]["labels"]
    )
    into = "rbac.authorization.k8s.io/aggregate-to-"
    asked = rendered(helm, "--set=roles.aggregate=true")
    found = {
        name: {label.removeprefix(into) for label in asked["ClusterRole", name]["metadata"]["labels"] if into in label}
        for name in ("pumice-viewer", "pumice-editor", "pumice-queue-editor")
    }
    assert found == {
        "pumice-viewer": {"view", "edit", "admin"},
        "pumice-editor": {"edit", "admin"},
        "pumice-queue-editor": set(),
    }
    assert ("ClusterRole", "pumice-viewer") not in rendered(helm, "--set=roles.enabled=false")


def test_names_and_images_are_as_they_were_asked_for(helm: str) -> None:
    objects = rendered(helm, "--set=nameOverride=other,controllers.enabled=true")
    named = {name for kind, name in objects if kind != "Namespace"}
    assert {name.startswith("other-") for name in named} == {True}
    assert spec_of(rendered(helm), "scheduler")["containers"][0]["image"] == "pumice:0.1.0"
    digest = "sha256:" + "0" * 64
    named = spec_of(rendered(helm, f"--set=image.digest={digest},image.tag=x"), "scheduler")["containers"][0]["image"]
    assert named == f"pumice@{digest}"


def test_answers_need_a_certificate(helm: str) -> None:
    assert "answers.tlsSecret" in refused(helm, "--set=answers.enabled=true")


def test_debug_endpoints_are_served_when_asked_for(helm: str) -> None:
    assert settings_in(rendered(helm))["metrics"]["debug"] is False
    asked = rendered(helm, "--set=scheduler.debugEndpoints=true,metrics.enabled=false")
    container = deployment(asked)["spec"]["template"]["spec"]["containers"][0]
    assert settings_in(asked)["metrics"] == {"debug": True, "enabled": False}
    assert {"name": "metrics", "containerPort": 8080} in container["ports"]


def test_the_controllers_are_measured_as_the_scheduler_is(helm: str) -> None:
    settings = ("--set=controllers.enabled=true,metrics.serviceMonitor.enabled=true",)
    objects = rendered(helm, *settings)
    for name, port in (("scheduler", 8080), ("controllers", 8081)):
        template = objects["Deployment", f"pumice-{name}"]["spec"]["template"]
        container, service = template["spec"]["containers"][0], objects["Service", f"pumice-{name}"]["spec"]
        assert settings_in(objects, name)["metrics"]["enabled"] is True
        assert {"name": "metrics", "containerPort": port} in container["ports"]
        assert template["metadata"]["annotations"]["prometheus.io/port"] == str(port)
        assert service["selector"].items() <= template["metadata"]["labels"].items()
        assert service["ports"] == [{"name": "metrics", "port": port, "targetPort": "metrics"}]
        chosen = objects["ServiceMonitor", f"pumice-{name}"]["spec"]["selector"]["matchLabels"]
        assert chosen.items() <= objects["Service", f"pumice-{name}"]["metadata"]["labels"].items()
    assert ("ServiceMonitor", "pumice-controllers") not in rendered(helm, "--set=metrics.serviceMonitor.enabled=true")
    without = rendered(helm, "--set=controllers.enabled=true,metrics.enabled=false")
    assert settings_in(without, "controllers")["metrics"]["enabled"] is False
    assert ("Service", "pumice-controllers") not in without


ALL = (
    "--set=controllers.enabled=true,controllers.extraArgs={--controllers=queue},scheduler.debugEndpoints=true",
    '--set-json=controllers.affinity={"podAntiAffinity":{}}',
    "--set=metrics.dashboard.enabled=true,scheduler.pluginsDir=/plugins,scheduler.pluginsConfigMap=mine",
    "--set=scheduler.compat=volcano,scheduler.nodeSelectors={a:b},scheduler.extraArgs={--priority-class=false}",
    "--set=scheduler.podLabels.a=b,scheduler.podAnnotations.a=b,scheduler.labels.a=b,scheduler.nodeSelector.a=b",
    "--set=image.pullSecrets={one},scheduler.extraEnv[0].name=A,scheduler.extraEnv[0].value=b",
    "--set=scheduler.extraVolumes[0].name=v,scheduler.extraVolumeMounts[0].name=v,"
    "scheduler.extraVolumeMounts[0].mountPath=/v",
    '--set-json=scheduler.affinity={"podAntiAffinity":{}}',
    "--set=networkPolicy.enabled=true,metrics.tlsSecret=m,answers.enabled=true,answers.tlsSecret=a,roles.aggregate=true",
    '--set-json=networkPolicy.metricsFrom=[{"namespaceSelector":{}}]',
    "--set=controllers.hostNetwork=true,controllers.dnsPolicy=ClusterFirstWithHostNet,scheduler.dialect=kai",
    "--set=scheduler.serviceAccount.annotations.a=b,scheduler.annotations.a=b,image.tag=x",
)


@pytest.mark.parametrize("settings", [(), ALL], ids=["default", "everything"])
def test_the_server_takes_every_field_that_the_chart_gives(helm: str, bed: Bed, settings: tuple[str, ...]) -> None:
    for document in rendered(helm, *settings).values():
        version, meta = document["apiVersion"], document["metadata"]
        meta["name"] += "-dry"
        prefix = f"/api/{version}" if "/" not in version else f"/apis/{version}"
        where = f"/namespaces/{meta['namespace']}" if "namespace" in meta else ""
        query = "dryRun=All&fieldValidation=Strict"
        made = bed.call("POST", f"{prefix}{where}/{plural_of(document['kind'])}?{query}", document)
        assert made["kind"] == document["kind"]


def test_alert_rules_and_service_monitor_are_given_when_asked_for(helm: str) -> None:
    asked = "--set=metrics.serviceMonitor.enabled=true,metrics.prometheusRule.enabled=true"
    objects = rendered(helm, asked)
    assert objects["PrometheusRule", "pumice-scheduler"]["spec"]["groups"]
    assert objects["ServiceMonitor", "pumice-scheduler"]["spec"]["endpoints"] == [{"port": "metrics"}]


def test_helm_installs_upgrades_and_removes_the_release(helm: str, bed: Bed, tmp_path: Path) -> None:
    homes = {f"HELM_{what}_HOME": str(tmp_path / what) for what in ("CACHE", "CONFIG", "DATA")}

    def run(*words: str) -> str:
        command = [helm, *words, "--namespace=trial", f"--kubeconfig={bed.admin}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=90, env={**os.environ, **homes})
        assert done.returncode == 0, done.stderr
        return done.stdout

    def replicas() -> int:
        made = bed.call("GET", "/apis/apps/v1/namespaces/trial/deployments/trial-scheduler")
        return int(made["spec"]["replicas"])

    notes = run("install", "trial", str(CHART), "--create-namespace")
    assert re.search("schedulerName pumice", notes)
    assert replicas() == 2
    run("upgrade", "trial", str(CHART), "--set=scheduler.replicas=3")
    assert replicas() == 3
    run("uninstall", "trial")
    with pytest.raises(Refusal, match="not found"):
        replicas()
    assert bed.call("GET", "/apis/scheduling.volcano.sh/v1beta1/queues")["kind"] == "QueueList"
