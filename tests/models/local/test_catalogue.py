"""The catalogue of local models."""

import re

import pytest

from harness.conversation.tokens import Measured, Usage
from harness.errors import UnknownName
from harness.models.local.catalogue import CATALOGUE, is_local, look_up_weights
from harness.models.prices import FREE_PRICE, compute_cost_usd, look_up_prices
from harness.models.registry import look_up_window


def test_a_wrong_name_is_refused_with_the_nearest_one():
    assert is_local("local/smollm2-135")
    with pytest.raises(UnknownName, match="did you mean 'local/smollm2-135m'"):
        look_up_weights("local/smollm2-135")


def test_every_package_is_pinned_and_every_model_has_files_of_its_own():
    packages = [package for weights in CATALOGUE.values() for package in weights.packages]
    assert all(re.fullmatch(r"[a-z0-9-]+==[0-9.]+", package) for package in packages)
    assert len(set(packages)) == len(packages)
    assert len({weights.file_name for weights in CATALOGUE.values()}) == len(CATALOGUE)
    assert all(re.fullmatch(r"[0-9a-f]{64}", weights.sha256) for weights in CATALOGUE.values())


@pytest.mark.parametrize("name", CATALOGUE)
def test_windows_are_known_and_prices_are_zero_rather_than_unknown(name):
    window = look_up_window(name)
    assert (window.tokens, window.source) == (CATALOGUE[name].window_tokens, "registry")
    assert look_up_window(name, 2_000).tokens == 2_000
    assert look_up_prices(name) == (FREE_PRICE,)
    assert compute_cost_usd(name, Usage(input_tokens=Measured(0), output_tokens=Measured(10**6))) == 0.0
