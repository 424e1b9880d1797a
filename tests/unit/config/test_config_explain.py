from __future__ import annotations

from pumice.config import DEFAULT_CONF, HELM_CONF, Catalogue, HookInfo, Stop, load
from pumice.config.explain import HookChain, Link, explain, render


def chain(text: str, catalogue: Catalogue, hook: str) -> HookChain:
    return next(chain for chain in explain(load(text, catalogue).conf, catalogue.hooks) if chain.hook == hook)


def running(found: HookChain) -> list[tuple[int, tuple[str, ...]]]:
    return [(tier.number, tier.running) for tier in found.tiers]


def test_a_chain_follows_tiers_and_lists_only_who_registers(catalogue: Catalogue) -> None:
    found = chain(DEFAULT_CONF, catalogue, "job_order")
    assert running(found) == [(1, ("priority", "gang")), (2, ("drf",))]
    assert (found.flag, found.fold) == ("enableJobOrder", "first that is not 0")
    assert found.ends == "the first decisive answer ends it"


def test_every_hook_has_a_chain_in_the_order_given(catalogue: Catalogue) -> None:
    chains = explain(load(DEFAULT_CONF, catalogue).conf, catalogue.hooks)
    assert [found.hook for found in chains] == [hook.name for hook in catalogue.hooks]
    assert chains[-1].tiers == ()


def test_a_switched_off_plugin_stays_visible_with_the_reason(catalogue: Catalogue) -> None:
    text = HELM_CONF.replace("backfill", "preempt")
    found = chain(text, catalogue, "preemptable")
    assert running(found) == [(1, ("priority", "conformance")), (2, ())]
    assert found.tiers[0].links[1] == Link("gang", "tiers[0].plugins[1]", "enablePreemptable is false")


def test_a_plugin_that_registers_only_under_a_flag_is_told_apart(catalogue: Catalogue) -> None:
    found = chain(DEFAULT_CONF, catalogue, "queue_order")
    assert running(found) == [(2, ("proportion",))]
    assert found.tiers[0].links[0].off == "registers only with enableHierarchy: true"
    text = "actions: allocate\ntiers: [{plugins: [{name: drf, enableHierarchy: true}]}]"
    assert running(chain(text, catalogue, "queue_order")) == [(1, ("drf",))]


def test_tiers_behind_the_deciding_one_are_never_reached(catalogue: Catalogue) -> None:
    text = """\
actions: preempt
tiers:
- plugins: [{name: gang, enableJobStarving: false}]
- plugins: [{name: priority}, {name: tdm}]
- plugins: [{name: gang}]
"""
    found = chain(text, catalogue, "job_starving")
    assert running(found) == [(1, ()), (2, ("priority", "tdm")), (3, ())]
    assert found.tiers[2].links[0].off == "never reached: priority in tier 2 decides"


def test_plugins_behind_the_only_one_that_is_asked_are_never_reached(catalogue: Catalogue) -> None:
    text = "actions: allocate\ntiers: [{plugins: [{name: site-policy}, {name: network-topology-aware}]}]"
    found = chain(text, catalogue, "hyper_node_gradient")
    assert running(found) == [(1, ("site-policy",))]


def test_a_hook_that_no_action_asks_is_marked(catalogue: Catalogue) -> None:
    assert not chain(DEFAULT_CONF, catalogue, "preemptable").asked
    assert chain(DEFAULT_CONF, catalogue, "job_enqueueable").asked
    assert chain(DEFAULT_CONF, catalogue, "job_order").asked  # nobody said who asks it


def test_own_words_for_the_short_circuit_come_first(catalogue: Catalogue) -> None:
    hook = HookInfo("x", short_circuit="a Reject ends it at once", stop=Stop.TIER)
    assert explain(load(DEFAULT_CONF, catalogue).conf, [hook])[0].ends == "a Reject ends it at once"


def test_a_hook_is_found_under_both_spellings(catalogue: Catalogue) -> None:
    assert catalogue.hook("JobOrder") is catalogue.hook("job_order") is not None
    assert catalogue.hook("JobOrders") is None


def test_the_text_shows_what_runs_what_does_not_and_why(catalogue: Catalogue) -> None:
    conf = load(HELM_CONF, catalogue).conf
    names = ("job_order", "queue_order", "preemptable", "target_job", "job_valid")
    hooks = [hook for hook in catalogue.hooks if hook.name in names]
    assert (
        render(explain(conf, hooks))
        == """\
job_order (enableJobOrder)
  first that is not 0
  tier 1: priority -> gang
  tier 2: drf

queue_order (enableQueueOrder)
  the first decisive answer ends it
  tier 2: proportion
    not drf: registers only with enableHierarchy: true

job_valid (no flag)
  the first decisive answer ends it
  tier 1: gang

unused extension points: target_job
plugins would answer, but no action of this conf asks: preemptable
"""
    )
