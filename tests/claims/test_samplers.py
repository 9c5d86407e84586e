"""Samples at any scale: which lengths are multiplied, by what, and that no true claim is violated by them."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from attnflow.claims import Claim, get
from attnflow.claims import all as all_claims
from attnflow.claims.check import decide
from attnflow.claims.instances import read
from attnflow.claims.samplers import KINDS, at_any_scale

SCALED = [claim for claim in all_claims() if claim.setting.lengths and "tokens" in claim.setting.parameters]
TRUE = [claim for claim in SCALED if claim.status in ("proved", "derived")]


@pytest.mark.parametrize("claim", SCALED, ids=lambda claim: claim.id)
def test_every_other_sample_is_multiplied_by_a_power_of_two(claim: Claim) -> None:
    setting, exponents = claim.setting, []
    for k in range(2 * len(KINDS)):
        plain, drawn = setting.sample(np.random.default_rng([3, k]), k), setting.drawn(3, k)
        factor = 1.0 if not at_any_scale(k) else np.abs(drawn["tokens"]).max() / (np.abs(plain["tokens"]).max() or 1.0)
        for name, value in plain.items():
            if name in setting.lengths and value is not None:
                np.testing.assert_array_equal(drawn[name], factor * np.asarray(value))
            else:
                assert same(drawn[name], value)
        if at_any_scale(k) and plain["tokens"].any():
            exponents.append(np.log2(factor))
    low, high = setting.scales
    assert all(exponent == round(exponent) and low <= exponent <= high for exponent in exponents)
    assert len(set(exponents)) > 1


def test_both_ends_of_the_scales_are_drawn() -> None:
    setting = replace(get("fw/cluster-rate").setting, scales=(2, 3))
    plain = [setting.sample(np.random.default_rng([seed, 1]), 1)["tokens"] for seed in range(20)]
    factors = {float(np.abs(setting.drawn(seed, 1)["tokens"]).max() / np.abs(x).max()) for seed, x in enumerate(plain)}
    assert factors == {4.0, 8.0}


def test_default_checks_see_other_scales_and_two_rounds_see_every_kind_both_ways() -> None:
    for claim in SCALED:
        rescaled = [at_any_scale(k) for k in range(claim.setting.samples)]
        assert 0.4 <= np.mean(rescaled) <= 0.6
    for kind in range(len(KINDS)):
        assert {at_any_scale(kind), at_any_scale(kind + len(KINDS))} == {True, False}


@pytest.mark.parametrize("claim", all_claims(), ids=lambda claim: claim.id)
def test_samples_of_every_kind_have_parameters_of_the_claim(claim: Claim) -> None:
    """Eight of them go through all kinds that a sampler has, also those that a default check does not reach."""
    for k in range(8):
        drawn = claim.setting.drawn(1, k)
        assert drawn.keys() <= claim.setting.parameters.keys()
        assert read(claim, drawn, 1).keys() >= drawn.keys()


def same(one: Any, other: Any) -> bool:
    return one is other or np.array_equal(np.asarray(one, dtype=object), np.asarray(other, dtype=object))


# Flows take a tenth of a second each, layers a hundredth.
CHEAP = ("fw/", "hardmax/", "localmax/", "neuralode/", "emergence/distances", "emergence/mean-field")
ALL = "ATTNFLOW_EXAMPLES" in os.environ


@pytest.mark.parametrize("claim", TRUE, ids=lambda claim: claim.id)
def test_no_true_claim_is_violated_at_any_scale(claim: Claim) -> None:
    if not ALL and not claim.id.startswith(CHEAP):
        pytest.skip("long: make test-all")
    for k in filter(at_any_scale, range(16 * len(KINDS) if ALL else 4)):
        verdict = decide(claim, read(claim, claim.setting.drawn(5, k), 5))
        assert verdict.outcome != "violated", (k, verdict.because)
