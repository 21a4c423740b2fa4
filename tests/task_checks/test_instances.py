"""Law 11 tells instances that differ from copies, and names what is missing."""

import json

import pytest

from harness.task_checks.instances import InstanceResult, InstanceSpread, check_instances, describe_shape


def spread(scores: list[float], courses: str) -> InstanceSpread:
    return InstanceSpread(
        tuple(InstanceResult(seed, score, course, 3) for seed, (score, course) in enumerate(zip(scores, courses, strict=True)))
    )


def test_instances_that_differ_pass() -> None:
    instances = spread([0.5, 0.6, 0.7, 0.6], "abcd")
    assert list(check_instances(instances)) == []
    assert instances.mean_score == pytest.approx(0.6)
    assert instances.distinct_share == 1.0
    assert instances.standard_deviation == pytest.approx(0.0816, abs=1e-4)


@pytest.mark.parametrize(
    ("scores", "courses", "words"),
    [
        ([0.6, 0.61, 0.6, 0.61], "abcd", "standard deviation"),
        ([0.95, 0.8, 1.0, 0.9], "abcd", "mean score is 0.912"),
        ([0.0, 0.2, 0.1, 0.2], "abcd", "mean score is 0.125"),
        ([0.5, 0.6, 0.7, 0.6], "aaab", "only 50 % of the seeds"),
        ([0.5, 0.5, 0.5, 0.5], "aaaa", "all 4 seeds repeat one case: the same calls with the same verdicts; draw the structure"),
    ],
)
def test_each_lack_is_named(scores: list[float], courses: str, words: str) -> None:
    (finding,) = check_instances(spread(scores, courses))
    assert words in finding.message


def test_a_single_seed_shows_no_difference() -> None:
    assert spread([0.5], "a").standard_deviation == 0.0


def test_a_shape_counts_lines_and_not_words() -> None:
    shapes = [describe_shape(json.dumps({"path": path, "content": text})) for path, text in (("a", "x\ny"), ("b", "z\nw"))]
    assert shapes[0] == shapes[1] == [("path", 1), ("content", 2)]
    assert describe_shape(json.dumps({"path": "a", "content": "x"})) != shapes[0]
