"""A conf inside of a Kubernetes object, as ``kubectl get -o yaml`` gives it: a ConfigMap, or KAI's SchedulingShard."""

from __future__ import annotations

import pytest
import yaml

from pumice.config import DEFAULT_CONF, InvalidConf, LoadedConf, from_data, load
from pumice.config.objects import ACTION_PRIORITIES, PLUGIN_PRIORITIES
from pumice.framework.registry import default_registry
from pumice.scheduler.assembly import catalogue_of

CATALOGUE = catalogue_of(default_registry())
HEAD = "apiVersion: kai.scheduler/v1\nkind: SchedulingShard\nmetadata: {name: default}\n"
PRINTED = """\
apiVersion: v1
data:
  volcano-scheduler.conf: |
    actions: "enqueue, allocate, backfill"
    tiers:
    - plugins:
      - name: priority
      - name: gang
        enablePreemptable: false
kind: ConfigMap
metadata:
  name: volcano-scheduler-configmap
  namespace: volcano-system
"""


def loaded(text: str) -> LoadedConf:
    return load(text, CATALOGUE, "conf.yaml")


def plugins(text: str) -> list[str]:
    return [listed.plugin.name.removeprefix("kai/") for listed in loaded(text).conf.listed()]


def arguments(text: str, name: str) -> dict[str, object]:
    return next(dict(p.plugin.arguments) for p in loaded(text).conf.listed() if p.plugin.name == f"kai/{name}")


def problems(text: str) -> list[str]:
    with pytest.raises(InvalidConf) as caught:
        load(text, CATALOGUE, "conf.yaml", strict=True)
    return [str(problem) for problem in caught.value.problems]


def test_a_config_map_holds_the_conf_of_volcano() -> None:
    found = loaded(PRINTED).conf
    inside = yaml.safe_load(PRINTED)["data"]["volcano-scheduler.conf"]
    assert found.digest == loaded(inside).conf.digest
    assert from_data(yaml.safe_load(PRINTED), CATALOGUE).conf.digest == found.digest
    position = found.position("tiers[0].plugins[1].enablePreemptable")
    assert position is not None
    assert PRINTED.splitlines()[position.line - 1][position.column - 1 :].startswith("enablePreemptable")


def test_problems_of_a_conf_inside_name_their_place_in_the_file() -> None:
    text = PRINTED.replace("enqueue, allocate", "enqueue, alocate")
    (said,) = problems(text)
    line, column = text.split("alocate")[0].count("\n") + 1, 24
    assert said.startswith(f"conf.yaml:{line}:{column}: actions[1]: unknown action 'alocate'")


@pytest.mark.parametrize(
    ("data", "actions"),
    [
        ({"config.yaml": "dialect: kai\nactions: allocate"}, ("kai/allocate",)),
        ({"anything": "actions: allocate"}, ("allocate",)),
        ({"volcano-scheduler.conf": DEFAULT_CONF, "other": "x"}, ("enqueue", "allocate", "backfill")),
    ],
)
def test_the_key_of_a_config_map_is_volcanos_kais_or_the_only_one(
    data: dict[str, str], actions: tuple[str, ...]
) -> None:
    text = yaml.safe_dump({"apiVersion": "v1", "kind": "ConfigMap", "data": data})
    assert loaded(text).conf.actions == actions


def test_a_shard_that_says_nothing_has_the_defaults_of_kais_operator() -> None:
    found = loaded(HEAD).conf
    assert [name.removeprefix("kai/") for name in found.actions] == list(ACTION_PRIORITIES)
    present = [name for name in PLUGIN_PRIORITIES if f"kai/{name}" in CATALOGUE.plugins and name != "gpuspread"]
    assert plugins(HEAD) == present
    assert arguments(HEAD, "nodeplacement") == {"gpu": "binpack", "cpu": "binpack"}
    assert found.action_arguments("kai") == {"schedulerParams": {"nodePoolLabelValue": ""}}
    assert loaded(HEAD).warnings == ()
    assert found.dialect == "kai"
    listed = yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": [yaml.safe_load(HEAD)]})
    assert loaded(listed).conf.digest == found.digest


@pytest.mark.parametrize(
    ("spec", "gone", "come"),
    [
        ("plugins: {elastic: {enabled: false}}", {"elastic"}, set()),
        ("placementStrategy: {gpu: spread}", {"gpupack", "gpusharingorder"}, {"gpuspread"}),
        (
            "placementStrategy: {gpu: spread}\n  plugins: {gpuspread: {enabled: false}, gpupack: {enabled: true}}",
            {"gpusharingorder"},
            set(),
        ),
        ("plugins: {numa: {priority: 1050}}", set(), {"numa"}),
    ],
)
def test_a_shard_switches_plugins_as_kais_page_says(spec: str, gone: set[str], come: set[str]) -> None:
    before, after = set(plugins(HEAD)), set(plugins(f"{HEAD}spec:\n  {spec}\n"))
    assert (before - after, after - before) == (gone, come)


def test_a_shard_orders_plugins_by_priority_and_then_by_name() -> None:
    found = plugins(f"{HEAD}spec: {{plugins: {{predicates: {{priority: 50}}, numa: {{priority: 1050}}}}}}\n")
    assert found[-1] == "predicates"
    assert found.index("ray") < found.index("numa") < found.index("subgrouporder")
    tied = plugins(f"{HEAD}spec: {{plugins: {{numa: {{priority: 900}}}}}}\n")
    assert tied.index("numa") + 1 == tied.index("taskorder")


@pytest.mark.parametrize("strategy", ["{gpu: spread}", "{cpu: spread}", "{gpu: spread, cpu: spread}"])
def test_a_shard_that_spreads_does_not_consolidate_unless_it_says_so(strategy: str) -> None:
    text = f"{HEAD}spec:\n  placementStrategy: {strategy}\n"
    assert "kai/consolidation" not in loaded(text).conf.actions
    assert "kai/consolidation" in loaded(f"{text}  actions: {{consolidation: {{enabled: true}}}}\n").conf.actions


def test_other_fields_of_a_shard_become_arguments_and_arguments_replace_them() -> None:
    text = f"{HEAD}spec:\n  kValue: 0.5\n  minRuntime: {{preemptMinRuntime: 10m, reclaimMinRuntime: 5m}}\n"
    assert arguments(text, "proportion") == {"kValue": 0.5}
    times = {"defaultPreemptMinRuntime": "10m", "defaultReclaimMinRuntime": "5m"}
    assert arguments(text, "minruntime") == times
    replaced = f"{text}  plugins: {{proportion: {{arguments: {{kValue: '2.0'}}}}, minruntime: {{priority: 1}}}}\n"
    assert arguments(replaced, "proportion") == {"kValue": "2.0"}
    assert arguments(replaced, "minruntime") == times


def test_a_shard_sets_what_kai_has_as_flags_depths_and_budgets() -> None:
    found = loaded(
        f"{HEAD}spec:\n  partitionLabelValue: gpu-nodes\n  queueDepthPerAction: {{preempt: 15}}\n"
        "  args: {max-consolidation-preemptees: '4', use-scheduling-signatures: 'false', queue-label-key: q}\n"
        "  usageDBConfig: {usageParams: {windowSize: 24h}}\n"
    ).conf.action_arguments("kai")
    parameters = {"nodePoolLabelValue": "gpu-nodes", "maxNumberConsolidationPreemptees": 4}
    assert found == {
        "schedulerParams": {**parameters, "useSchedulingSignatures": False, "queueLabelKey": "q"},
        "queueDepthPerAction": {"preempt": 15},
        "usageDBConfig": {"usageParams": {"windowSize": "24h"}},
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("plugins: {elastik: {enabled: true}}", "4:18: spec.plugins.elastik: unknown plugin 'elastik'"),
        ("plugins: {ray: {enabled: maybe}}", "4:33: spec.plugins.ray.enabled: must be true or false"),
        ("plugins: {ray: {priority: high}}", "4:34: spec.plugins.ray.priority: must be a whole number"),
        ("plugins: {proportion: {arguments: {a: b}}}", "spec.plugins.proportion.arguments.a: plugin 'proportion'"),
        ("actions: {backfill: {enabled: true}}", "spec.actions.backfill: action 'backfill'"),
        ("placementStrategy: {gpu: pack}", "4:33: spec.placementStrategy.gpu: must be binpack or spread, got 'pack'"),
        ("args: {leader-elect: 'true'}", "4:15: spec.args.leader-elect: 'leader-elect' is a flag of KAI's process"),
        ("args: {max-consolidation-preemptees: many}", "spec.args.max-consolidation-preemptees: must be a whole"),
        ("queueDepthPerAction: {reclaim: x}", "spec.queueDepthPerAction.reclaim: must be a whole number"),
        ("nodes: 3", "4:8: spec.nodes: unknown key 'nodes'"),
    ],
)
def test_problems_of_a_shard_are_told_by_its_own_fields(text: str, said: str) -> None:
    found = problems(f"{HEAD}spec: {{{text}}}\n")
    assert any(said in line for line in found), found
    assert not any("kai/" in line or "tiers" in line for line in found), found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind: Config\napiVersion: kai.scheduler/v1\nspec: {}\n", "is a SchedulingShard"),
        ("kind: Queue\nmetadata: {name: q}\n", "got kind 'Queue'"),
        (
            "kind: ConfigMap\ndata: {a: x, b: y}\n",
            "must have a key 'volcano-scheduler.conf' or 'config.yaml', got a, b",
        ),
        ("kind: List\nitems: [{}, {}]\n", "must hold one configuration, got 2 objects"),
        ("kind: ConfigMap\ndata:\n  c: |\n    a: [\n", "not YAML"),
    ],
)
def test_an_object_that_is_no_conf_is_one_clear_line(text: str, said: str) -> None:
    (line,) = problems(text)
    assert said in line
